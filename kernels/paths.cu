// Scores of hard forests whose nodes have one threshold each, as random forests do: every voxel
// follows one path a tree, so that nothing is kept of it but sums; the same scores as those of
// `haar.cu`.

#include "forest.cuh"
#include "tiles.cuh"

// A node. Children lie side by side, the right one after the left. The margin is `above` where the
// response is at least `first`, otherwise −above. Of a leaf the number of boxes is 0 and `first`
// the positive part.
struct Fork {
    u32 boxes;  // the first box, and above bit 24 how many
    int first, above;
    u32 left;  // counted from the root
};

// A box of a feature for a tile: the place of its low corner in values, above bit 16 the weight;
// its edges in 8 bits each. Eight corners in two words: what lanes at different nodes read costs as
// much as it has words, and merged corners would be a word each.
__device__ __forceinline__ uint2 bound(uint2 box, const Blocks &b) {
    int x = (signed char)box.x - b.low[0], y = (signed char)(box.x >> 8) - b.low[1],
        z = (signed char)(box.x >> 16) - b.low[2];
    return make_uint2(
        (u32)(x + y * Tile::ROW + z * tile_plane<PLANE_GAP>(b)) | (box.y & 0xffff0000),
        box.x >> 24 | (box.y & 0xffff) << 8
    );
}

// The weighted sum of a box beside a voxel.
__device__ __forceinline__ u32 box_sum(const Tile &tile, u32 base, uint2 box) {
    u32 at = base + (box.x & 0xffff) * 4, dx = (box.y & 255) * 4,
        dy = (box.y >> 8 & 255) * (4 * Tile::ROW), dz = (box.y >> 16) * 4 * tile.plane;
    u32 low = tile.read(at) - tile.read(at + dx) - tile.read(at + dy) + tile.read(at + dx + dy);
    at += dz;
    u32 high = tile.read(at) - tile.read(at + dx) - tile.read(at + dy) + tile.read(at + dx + dy);
    return (high - low) * (u32)((int)box.x >> 16);
}

// Scores of all voxels, a block of voxels at a time, a thread a voxel; the bits of blocks are 5, at
// least 2, at least 1. A warp takes 4 × 4 × 2 voxels, for near neighbours take the same path most
// often.
//
// What lanes read at different places of a shared memory costs a fraction of what it costs in a
// cache: so the tile, all boxes (of `box_words` words) and the nodes of the tree lie there. Dynamic
// shared memory: these, in this order.
extern "C" __global__ __launch_bounds__(1024, 1) void paths_score(
    Forest forest, const Fork *forks, const u32 *roots, Table table, Blocks b, const uint2 *boxes,
    u32 box_words, u32 tile_words, s64 *scores
) {
    extern __shared__ uint4 shared[];
    u32 *values = (u32 *)shared;
    uint4 *nodes = shared + (tile_words + box_words) / 4;
    uint2 *own_boxes = (uint2 *)(shared + tile_words / 4);
    for (u32 i = threadIdx.x; i < box_words / 2; i += blockDim.x)
        own_boxes[i] = bound(__ldg(boxes + i), b);
    u32 blocks = b.blocks[0] * b.blocks[1] * b.blocks[2];
    const Tile tile = {(u32)tile_plane<PLANE_GAP>(b), (u32)__cvta_generic_to_shared(values)};
    u32 i = threadIdx.x, rows = i >> 8, x = (i & 3) | ((i >> 5) & 7) << 2,
        y = ((i >> 2) & 3) | (rows & ((1u << (b.bits[1] - 2)) - 1)) << 2,
        z = ((i >> 4) & 1) | (rows >> (b.bits[1] - 2)) << 1;
    for (u32 block = blockIdx.x; block < blocks; block += gridDim.x) {
        int first[3];
        first_voxel(b, block, first);
        load_tile<PLANE_GAP>(table, b, first, values);
        bool there = first[0] + (int)x < b.shape[0] && first[1] + (int)y < b.shape[1] &&
                     first[2] + (int)z < b.shape[2];
        u32 base = tile.base(x, y, z);
        u64 positive = 0;
        s64 margins = 0;
        for (u32 tree = 0; tree < forest.trees; tree++) {
            u32 root = __ldg(roots + tree), count = __ldg(roots + tree + 1) - root;
            __syncthreads();
            for (u32 n = threadIdx.x; n < count; n += blockDim.x)
                nodes[n] = __ldg((const uint4 *)forks + root + n);
            __syncthreads();
            if (!there) continue;
            // A step is a box, so that lanes whose features have fewer boxes go on to the next node
            // and do not wait.
            uint4 node = nodes[0];
            u32 left = node.x >> BOXES_BITS, sum = 0;
            const uint2 *box = own_boxes + (node.x & ((1u << BOXES_BITS) - 1));
            while (left > 0) {
                sum += box_sum(tile, base, *box++);
                if (--left == 0) {
                    int margin = (int)sum >= (int)node.y ? (int)node.z : -(int)node.z;
                    margins += margin;
                    node = nodes[node.w + (margin >= forest.hard_right)];
                    left = node.x >> BOXES_BITS;
                    box = own_boxes + (node.x & ((1u << BOXES_BITS) - 1));
                    sum = 0;
                }
            }
            positive += positive_mass(MASS_ONE, node.y);
        }
        if (there)
            scores[voxel_number(b, first, x | y << b.bits[0] | z << (b.bits[0] + b.bits[1]))] =
                score_of(forest, positive, margins);
        __syncthreads();
    }
}
