// Haar responses at voxels, and dense scores; twins of `haar.rs` and `voxels.rs` of `pbt-cpu`.

#include "waves.cuh"

// An integral volume: the table, the distances of rows and planes, and the place of voxel (0, 0, 0).
struct Table {
    const u32 *values;
    u32 row, plane, origin;
};

struct Site {
    u32 image;
    int x, y, z;
};

// Responses `[feature][site]` at scattered voxels. Taps are (x, y, z, weight); blocks of 256 sites × `per_block` features.
extern "C" __global__ void haar_responses(
    const Table *images, const Site *sites, u32 site_count, const int4 *taps, const u32 *first_taps, u32 features, u32 per_block, int *out
) {
    u32 s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= site_count) return;
    Site site = sites[s];
    Table table = images[site.image];
    const u32 *at = table.values + table.origin + (site.x + site.y * (int)table.row + site.z * (int)table.plane);
    u32 end = min((blockIdx.y + 1) * per_block, features);
    for (u32 f = blockIdx.y * per_block; f < end; f++) {
        u32 sum = 0;
        u32 last = __ldg(first_taps + f + 1);
#pragma unroll 4
        for (u32 t = __ldg(first_taps + f); t < last; t++) {
            int4 tap = __ldg(taps + t);
            sum += __ldg(at + (tap.x + tap.y * (int)table.row + tap.z * (int)table.plane)) * (u32)tap.w;
        }
        out[(u64)f * site_count + s] = (int)sum;
    }
}

// Taps as byte offsets into a table or tile with these distances of rows and planes.
extern "C" __global__ void haar_bind(const int4 *taps, u32 count, int row, int plane, int2 *bound) {
    u32 t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < count) bound[t] = make_int2(4 * (taps[t].x + taps[t].y * row + taps[t].z * plane), taps[t].w);
}

// The voxels of a level in blocks of 2^bits[0] × 2^bits[1] × 2^bits[2], and the part of the table that the features of such a block read:
// `extent` values from the corner `low` beside the first voxel's.
struct Blocks {
    int shape[3];
    int bits[3];
    int blocks[3];
    int low[3];
    int extent[3];
};

// The voxels of a block. `Reader` reads the table: the whole of it or the block's tile.
template <class Reader>
struct Voxels {
    Reader reader;
    const int2 *taps;
    u32 count;
    int bits[2];
    u32 nx, nxy;  // of a block that the border cuts
    bool whole;

    __device__ __forceinline__ u32 place(u32 index) const {
        if (whole) return index;
        u32 z = index / nxy, in_plane = index - z * nxy, y = in_plane / nx;
        return (z << (bits[0] + bits[1])) | y << bits[0] | (in_plane - y * nx);
    }

    __device__ __forceinline__ u32 base(u32 place) const {
        u32 x = place & ((1u << bits[0]) - 1), y = (place >> bits[0]) & ((1u << bits[1]) - 1), z = place >> (bits[0] + bits[1]);
        return reader.base(x, y, z);
    }

    template <int V>
    __device__ __forceinline__ void margins(const Forest &forest, u32 begin, u32 end, const u32 (&places)[V], int (&margins)[V]) const {
        u32 bases[V];
#pragma unroll
        for (int v = 0; v < V; v++) bases[v] = base(places[v]);
        for (u32 w = begin; w < end; w++) {
            Weak weak = load_weak(forest.weaks, w);
            u32 sums[V] = {};
            // Pairs of taps; the second of a last odd one has no weight.
            const int4 *pairs = (const int4 *)taps + weak.what;
#pragma unroll 3
            for (u32 p = 0; p < weak.how; p++) {
                int4 pair = __ldg(pairs + p);
#pragma unroll
                for (int v = 0; v < V; v++) sums[v] += reader.read(bases[v] + pair.x) * (u32)pair.y;
#pragma unroll
                for (int v = 0; v < V; v++) sums[v] += reader.read(bases[v] + pair.z) * (u32)pair.w;
            }
#pragma unroll
            for (int v = 0; v < V; v++) margins[v] += signed_alpha(weak, (int)sums[v]);
        }
    }
};

// The table in the device's memory; offsets are bytes from the block's first voxel.
struct WholeTable {
    const char *first;
    u32 row, plane;

    __device__ __forceinline__ u32 base(u32 x, u32 y, u32 z) const { return 4 * (x + y * row + z * plane); }
    __device__ __forceinline__ u32 read(u32 offset) const { return __ldg((const u32 *)(first + (int)offset)); }
};

// The part that a block reads, in shared memory.
struct Tile {
    const char *values;
    u32 row, plane, origin;

    __device__ __forceinline__ u32 base(u32 x, u32 y, u32 z) const { return 4 * (x + y * row + z * plane) + origin; }
    __device__ __forceinline__ u32 read(u32 offset) const { return *(const u32 *)(values + offset); }
};

__device__ __forceinline__ void first_voxel(const Blocks &b, u32 block, int (&first)[3]) {
    first[0] = (int)(block % b.blocks[0]) << b.bits[0];
    first[1] = (int)(block / b.blocks[0] % b.blocks[1]) << b.bits[1];
    first[2] = (int)(block / (b.blocks[0] * b.blocks[1])) << b.bits[2];
}

// Fills the tile; what lies outside the table is read by no voxel of the level.
__device__ __forceinline__ void load_tile(const Table &table, const Blocks &b, const int (&first)[3], u32 *tile) {
    int rows = b.extent[1] * b.extent[2];
    u32 warps = blockDim.x / 32, lane = threadIdx.x % 32;
    // A table begins `origin` before voxel (0, 0, 0), the same number of voxels on every axis.
    int pad = (int)(table.origin / (table.plane + table.row + 1));
    int lines = (int)(table.plane / table.row), planes = b.shape[2] + 2 * pad + 1;
#pragma unroll 8
    for (int r = threadIdx.x / 32; r < rows; r += warps) {
        int y = min(first[1] + b.low[1] + r % b.extent[1] + pad, lines - 1);
        int z = min(first[2] + b.low[2] + r / b.extent[1] + pad, planes - 1);
        const u32 *from = table.values + (u64)z * table.plane + (u64)y * table.row;
        for (int x = lane; x < b.extent[0]; x += 32) tile[r * b.extent[0] + x] = __ldg(from + min(first[0] + b.low[0] + x + pad, (int)table.row - 1));
    }
}

template <class Reader>
__device__ __forceinline__ Voxels<Reader> voxels_of(const Blocks &b, const int (&first)[3], Reader reader, const int2 *taps) {
    Voxels<Reader> voxels;
    u32 n[3];
    for (int a = 0; a < 3; a++) n[a] = min(1 << b.bits[a], b.shape[a] - first[a]);
    voxels.reader = reader;
    voxels.taps = taps;
    voxels.count = n[0] * n[1] * n[2];
    voxels.bits[0] = b.bits[0];
    voxels.bits[1] = b.bits[1];
    voxels.nx = n[0];
    voxels.nxy = n[0] * n[1];
    voxels.whole = n[0] == 1u << b.bits[0] && n[1] == 1u << b.bits[1];
    return voxels;
}

__device__ __forceinline__ u64 voxel_number(const Blocks &b, const int (&first)[3], u32 place) {
    int x = first[0] + (int)(place & ((1u << b.bits[0]) - 1));
    int y = first[1] + (int)((place >> b.bits[0]) & ((1u << b.bits[1]) - 1));
    int z = first[2] + (int)(place >> (b.bits[0] + b.bits[1]));
    return ((u64)z * b.shape[1] + y) * b.shape[0] + x;
}

template <bool TILED>
__device__ __forceinline__ auto reader_of(const Table &table, const Blocks &b, const int (&first)[3], u32 *tile) {
    if constexpr (TILED) {
        u32 row = b.extent[0], plane = b.extent[0] * b.extent[1];
        return Tile{(const char *)tile, row, plane, (u32)(-4 * (b.low[0] + b.low[1] * (int)row + b.low[2] * (int)plane))};
    } else {
        const u32 *at = table.values + table.origin + ((u64)first[2] * table.plane + (u64)first[1] * table.row + first[0]);
        return WholeTable{(const char *)at, table.row, table.plane};
    }
}

// Scores of all voxels by waves. A block takes every gridDim.x-th block of voxels; its lists lie in `places` and `weights`, 2·depth + 2
// of them. Dynamic shared memory: sums of margins and masses, then the tile.
template <bool TILED>
__device__ __forceinline__ void score_by_waves(
    const Forest &forest, const Table &table, const Blocks &b, const int2 *taps, u32 *places, u64 *weights, s64 *scores
) {
    extern __shared__ u64 shared_words[];
    u32 capacity = 1u << (b.bits[0] + b.bits[1] + b.bits[2]);
    Sums sums;
    sums.positive = shared_words;
    sums.dominant = (s64 *)(sums.positive + capacity);
    sums.margins = (int *)(sums.dominant + capacity);
    u32 *tile = (u32 *)(sums.margins + capacity);
    u64 lists_each = (u64)(2 * forest.depth + 2) * capacity;
    Lists lists = {places + blockIdx.x * lists_each, weights + blockIdx.x * lists_each};
    u32 blocks = b.blocks[0] * b.blocks[1] * b.blocks[2];
    for (u32 block = blockIdx.x; block < blocks; block += gridDim.x) {
        int first[3];
        first_voxel(b, block, first);
        if constexpr (TILED) load_tile(table, b, first, tile);
        for (u32 i = threadIdx.x; i < capacity; i += blockDim.x) {
            sums.positive[i] = 0;
            sums.dominant[i] = 0;
            sums.margins[i] = 0;
        }
        __syncthreads();
        auto voxels = voxels_of(b, first, reader_of<TILED>(table, b, first, tile), taps);
        waves<4>(forest, voxels, lists, sums, capacity);
        for (u32 i = threadIdx.x; i < voxels.count; i += blockDim.x) {
            u32 place = voxels.place(i);
            scores[voxel_number(b, first, place)] = score_of(forest, sums.positive[place], sums.dominant[place]);
        }
        __syncthreads();
    }
}

// Scores of all voxels by a walk a thread. Dynamic shared memory: the tile.
template <bool TILED>
__device__ __forceinline__ void score_by_walks(const Forest &forest, const Table &table, const Blocks &b, const int2 *taps, s64 *scores) {
    extern __shared__ u64 shared_words[];
    u32 *tile = (u32 *)shared_words;
    u32 blocks = b.blocks[0] * b.blocks[1] * b.blocks[2];
    for (u32 block = blockIdx.x; block < blocks; block += gridDim.x) {
        int first[3];
        first_voxel(b, block, first);
        if constexpr (TILED) {
            load_tile(table, b, first, tile);
            __syncthreads();
        }
        auto voxels = voxels_of(b, first, reader_of<TILED>(table, b, first, tile), taps);
        for (u32 i = threadIdx.x; i < voxels.count; i += blockDim.x) {
            u32 place = voxels.place(i);
            u64 positive = 0;
            s64 margin = 0;
            walk(forest, voxels, place, &positive, &margin);
            scores[voxel_number(b, first, place)] = score_of(forest, positive, margin);
        }
        if constexpr (TILED) __syncthreads();
    }
}

extern "C" __global__ __launch_bounds__(512) void haar_waves(
    Forest forest, Table table, Blocks b, const int2 *taps, u32 *places, u64 *weights, s64 *scores
) {
    score_by_waves<false>(forest, table, b, taps, places, weights, scores);
}

extern "C" __global__ __launch_bounds__(1024) void haar_waves_tiled(
    Forest forest, Table table, Blocks b, const int2 *taps, u32 *places, u64 *weights, s64 *scores
) {
    score_by_waves<true>(forest, table, b, taps, places, weights, scores);
}

extern "C" __global__ __launch_bounds__(512) void haar_walks(Forest forest, Table table, Blocks b, const int2 *taps, s64 *scores) {
    score_by_walks<false>(forest, table, b, taps, scores);
}

extern "C" __global__ __launch_bounds__(512) void haar_walks_tiled(Forest forest, Table table, Blocks b, const int2 *taps, s64 *scores) {
    score_by_walks<true>(forest, table, b, taps, scores);
}
