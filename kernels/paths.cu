// Scores of hard forests whose nodes have one threshold each, as random forests do: every voxel follows one path a tree, so that nothing is
// kept of it but sums; the same scores as those of `haar.cu`.

#include "tiles.cuh"

// A node. Children lie side by side, the right one after the left. The margin is `above` where the response is at least `first`, otherwise
// −above. Of a leaf `fours` is 0 and `first` the positive part.
struct Fork {
    u32 taps_fours;  // the first four taps, and above bit 24 how often four
    int first, above;
    u32 left;  // counted from the root
};

#define TAPS_BITS 24

// Scores of all voxels, a block of voxels at a time, a thread a voxel; the bits of blocks are 5, at least 2, any. A warp takes 8 × 4 voxels of a
// plane, for neighbours take the same path more often than a row does.
//
// What lanes read at different places of a shared memory costs a fraction of what it costs in a cache: so the tile, all taps (of `tap_words`
// words) and the nodes of the tree (of at most `most_nodes`) lie there. Dynamic shared memory: these, in this order.
extern "C" __global__ __launch_bounds__(1024, 1) void paths_score(
    Forest forest, const Fork *forks, const u32 *roots, Table table, Blocks b, const u32 *taps, u32 tap_words, u32 tile_words, s64 *scores
) {
    extern __shared__ uint4 shared[];
    u32 *values = (u32 *)shared;
    uint4 *fours = shared + tile_words / 4, *nodes = fours + tap_words / 4;
    for (u32 i = threadIdx.x; i < tap_words / 4; i += blockDim.x) fours[i] = __ldg((const uint4 *)taps + i);
    u32 blocks = b.blocks[0] * b.blocks[1] * b.blocks[2];
    const Tile tile = {(u32)(Tile::ROW * b.extent[1]), (u32)__cvta_generic_to_shared(values)};
    u32 i = threadIdx.x, rows = i >> 7, x = (i & 7) | ((i >> 5) & 3) << 3, y = ((i >> 3) & 3) | (rows & ((1u << (b.bits[1] - 2)) - 1)) << 2,
        z = rows >> (b.bits[1] - 2);
    for (u32 block = blockIdx.x; block < blocks; block += gridDim.x) {
        int first[3];
        first_voxel(b, block, first);
        load_tile(table, b, first, values);
        bool there = first[0] + (int)x < b.shape[0] && first[1] + (int)y < b.shape[1] && first[2] + (int)z < b.shape[2];
        u32 base = tile.base(x, y, z);
        u64 positive = 0;
        s64 margins = 0;
        for (u32 tree = 0; tree < forest.trees; tree++) {
            u32 root = __ldg(roots + tree), count = __ldg(roots + tree + 1) - root;
            __syncthreads();
            for (u32 n = threadIdx.x; n < count; n += blockDim.x) nodes[n] = __ldg((const uint4 *)forks + root + n);
            __syncthreads();
            if (!there) continue;
            // A step is four taps of a node, so that lanes whose features have fewer taps go on to the next node and do not wait.
            uint4 node = nodes[0];
            u32 left = node.x >> TAPS_BITS, sum = 0;
            const uint4 *four = fours + (node.x & ((1u << TAPS_BITS) - 1));
            while (left > 0) {
                Taps taps = Tile::unpacked(*four++);
#pragma unroll
                for (int t = 0; t < 4; t++) sum += tile.read(base + taps.offset[t]) * taps.weight[t];
                if (--left == 0) {
                    int margin = (int)sum >= (int)node.y ? (int)node.z : -(int)node.z;
                    margins += margin;
                    node = nodes[node.w + (margin >= forest.hard_right)];
                    left = node.x >> TAPS_BITS;
                    four = fours + (node.x & ((1u << TAPS_BITS) - 1));
                    sum = 0;
                }
            }
            positive += positive_mass(MASS_ONE, node.y);
        }
        if (there) scores[voxel_number(b, first, x | y << b.bits[0] | z << (b.bits[0] + b.bits[1]))] = score_of(forest, positive, margins);
        __syncthreads();
    }
}
