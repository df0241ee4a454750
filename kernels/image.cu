// The tables of a case: the integral volume and the channels of a level; twins of `pbt_volume::IntegralVolume` and `pbt_features::ChannelVolume`.

#include "common.cuh"

#define SEGMENT 4  // columns of a thread that lie side by side

// The padded image: `pad` voxels on every side, the border's or zeros.
struct Source {
    const u16 *voxels;
    int nx, ny, nz;
    int pad;
    int edge;
    int px, py, pz;  // with the padding
};

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

// The voxels x … x + 3 of row y of plane z, those beyond the padded image 0.
__device__ __forceinline__ ushort4 load_voxels(const Source &s, int x, int y, int z) {
    const u16 *row = z < s.pz && y < s.py && x < s.px ? row_of(s, y, z) : nullptr;
    if (!row) return make_ushort4(0, 0, 0, 0);
    if (s.pad == 0 && s.nx % SEGMENT == 0) return __ldg((const ushort4 *)(row + x));
    auto voxel = [&](int x) { return (u16)(x < s.px ? voxel_of(s, row, x) : 0); };
    return make_ushort4(voxel(x), voxel(x + 1), voxel(x + 2), voxel(x + 3));
}

// The voxels of the thread's columns in the rows of a band.
template <int ROWS>
__device__ __forceinline__ void load_band(const Source &s, int x, int band, int z, ushort4 (&voxels)[ROWS]) {
#pragma unroll
    for (int y = 0; y < ROWS; y++) voxels[y] = load_voxels(s, x, band * ROWS + y, z);
}

__device__ __forceinline__ void add_voxels(u32 (&sums)[SEGMENT], const ushort4 &v) {
    sums[0] += v.x;
    sums[1] += v.y;
    sums[2] += v.z;
    sums[3] += v.w;
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

// First pass over the image, a block a band of ROWS rows in a slab of planes: sums over the rows of the band in each plane, [z][band][x];
// and of each column over the planes of the slab, [slab][y][x], followed by [slab][band][x].
template <int ROWS>
__device__ __forceinline__ void integral_sums(Source s, int slab_planes, u32 *bands, u32 *slabs) {
    int x = threadIdx.x * SEGMENT, band = blockIdx.x, slab = blockIdx.y;
    int band_count = gridDim.x, rows = min(ROWS, s.py - band * ROWS);
    int end = min((slab + 1) * slab_planes, s.pz);
    u32 columns[ROWS][SEGMENT] = {};
    u32 whole[SEGMENT] = {};
    ushort4 voxels[ROWS], next[ROWS];
    load_band(s, x, band, slab * slab_planes, voxels);
    for (int z = slab * slab_planes; z < end; z++) {
        load_band(s, x, band, z + 1, next);
        u32 sums[SEGMENT] = {};
#pragma unroll
        for (int y = 0; y < ROWS; y++) {
            add_voxels(columns[y], voxels[y]);
            add_voxels(sums, voxels[y]);
            voxels[y] = next[y];
        }
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) whole[i] += sums[i];
        store_sums(bands + ((u64)z * band_count + band) * s.px, x, s.px, sums);
    }
    u32 *slab_sums = slabs + (u64)slab * (s.py + band_count) * s.px;
#pragma unroll
    for (int y = 0; y < ROWS; y++)
        if (y < rows) store_sums(slab_sums + (u64)(band * ROWS + y) * s.px, x, s.px, columns[y]);
    store_sums(slab_sums + (u64)(s.py + band) * s.px, x, s.px, whole);
}

// Exclusive sums along the middle axis of [outer][n][inner], in place; a thread a line.
extern "C" __global__ void image_scan(u32 *values, u32 outer, u32 n, u32 inner) {
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

// Second pass, blocks as in the first: the table, from the scanned sums. A thread keeps the sums of its columns over the planes so far; the
// sums of all columns above the band and left of the thread come from `bands` and from the scan across the block.
template <int ROWS>
__device__ __forceinline__ void integral_write(Source s, int slab_planes, const u32 *bands, const u32 *slabs, u32 *table) {
    extern __shared__ u32 shared[];
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    u32 *totals = shared;                                        // [ROWS][warps]
    u32 *staging = shared + ROWS * warps + warp * 32 * SEGMENT;  // of this warp
    int x = threadIdx.x * SEGMENT, band = blockIdx.x, slab = blockIdx.y;
    int band_count = gridDim.x, rows = min(ROWS, s.py - band * ROWS);
    int end = min((slab + 1) * slab_planes, s.pz);
    u64 row_stride = s.px + 1, plane_stride = row_stride * (s.py + 1);

    const u32 *slab_sums = slabs + (u64)slab * (s.py + band_count) * s.px;
    u32 columns[ROWS][SEGMENT];
    u32 above[SEGMENT] = {};
#pragma unroll
    for (int i = 0; i < SEGMENT; i++) {
        bool there = x + i < s.px;
#pragma unroll
        for (int y = 0; y < ROWS; y++) columns[y][i] = there && y < rows ? __ldg(slab_sums + (u64)(band * ROWS + y) * s.px + x + i) : 0;
        for (int b = 0; b < band; b++) above[i] += there ? __ldg(slab_sums + (u64)(s.py + b) * s.px + x + i) : 0;
    }
    ushort4 voxels[ROWS];
    load_band(s, x, band, slab * slab_planes, voxels);
    for (int z = slab * slab_planes; z < end; z++) {
        const u32 *band_sums = bands + ((u64)z * band_count + band) * s.px;
        u32 sums[ROWS][SEGMENT];
        u32 running[SEGMENT];
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) {
            above[i] += x + i < s.px ? __ldg(band_sums + x + i) : 0;
            running[i] = above[i];
        }
#pragma unroll
        for (int y = 0; y < ROWS; y++) {
            add_voxels(columns[y], voxels[y]);
            u32 along = 0;
#pragma unroll
            for (int i = 0; i < SEGMENT; i++) {
                running[i] += columns[y][i];
                along += running[i];
                sums[y][i] = along;
            }
            u32 before = along;
            for (u32 step = 1; step < 32; step *= 2) {
                u32 left = __shfl_up_sync(~0u, before, step);
                if (lane >= step) before += left;
            }
            if (lane == 31) totals[y * warps + warp] = before;
            before -= along;
#pragma unroll
            for (int i = 0; i < SEGMENT; i++) sums[y][i] += before;
        }
        // The next plane's voxels are on their way while this one's are written.
        load_band(s, x, band, z + 1, voxels);
        __syncthreads();
        u32 *plane = table + (u64)(z + 1) * plane_stride + (u64)(band * ROWS + 1) * row_stride;
#pragma unroll
        for (int y = 0; y < ROWS; y++) {
            u32 before = 0;
            for (u32 w = 0; w < warp; w++) before += totals[y * warps + w];
            if (y < rows) {
                u32 *row = plane + (u64)y * row_stride;
                if (threadIdx.x == 0) row[0] = 0;
                // Neighbouring lanes write neighbouring words.
                *(uint4 *)(staging + lane * SEGMENT) =
                    make_uint4(sums[y][0] + before, sums[y][1] + before, sums[y][2] + before, sums[y][3] + before);
                __syncwarp();
#pragma unroll
                for (int i = 0; i < SEGMENT; i++) {
                    u32 column = warp * 32 * SEGMENT + i * 32 + lane;
                    if (column < s.px) row[column + 1] = staging[i * 32 + lane];
                }
                __syncwarp();
            }
        }
        if (band == 0)
            for (u32 i = threadIdx.x; i < row_stride; i += blockDim.x) table[(u64)(z + 1) * plane_stride + i] = 0;
        __syncthreads();
    }
    // The lowest plane of the table is zero.
    if (slab == 0) {
        u64 first = (u64)(band * ROWS + (band > 0)) * row_stride, last = (u64)(band * ROWS + rows + 1) * row_stride;
        for (u64 i = first + threadIdx.x; i < last; i += blockDim.x) table[i] = 0;
    }
}

extern "C" __global__ __launch_bounds__(256) void image_sums_8(Source s, int slab_planes, u32 *bands, u32 *slabs) {
    integral_sums<8>(s, slab_planes, bands, slabs);
}
extern "C" __global__ __launch_bounds__(256) void image_write_8(Source s, int slab_planes, const u32 *bands, const u32 *slabs, u32 *table) {
    integral_write<8>(s, slab_planes, bands, slabs, table);
}
extern "C" __global__ __launch_bounds__(1024) void image_sums_4(Source s, int slab_planes, u32 *bands, u32 *slabs) {
    integral_sums<4>(s, slab_planes, bands, slabs);
}
extern "C" __global__ __launch_bounds__(1024) void image_write_4(Source s, int slab_planes, const u32 *bands, const u32 *slabs, u32 *table) {
    integral_write<4>(s, slab_planes, bands, slabs, table);
}

// Intensity and twice the central differences of a level, with a border of `border` voxels of zero intensity whose outermost layer has no gradient.
extern "C" __global__ void image_channels(const u16 *voxels, int nx, int ny, int nz, int border, short4 *channels) {
    int px = nx + 2 * border, py = ny + 2 * border, pz = nz + 2 * border;
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= (u64)px * py * pz) return;
    int x = n % px, y = n / px % py, z = n / ((u64)px * py);
    auto at = [=](int x, int y, int z) {
        int i = min(max(x, 0), px - 1) - border, j = min(max(y, 0), py - 1) - border, k = min(max(z, 0), pz - 1) - border;
        bool inside = i >= 0 && i < nx && j >= 0 && j < ny && k >= 0 && k < nz;
        return inside ? (int)voxels[((u64)k * ny + j) * nx + i] : 0;
    };
    auto difference = [](int a, int b) { return (short)min(max(a - b, -32768), 32767); };
    short4 to = make_short4((short)at(x, y, z), 0, 0, 0);
    bool outermost = border && (x == 0 || x == px - 1 || y == 0 || y == py - 1 || z == 0 || z == pz - 1);
    if (!outermost) {
        to.y = difference(at(x + 1, y, z), at(x - 1, y, z));
        to.z = difference(at(x, y + 1, z), at(x, y - 1, z));
        to.w = difference(at(x, y, z + 1), at(x, y, z - 1));
    }
    channels[n] = to;
}
