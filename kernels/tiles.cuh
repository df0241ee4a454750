// Integral volumes, the blocks of voxels that are scored together, and the part of a table that
// such a block reads, in shared memory.

#pragma once

#include "constants.cuh"

// An integral volume: the table, the distances of rows and planes, and the place of voxel (0, 0,
// 0).
struct Table {
    const u32 *values;
    u32 row, plane, origin;
};

// The voxels of a level in blocks of 2^bits[0] × 2^bits[1] × 2^bits[2], and the part of the table
// that the features of such a block read: `extent` values from the corner `low` beside the first
// voxel's.
struct Blocks {
    int shape[3];
    int bits[3];
    int blocks[3];
    int low[3];
    int extent[3];
};

// Four taps: offsets and weights.
struct Taps {
    int offset[4];
    u32 weight[4];
};

// The table in the device's memory; offsets are bytes from the block's first voxel.
struct WholeTable {
    const char *first;
    u32 row, plane;

    __device__ __forceinline__ u32 base(u32 x, u32 y, u32 z) const {
        return 4 * (x + y * row + z * plane);
    }
    __device__ __forceinline__ u32 read(u32 offset) const {
        return __ldg((const u32 *)(first + (int)offset));
    }

    // A tap is its offset and its weight.
    __device__ __forceinline__ static Taps taps(const void *bound, u32 four) {
        int4 a = __ldg((const int4 *)bound + 2 * (u64)four),
             b = __ldg((const int4 *)bound + 2 * (u64)four + 1);
        return Taps{{a.x, a.z, b.x, b.z}, {(u32)a.y, (u32)a.w, (u32)b.y, (u32)b.w}};
    }
};

// The part that a block reads, in shared memory. Rows are as long as the longest that a block needs
// (see `BLOCK_BITS` in `haar.rs`), a number that the compiler knows, 24 banks apart. Where planes
// have GAP values more than their rows, an odd multiple of 4, 4 × 4 × 2 voxels lie in different
// banks.
struct Tile {
    static const int ROW = TILE_ROW;
    u32 plane, origin;  // `origin` is the address of the corner `low` of the block's first voxel

    __device__ __forceinline__ u32 base(u32 x, u32 y, u32 z) const {
        return 4 * (x + y * ROW + z * plane) + origin;
    }
    // A plain load through a pointer would be done with addresses of 64 bits, in which the compiler
    // cannot fold a distance of rows.
    __device__ __forceinline__ u32 read(u32 at) const {
        u32 value;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(at));
        return value;
    }

    // A tap is a word: its place in the tile, counted in values from the corner, and above bit 16
    // the weight. A word that all lanes read costs as much as one that every lane reads for itself,
    // so that taps should be few words.
    __device__ __forceinline__ static u32 packed(u32 place, int weight) {
        return place | (u32)weight << 16;
    }
    __device__ __forceinline__ static Taps unpacked(const uint4 &word) {
        return Taps{
            {(int)(word.x & 0xffff) * 4, (int)(word.y & 0xffff) * 4, (int)(word.z & 0xffff) * 4,
             (int)(word.w & 0xffff) * 4},
            {(u32)((int)word.x >> 16), (u32)((int)word.y >> 16), (u32)((int)word.z >> 16),
             (u32)((int)word.w >> 16)}
        };
    }
    __device__ __forceinline__ static Taps taps(const void *bound, u32 four) {
        return unpacked(__ldg((const uint4 *)bound + four));
    }
};

__device__ __forceinline__ void first_voxel(const Blocks &b, u32 block, int (&first)[3]) {
    first[0] = (int)(block % b.blocks[0]) << b.bits[0];
    first[1] = (int)(block / b.blocks[0] % b.blocks[1]) << b.bits[1];
    first[2] = (int)(block / (b.blocks[0] * b.blocks[1])) << b.bits[2];
}

// Values from one plane of a tile to the next.
template <int GAP>
__device__ __forceinline__ int tile_plane(const Blocks &b) {
    return Tile::ROW * b.extent[1] + GAP;
}

// Fills the tile; what lies outside the table is read by no voxel of the level.
template <int GAP>
__device__ __forceinline__ void load_tile(
    const Table &table, const Blocks &b, const int (&first)[3], u32 *tile
) {
    const int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // A table begins `origin` before voxel (0, 0, 0), the same number of voxels on every axis.
    int pad = (int)(table.origin / (table.plane + table.row + 1));
    int lines = (int)(table.plane / table.row), planes = b.shape[2] + 2 * pad + 1;
    int low[3], ends[3] = {(int)table.row - 1, lines - 1, planes - 1};
#pragma unroll
    for (int a = 0; a < 3; a++) low[a] = first[a] + b.low[a] + pad;
    const u32 *columns = table.values + min(low[0] + lane, ends[0]),
              *more = table.values + min(low[0] + lane + 32, ends[0]);
    const int rows = b.extent[1], step_y = warps % rows, step_z = warps / rows,
              last = rows * b.extent[2];
    int y = warp % rows, z = warp / rows;
    u32 *to = tile + warp * Tile::ROW + z * GAP + lane;
#pragma unroll 4
    for (int r = warp; r < last; r += warps) {
        u64 at =
            (u64)min(low[2] + z, ends[2]) * table.plane + (u32)min(low[1] + y, ends[1]) * table.row;
        to[0] = __ldg(columns + at);
        if (lane + 32 < b.extent[0]) to[32] = __ldg(more + at);
        to += warps * Tile::ROW + step_z * GAP;
        y += step_y;
        z += step_z;
        if (y >= rows) {
            y -= rows;
            z++;
            to += GAP;
        }
    }
}

__device__ __forceinline__ u64 voxel_number(const Blocks &b, const int (&first)[3], u32 place) {
    int x = first[0] + (int)(place & ((1u << b.bits[0]) - 1));
    int y = first[1] + (int)((place >> b.bits[0]) & ((1u << b.bits[1]) - 1));
    int z = first[2] + (int)(place >> (b.bits[0] + b.bits[1]));
    return ((u64)z * b.shape[1] + y) * b.shape[0] + x;
}
