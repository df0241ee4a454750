// Responses of box means at some voxels; the twin of `pbt_cpu`'s `label/voxels.rs`.

#include "boxes.cuh"

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
