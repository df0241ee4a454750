// What regression sees of posed boxes; the twin of `patches.rs` of `pbt-cpu`.

#include "sampling.cuh"

// Patches `[site][level][intensities, then edges][point]` in the images that are there: a thread a
// point of a site and level.
extern "C" __global__ void patches_sample(
    const Channels *channels, const u32 *images, Frames frames, const u32 *patch_levels,
    u32 patch_level_count, u32 points_x, u32 points_y, u32 points_z, u32 edges, short *out
) {
    u32 points = points_x * points_y * points_z;
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= (u64)frames.poses * patch_level_count * points) return;
    u32 point = n % points, block = n / points, site = block / patch_level_count,
        level = patch_levels[block % patch_level_count];
    const Channels c = channels[(u64)images[site] * frames.levels + level];
    if (!c.voxels) return;
    u32 packed =
        point % points_x | point / points_x % points_y << 8 | point / (points_x * points_y) << 16;
    auto number = [&](u32 k) { return __ldg(frames.numbers + (u64)k * frames.poses + site); };
    int at[3];
#pragma unroll
    for (int a = 0; a < 3; a++) at[a] = position(number, level * LEVEL_NUMBERS, packed, a);
    Sample sample = sample_at(c, at);
    short *to = out + (u64)block * points * (edges ? 2 : 1);
    to[point] = (short)(sample.value[0] / SAMPLE_SCALE);
    if (edges) {
        // 64·√|∇I|, as `edge_strength`.
        to[points + point] = (short)min(root((s64)magnitude(sample) << 8), 4095);
    }
}
