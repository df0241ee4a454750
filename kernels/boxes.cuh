// Sums of boxes in integral volumes about a voxel, for forests that label voxels.

#pragma once

#include "constants.cuh"

// How the tables of all channels lie in memory, and which voxel stands at their beginning.
struct Tables {
    u32 row, plane;
    int first[3];
    u32 unused;
};

struct Voxel {
    int at[3];
    u64 base;  // its place in the tables, bytes
};

__device__ __forceinline__ Voxel voxel_of(const Tables &tables, int x, int y, int z) {
    u64 base = (u64)(z - tables.first[2]) * tables.plane + (u64)(y - tables.first[1]) * tables.row +
               (x - tables.first[0]);
    return Voxel{{x, y, z}, base * sizeof(u32)};
}

// The sum of a box: `corner` is the address of its lowest corner about the voxel at the tables'
// beginning, `size` its voxels along i, j and k, a byte each.
__device__ __forceinline__ u32 sum_of(const Tables &tables, u64 corner, u32 size, u64 base) {
    const u32 *low = (const u32 *)(corner + base);
    u32 dx = size & 255;
    const u32 *next = low + (size >> 8 & 255) * tables.row;
    u64 up = (u64)(size >> 16) * tables.plane;
    u32 below = (__ldg(next + dx) - __ldg(next)) - (__ldg(low + dx) - __ldg(low));
    low += up;
    next += up;
    return (__ldg(next + dx) - __ldg(next)) - (__ldg(low + dx) - __ldg(low)) - below;
}
