// The integral volume of a level; the twin of `pbt_volume::IntegralVolume`.

#include "constants.cuh"

// Images that lie one after the other, blocks along z, each padded: `pad` voxels on every side, the
// border's or zeros.
struct Source {
    const u16 *voxels;
    int nx, ny, nz;
    int pad;
    int edge;
    int px, py, pz;  // with the padding
};

// Moves on to the image of the block.
template <class Sums>
__device__ __forceinline__ void to_image(Source &s, Sums *&bands, Sums *&slabs) {
    s.voxels += (u64)blockIdx.z * s.nx * s.ny * s.nz;
    bands += (u64)blockIdx.z * s.pz * gridDim.x * s.px;
    slabs += (u64)blockIdx.z * gridDim.y * (s.py + gridDim.x) * s.px;
}

// Row y of plane z of the padded image, null where it is zero.
__device__ __forceinline__ const u16 *row_of(const Source &s, int y, int z) {
    int j = y - s.pad, k = z - s.pad;
    if (s.edge) {
        j = min(max(j, 0), s.ny - 1);
        k = min(max(k, 0), s.nz - 1);
    } else if (j < 0 || j >= s.ny || k < 0 || k >= s.nz) {
        return nullptr;
    }
    return s.voxels + ((u64)k * s.ny + j) * s.nx;
}

__device__ __forceinline__ u32 voxel_of(const Source &s, const u16 *row, int x) {
    int i = x - s.pad;
    if (s.edge) return row[min(max(i, 0), s.nx - 1)];
    return i >= 0 && i < s.nx ? row[i] : 0;
}

// The voxels x … x + 3 of row y of plane z of the padded image, two a word.
__device__ __forceinline__ uint2 load_padded(const Source &s, int x, int y, int z) {
    const u16 *row = row_of(s, y, z);
    if (!row) return make_uint2(0, 0);
    auto voxel = [&](int x) { return x < s.px ? voxel_of(s, row, x) : 0; };
    return make_uint2(voxel(x) | voxel(x + 1) << 16, voxel(x + 2) | voxel(x + 3) << 16);
}

// The voxels of a thread's columns and rows, plane after plane; those beyond the padded image are
// 0. Without padding, rows are whole numbers of segments.
template <bool PADDED>
struct Reader {
    const u16 *at;
    int x, y, z;

    __device__ __forceinline__ Reader(const Source &s, int x, int y, int z)
        : at(s.voxels + ((u64)z * s.ny + y) * s.nx + x), x(x), y(y), z(z) {}

    __device__ __forceinline__ void next(const Source &s, uint2 (&voxels)[SEGMENT_ROWS]) {
        bool there = z < s.pz && x < s.px;
#pragma unroll
        for (int r = 0; r < SEGMENT_ROWS; r++) {
            voxels[r] = make_uint2(0, 0);
            if (there && y + r < s.py)
                voxels[r] =
                    PADDED ? load_padded(s, x, y + r, z) : __ldg((const uint2 *)(at + r * s.nx));
        }
        z++;
        at += s.nx * s.ny;
    }
};

__device__ __forceinline__ void add_voxels(u32 (&sums)[SEGMENT], const uint2 &v) {
    sums[0] += v.x & 0xffff;
    sums[1] += v.x >> 16;
    sums[2] += v.y & 0xffff;
    sums[3] += v.y >> 16;
}

__device__ __forceinline__ void store_sums(u32 *to, int x, int px, const u32 (&sums)[SEGMENT]) {
    if (px % SEGMENT == 0) {
        if (x < px) *(uint4 *)(to + x) = make_uint4(sums[0], sums[1], sums[2], sums[3]);
    } else {
#pragma unroll
        for (int i = 0; i < SEGMENT; i++)
            if (x + i < px) to[x + i] = sums[i];
    }
}

__device__ __forceinline__ void load_sums(const u32 *from, int x, int px, u32 (&sums)[SEGMENT]) {
    if (px % SEGMENT == 0) {
        uint4 four = x < px ? __ldg((const uint4 *)(from + x)) : make_uint4(0, 0, 0, 0);
        sums[0] = four.x;
        sums[1] = four.y;
        sums[2] = four.z;
        sums[3] = four.w;
    } else {
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) sums[i] = x + i < px ? __ldg(from + x + i) : 0;
    }
}

// The two passes over the image have the same blocks: a band of blockDim.y · SEGMENT_ROWS rows in a
// slab of planes. The threads of one y are a group: they have SEGMENT_ROWS rows, and every thread
// SEGMENT columns of them.

// First pass: sums over the rows of the band in each plane, [z][band][x]; and of each column over
// the planes of the slab, [slab][y][x], followed by [slab][band][x]. Dynamic shared memory: 2 · 16
// bytes a thread.
template <bool PADDED>
__device__ __forceinline__ void sums_pass(
    const Source &s, int slab_planes, u32 *bands, u32 *slabs
) {
    extern __shared__ uint4 of_groups[];  // [2][group][thread], by turns
    int x = threadIdx.x * SEGMENT, group = threadIdx.y, groups = blockDim.y, band = blockIdx.x,
        slab = blockIdx.y;
    int band_count = gridDim.x, first_row = (band * groups + group) * SEGMENT_ROWS;
    int end = min((slab + 1) * slab_planes, s.pz);
    // Sums over the groups of what every thread gave for its columns, by one group, another one
    // each time.
    auto add_groups = [&](int turn, const u32(&own)[SEGMENT], u32 *to) {
        uint4 *here = of_groups + (turn & 1) * groups * blockDim.x;
        here[group * blockDim.x + threadIdx.x] = make_uint4(own[0], own[1], own[2], own[3]);
        __syncthreads();
        if (turn % groups == group) {
            u32 sums[SEGMENT] = {};
            for (int g = 0; g < groups; g++) {
                uint4 four = here[g * blockDim.x + threadIdx.x];
                sums[0] += four.x;
                sums[1] += four.y;
                sums[2] += four.z;
                sums[3] += four.w;
            }
            store_sums(to, x, s.px, sums);
        }
    };
    u32 columns[SEGMENT_ROWS][SEGMENT] = {};
    uint2 voxels[SEGMENT_ROWS];
    Reader<PADDED> reader(s, x, first_row, slab * slab_planes);
    reader.next(s, voxels);
    for (int z = slab * slab_planes; z < end; z++) {
        u32 sums[SEGMENT] = {};
#pragma unroll
        for (int r = 0; r < SEGMENT_ROWS; r++) {
            add_voxels(columns[r], voxels[r]);
            add_voxels(sums, voxels[r]);
        }
        reader.next(s, voxels);
        add_groups(z, sums, bands + ((u64)z * band_count + band) * s.px);
    }
    u32 *slab_sums = slabs + (u64)slab * (s.py + band_count) * s.px;
    u32 whole[SEGMENT] = {};
#pragma unroll
    for (int r = 0; r < SEGMENT_ROWS; r++) {
        if (first_row + r < s.py)
            store_sums(slab_sums + (u64)(first_row + r) * s.px, x, s.px, columns[r]);
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) whole[i] += columns[r][i];
    }
    add_groups(end, whole, slab_sums + (u64)(s.py + band) * s.px);
}

// Exclusive sums along the middle axis of [outer][n][inner], in place; a thread a line.
extern "C" __global__ void integral_scan(u32 *values, u32 outer, u32 n, u32 inner) {
    u64 line = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= (u64)outer * inner) return;
    u32 *at = values + line / inner * n * inner + line % inner;
    u32 sum = 0;
    u32 i = 0;
    for (; i + 8 <= n; i += 8) {
        u32 part[8];
#pragma unroll
        for (int k = 0; k < 8; k++) part[k] = at[(u64)(i + k) * inner];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            at[(u64)(i + k) * inner] = sum;
            sum += part[k];
        }
    }
    for (; i < n; i++) {
        u32 value = at[(u64)i * inner];
        at[(u64)i * inner] = sum;
        sum += value;
    }
}

// Second pass: the table, from the scanned sums. A thread keeps the sums of its columns over the
// planes so far. In each plane it sums them from its group's first row and from its warp's first
// column on; what is above the band comes from `bands` and is the first group's from the start,
// what is above in the block and left in the row comes through shared memory.
//
// Rows are summed twice, once for the others and once for the table, rather than kept in registers.
// Dynamic shared memory: 2 · 16 bytes a thread, 2 · 16 bytes a warp, 1 KB a warp.
template <bool PADDED>
__device__ __forceinline__ void write_pass(
    const Source &s, int slab_planes, const u32 *bands, const u32 *slabs, u32 *table
) {
    extern __shared__ uint4 of_groups[];  // [2][group][thread], by turns: the group's last row
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    int group = threadIdx.y, groups = blockDim.y, in_block = group * warps + warp;
    uint4 *totals = of_groups + 2 * groups * blockDim.x;  // [2][group][warp]: of its rows
    u32 *staging = (u32 *)(totals + 2 * groups * warps) +
                   in_block * (2 * 32 * SEGMENT);  // of this warp, by turns
    int x = threadIdx.x * SEGMENT, band = blockIdx.x, slab = blockIdx.y;
    int band_count = gridDim.x, first_row = (band * groups + group) * SEGMENT_ROWS;
    int end = min((slab + 1) * slab_planes, s.pz);
    int column = warp * 32 * SEGMENT + lane;  // the first that the thread writes
    u64 row_stride = s.px + 1, plane_stride = row_stride * (s.py + 1);

    const u32 *slab_sums = slabs + (u64)slab * (s.py + band_count) * s.px;
    u32 columns[SEGMENT_ROWS][SEGMENT] = {};
    u32 above[SEGMENT] = {}, band_sums[SEGMENT] = {};
#pragma unroll
    for (int r = 0; r < SEGMENT_ROWS; r++)
        if (first_row + r < s.py)
            load_sums(slab_sums + (u64)(first_row + r) * s.px, x, s.px, columns[r]);
    if (group == 0) {
#pragma unroll 8
        for (int b = 0; b < band; b++) {
            load_sums(slab_sums + (u64)(s.py + b) * s.px, x, s.px, band_sums);
#pragma unroll
            for (int i = 0; i < SEGMENT; i++) above[i] += band_sums[i];
        }
        load_sums(bands + ((u64)slab * slab_planes * band_count + band) * s.px, x, s.px, band_sums);
    }
    uint2 voxels[SEGMENT_ROWS];
    Reader<PADDED> reader(s, x, first_row, slab * slab_planes);
    reader.next(s, voxels);
    for (int z = slab * slab_planes; z < end; z++) {
        u32 running[SEGMENT], before[SEGMENT_ROWS];
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) {
            above[i] += band_sums[i];
            running[i] = above[i];
        }
#pragma unroll
        for (int r = 0; r < SEGMENT_ROWS; r++) {
            add_voxels(columns[r], voxels[r]);
            before[r] = 0;
#pragma unroll
            for (int i = 0; i < SEGMENT; i++) {
                running[i] += columns[r][i];
                before[r] += running[i];
            }
        }
        // The next plane is on its way while this one is scanned and written.
        reader.next(s, voxels);
        if (group == 0 && z + 1 < end)
            load_sums(bands + ((u64)(z + 1) * band_count + band) * s.px, x, s.px, band_sums);
#pragma unroll
        for (u32 step = 1; step < 32; step *= 2) {
#pragma unroll
            for (int r = 0; r < SEGMENT_ROWS; r++) {
                u32 left = __shfl_up_sync(~0u, before[r], step);
                if (lane >= step) before[r] += left;
            }
        }
        // `before` ends with the thread's last column.
        uint4 *rows_here = of_groups + (z & 1) * groups * blockDim.x + threadIdx.x,
              *totals_here = totals + (z & 1) * groups * warps;
        u32 last = before[SEGMENT_ROWS - 1], third = last - running[3], second = third - running[2];
        rows_here[group * blockDim.x] = make_uint4(second - running[1], second, third, last);
        if (lane == 31)
            totals_here[in_block] = make_uint4(before[0], before[1], before[2], before[3]);
        __syncthreads();
        u32 add[SEGMENT] = {};
        for (int g = 0; g < group; g++) {
            uint4 four = rows_here[g * blockDim.x];
            for (u32 w = 0; w < warp; w++) add[0] += totals_here[g * warps + w].w;
            add[1] += four.y - four.x;
            add[2] += four.z - four.x;
            add[3] += four.w - four.x;
            add[0] += four.x;
        }
        for (int i = 1; i < SEGMENT; i++) add[i] += add[0];
        for (u32 w = 0; w < warp; w++) {
            uint4 four = totals_here[group * warps + w];
            before[0] += four.x;
            before[1] += four.y;
            before[2] += four.z;
            before[3] += four.w;
        }
        u32 *row =
            table + (u64)(z + 1) * plane_stride + (u64)(first_row + 1) * row_stride + column + 1;
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) running[i] = above[i];
#pragma unroll
        for (int r = 0; r < SEGMENT_ROWS; r++) {
#pragma unroll
            for (int i = 0; i < SEGMENT; i++) running[i] += columns[r][i];
            u32 third = before[r] - running[3], second = third - running[2],
                first = second - running[1];
            if (first_row + r < s.py) {
                // Neighbouring lanes write neighbouring words.
                u32 *staged = staging + (r & 1) * 32 * SEGMENT;
                *(uint4 *)(staged + lane * SEGMENT) =
                    make_uint4(first + add[0], second + add[1], third + add[2], before[r] + add[3]);
                __syncwarp();
                u32 values[SEGMENT];
#pragma unroll
                for (int i = 0; i < SEGMENT; i++) values[i] = staged[i * 32 + lane];
#pragma unroll
                for (int i = 0; i < SEGMENT; i++)
                    if (column + i * 32 < s.px) row[i * 32] = values[i];
                if (column == 0) row[-1] = 0;
                row += row_stride;
            }
        }
        __syncwarp();
        // The lowest row of a plane is zero.
        if (band == 0 && group == 0)
            for (u32 i = threadIdx.x; i < row_stride; i += blockDim.x)
                table[(u64)(z + 1) * plane_stride + i] = 0;
    }
    // The lowest plane of the table is zero.
    if (slab == 0) {
        u64 first = first_row == 0 ? 0 : (u64)(first_row + 1) * row_stride,
            last = (u64)(min(first_row + SEGMENT_ROWS, s.py) + 1) * row_stride;
        for (u64 i = first + threadIdx.x; i < last; i += blockDim.x) table[i] = 0;
    }
}

// At most INTEGRAL_THREADS threads; the first pass is the faster the more of its blocks run at a
// time, the second wants its registers. `direct`: there is no padding and rows are whole numbers of
// segments.
#define INTEGRAL(SUMS, WRITE, PADDED)                                             \
    extern "C" __global__ __launch_bounds__(INTEGRAL_THREADS, 2) void SUMS(       \
        Source s, int slab_planes, u32 *bands, u32 *slabs                         \
    ) {                                                                           \
        to_image(s, bands, slabs);                                                \
        sums_pass<PADDED>(s, slab_planes, bands, slabs);                          \
    }                                                                             \
    extern "C" __global__ __launch_bounds__(INTEGRAL_THREADS, 1) void WRITE(      \
        Source s, int slab_planes, const u32 *bands, const u32 *slabs, u32 *table \
    ) {                                                                           \
        to_image(s, bands, slabs);                                                \
        table += (u64)blockIdx.z * (s.px + 1) * (s.py + 1) * (s.pz + 1);          \
        write_pass<PADDED>(s, slab_planes, bands, slabs, table);                  \
    }
INTEGRAL(integral_sums, integral_write, true)
INTEGRAL(integral_sums_direct, integral_write_direct, false)
