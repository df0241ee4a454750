// Responses of box means and the labels of voxels; the twin of `pbt_cpu`'s `label/voxels.rs`.

#include "constants.cuh"

// A box as places in its channel's integral volume.
struct __align__(16) Box {
    u64 corner;  // address of the lowest corner about the voxel at the table's beginning
    u32 size;    // voxels along i, j and k, a byte each
    u32 voxels;  // 0: there is no box
};

struct Feature {
    Box first, second;
    // Both boxes lie inside for voxels from `low` up to but not including `high`.
    int low[4], high[4];
};

struct __align__(16) Node {
    u32 feature;  // all ones: a leaf
    u32 next;     // the left child or the leaf
    s64 low, high;
    u64 unused;
};

// Structures come in 16 bytes at a time: lanes that ask for different ones wait for each access.
template <class T>
__device__ __forceinline__ T load(const T *from) {
    union Parts {
        uint4 parts[sizeof(T) / 16];
        T whole;
        __device__ Parts() {}
    } parts;
#pragma unroll
    for (int i = 0; i < sizeof(T) / 16; i++) parts.parts[i] = __ldg((const uint4 *)from + i);
    return parts.whole;
}

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

__device__ __forceinline__ s64
response_of(const Tables &tables, const Feature *feature, const Voxel &voxel) {
    const Feature f = load(feature);
    bool inside = true;
    for (int a = 0; a < 3; a++) inside &= voxel.at[a] >= f.low[a] && voxel.at[a] < f.high[a];
    if (!inside) return (s64)MISSING;
    const Box &first = f.first, &second = f.second;
    s64 sum = sum_of(tables, first.corner, first.size, voxel.base);
    if (second.voxels == 0) return sum;
    return sum * second.voxels -
           (s64)sum_of(tables, second.corner, second.size, voxel.base) * first.voxels;
}

// Responses at `count` voxels of the image, `[feature][voxel]`; blocks along y take features.
extern "C" __global__ void voxels_respond(
    Tables tables, const Feature *features, u32 feature_count, const int *voxels, u32 count,
    s64 *out
) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    Voxel voxel = voxel_of(tables, voxels[3 * n], voxels[3 * n + 1], voxels[3 * n + 2]);
    for (u32 f = blockIdx.y; f < feature_count; f += gridDim.y)
        out[(u64)f * count + n] = response_of(tables, features + f, voxel);
}

// The bins of the same, `[feature][voxel]`; the edges of feature `f` are `edges[first_edges[f]]` up to
// but not including `edges[first_edges[f + 1]]`.
extern "C" __global__ void voxels_bins(
    Tables tables, const Feature *features, u32 feature_count, const s64 *edges,
    const u32 *first_edges, const int *voxels, u32 count, u8 *out
) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    Voxel voxel = voxel_of(tables, voxels[3 * n], voxels[3 * n + 1], voxels[3 * n + 2]);
    for (u32 f = blockIdx.y; f < feature_count; f += gridDim.y) {
        s64 response = response_of(tables, features + f, voxel);
        // The number of edges that are not above the response.
        u32 first = __ldg(first_edges + f), low = first, high = __ldg(first_edges + f + 1);
        while (low < high) {
            u32 middle = (low + high) / 2;
            if (__ldg(edges + middle) <= response)
                low = middle + 1;
            else
                high = middle;
        }
        out[(u64)f * count + n] = response == (s64)MISSING ? MISSING_BIN : low - first;
    }
}

// The distributions of the voxels of a block, `[voxel][class]`. Dynamic shared memory: a number a
// class and thread.
extern "C" __global__ __launch_bounds__(LABEL_THREADS) void voxels_distributions(
    Tables tables, int3 block_min, int3 block_shape, const Feature *features, const Node *nodes,
    const u32 *roots, u32 trees, const u16 *leaves, u32 classes, u32 majority, u32 *out
) {
    extern __shared__ u32 all_sums[];  // [class][thread]
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
        z = blockIdx.z;
    if (x >= block_shape.x || y >= block_shape.y) return;
    u32 *sums = all_sums + threadIdx.y * blockDim.x + threadIdx.x;
    for (u32 c = 0; c < classes; c++) sums[c * LABEL_THREADS] = 0;
    Voxel voxel = voxel_of(tables, x + block_min.x, y + block_min.y, z + block_min.z);
    for (u32 tree = 0; tree < trees; tree++) {
        Node node = load(nodes + roots[tree]);
        while (node.feature != ~0u) {
            s64 response = response_of(tables, features + node.feature, voxel);
            node = load(nodes + node.next + !(node.low <= response && response < node.high));
        }
        const u16 *leaf = leaves + (u64)node.next * classes;
        if (majority) {
            u32 best = 0;
            for (u32 c = 1; c < classes; c++)
                if (leaf[c] > leaf[best]) best = c;
            sums[best * LABEL_THREADS]++;
        } else {
            for (u32 c = 0; c < classes; c++) sums[c * LABEL_THREADS] += leaf[c];
        }
    }
    u64 n = ((u64)z * block_shape.y + y) * block_shape.x + x;
    for (u32 c = 0; c < classes; c++) out[n * classes + c] = sums[c * LABEL_THREADS];
}
