// Labels of components from marks of their first voxels, a bit a voxel.

#pragma once

#include "constants.cuh"

// The number of components that begin up to and with a voxel that begins one.
__device__ __forceinline__ u32 label_of(
    u32 first, const u32 *marks, const u32 *before, const u32 *blocks_before
) {
    u32 group = first / 128, word = first / 32 % 4;
    uint4 four = __ldg((const uint4 *)marks + group);
    u32 of[4] = {four.x, four.y, four.z, four.w};
    u32 label = __ldg(blocks_before + group / COMPONENT_THREADS) + __ldg(before + group);
#pragma unroll
    for (u32 w = 0; w < 4; w++) {
        u32 upto = w < word ? ~0u : w == word ? ~0u >> (31 - first % 32) : 0;
        label += __popc(of[w] & upto);
    }
    return label;
}
