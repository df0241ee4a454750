// What a forest says of all voxels of a block; the twin of `pbt_cpu`'s `label/voxels.rs`.
//
// Most time goes by while corners of boxes come from the second-level cache, so that as many of them as
// possible should lie in the first one or be there already: nodes are small, features lie in shared
// memory, and blocks that run at the same time label voxels side by side.

#include "boxes.cuh"

// A feature, and nodes that ask for it: sums times factors, less a common factor of both. Numbers are
// 32 bits where all responses of a forest fit.
template <class Number>
struct __align__(16) Feature {
    u64 corners[2];
    u32 sizes[2];
    Number factors[2];  // the second one 0: there is one box
};

// A test: left where the response lies from `low` to `last`.
template <class Number>
struct __align__(16) Node {
    u32 what;  // the feature; LEFT_LEAF, RIGHT_LEAF: the child is a leaf
    u32 next;  // the left child; the right one is the next
    Number low, last;
};

struct Tree {
    u32 root;    // ROOT_LEAF: it is a leaf
    u32 leaves;  // what is added to the number of a child for the number of the leaf
};

#define LEFT_LEAF 0x80000000u
#define RIGHT_LEAF 0x40000000u
#define ROOT_LEAF 0x80000000u

// All boxes of a feature lie inside for voxels from `low` up to but not including `high`.
struct __align__(16) Range {
    int low[4], high[4];
};

__device__ __forceinline__ bool lies_in(const Range &range, const Voxel &voxel) {
    bool inside = true;
    for (int a = 0; a < 3; a++)
        inside &= voxel.at[a] >= range.low[a] && voxel.at[a] < range.high[a];
    return inside;
}

// Structures come in 16 bytes at a time: lanes that ask for different ones wait for each access.
template <class T>
__device__ __forceinline__ T load(const T *from) {
    union Parts {
        uint4 parts[sizeof(T) / 16];
        T whole;
        __device__ Parts() {}
    } parts;
#pragma unroll
    for (int i = 0; i < sizeof(T) / 16; i++) parts.parts[i] = ((const uint4 *)from)[i];
    return parts.whole;
}

// The forest, and where the voxels are.
struct Forest {
    const void *features;  // `Feature`s
    const Range *ranges;   // of features
    const void *nodes;     // `Node`s
    const Tree *trees;
    const u16 *leaves;  // [leaf][class], of `leaf_stride` numbers each
    u32 feature_count, tree_count, classes, leaf_stride;
    u32 majority;
    u32 in_shared;  // whether there is shared memory for the features
    Range all;      // where all features' boxes lie inside
    int min[4], shape[4];  // the block's first voxel, and its size
    const u32 *voxels;     // numbers of voxels in the block; null where all are wanted
    u32 voxel_count;
};

// A voxel of a block, and its place among those that are wanted.
struct Wanted {
    int x, y, z;
    u64 n;
    bool there;
};

// All voxels are wanted: DISTRIBUTION_CHUNK^3 after the other, in blocks of 32 * 8 * blockDim.x / 256
// voxels, or 32 * 4 for 128 threads.
__device__ __forceinline__ Wanted any_voxel(const Forest &forest) {
    const int rows = min((int)blockDim.x / 32, 8), planes = blockDim.x / 32 / rows;
    const int blocks_y = DISTRIBUTION_CHUNK / rows, blocks_z = DISTRIBUTION_CHUNK / planes;
    const int chunks_x = (forest.shape[0] + DISTRIBUTION_CHUNK - 1) / DISTRIBUTION_CHUNK;
    const int chunks_y = (forest.shape[1] + DISTRIBUTION_CHUNK - 1) / DISTRIBUTION_CHUNK;
    const u32 chunk = blockIdx.x / (blocks_y * blocks_z), block = blockIdx.x % (blocks_y * blocks_z);
    const int warp = threadIdx.x / 32;
    const int x = chunk % chunks_x * DISTRIBUTION_CHUNK + threadIdx.x % 32;
    const int y = chunk / chunks_x % chunks_y * DISTRIBUTION_CHUNK + block % blocks_y * rows +
                  warp % rows;
    const int z = chunk / chunks_x / chunks_y * DISTRIBUTION_CHUNK + block / blocks_y * planes +
                  warp / rows;
    const u64 n = ((u64)z * forest.shape[1] + y) * forest.shape[0] + x;
    return {x, y, z, n, x < forest.shape[0] && y < forest.shape[1] && z < forest.shape[2]};
}

// These voxels are wanted.
__device__ __forceinline__ Wanted voxel_of_list(const Forest &forest) {
    const u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= forest.voxel_count) return {};
    const u32 voxel = __ldg(forest.voxels + n), row = voxel / forest.shape[0];
    return {
        (int)(voxel % forest.shape[0]), (int)(row % forest.shape[1]), (int)(row / forest.shape[1]),
        n, true
    };
}

// The distributions of voxels of a block, `[voxel][class]`. Blocks along y share the trees: where there
// are several, they add to sums that were zero. Dynamic shared memory: features, and a number a class
// and thread.
template <class Number>
__device__ __forceinline__ void distributions(
    const Tables &tables, const Forest &forest, uint4 *shared, u32 *out
) {
    typedef Feature<Number> F;
    const F *features = (const F *)forest.features;
    u32 *sums = (u32 *)shared + threadIdx.x;
    if (forest.in_shared) {
        const u32 parts = forest.feature_count * (sizeof(F) / 16);
        for (u32 i = threadIdx.x; i < parts; i += blockDim.x)
            shared[i] = __ldg((const uint4 *)features + i);
        features = (const F *)shared;
        sums += 4 * parts;
    }
    __syncthreads();
    const Wanted wanted = forest.voxels ? voxel_of_list(forest) : any_voxel(forest);
    if (!wanted.there) return;

    for (u32 c = 0; c < forest.classes; c++) sums[c * blockDim.x] = 0;
    const Voxel voxel = voxel_of(
        tables, wanted.x + forest.min[0], wanted.y + forest.min[1], wanted.z + forest.min[2]
    );
    const bool nothing_missing = lies_in(forest.all, voxel);
    for (u32 t = blockIdx.y; t < forest.tree_count; t += gridDim.y) {
        const Tree tree = forest.trees[t];
        u32 at = tree.root & ~ROOT_LEAF, is_leaf = tree.root & ROOT_LEAF;
        while (!is_leaf) {
            const Node<Number> node = load((const Node<Number> *)forest.nodes + at);
            const u32 number = node.what & ~(LEFT_LEAF | RIGHT_LEAF);
            bool left = false;
            if (nothing_missing || lies_in(load(forest.ranges + number), voxel)) {
                const F f = load(features + number);
                Number response =
                    (Number)sum_of(tables, f.corners[0], f.sizes[0], voxel.base) * f.factors[0];
                if (f.factors[1] != 0)
                    response -=
                        (Number)sum_of(tables, f.corners[1], f.sizes[1], voxel.base) * f.factors[1];
                left = node.low <= response && response <= node.last;
            }
            at = node.next + !left;
            is_leaf = node.what & (left ? LEFT_LEAF : RIGHT_LEAF);
        }
        const u16 *leaf = forest.leaves + (u64)(at + tree.leaves) * forest.leaf_stride;
        if (forest.majority) {
            u32 best = 0;
            for (u32 c = 1; c < forest.classes; c++)
                if (leaf[c] > leaf[best]) best = c;
            sums[best * blockDim.x]++;
        } else {
            for (u32 c = 0; c < forest.classes; c += 2) {
                u32 two = __ldg((const u32 *)(leaf + c));
                sums[c * blockDim.x] += two & 0xffff;
                if (c + 1 < forest.classes) sums[(c + 1) * blockDim.x] += two >> 16;
            }
        }
    }
    out += wanted.n * forest.classes;
    for (u32 c = 0; c < forest.classes; c++) {
        const u32 sum = sums[c * blockDim.x];
        if (gridDim.y == 1)
            out[c] = sum;
        else
            atomicAdd(out + c, sum);
    }
}

extern "C" __global__ __launch_bounds__(DISTRIBUTION_THREADS) void distributions_32(
    Tables tables, Forest forest, u32 *out
) {
    extern __shared__ uint4 shared[];
    distributions<int>(tables, forest, shared, out);
}

extern "C" __global__ __launch_bounds__(DISTRIBUTION_THREADS) void distributions_64(
    Tables tables, Forest forest, u32 *out
) {
    extern __shared__ uint4 shared[];
    distributions<s64>(tables, forest, shared, out);
}
