// Connected components by label equivalence (Hawick et al. 2010; improved by Kalentev et al. 2011) in
// 3D: a label a voxel, in place, 0 in the background, within a border of a voxel, and no atomic minima.
// A baseline for `components.cu`, whose numbering finishes it.

#include "marks.cuh"

// A volume within a border of a voxel.
struct Bordered {
    int nx, ny, nz;
    int neighbours;  // 6, 18 or 26
};

__device__ __forceinline__ bool place_of(const Bordered &v, u32 n, int (&at)[3], u32 &place) {
    if (n >= (u32)v.nx * v.ny * v.nz) return false;
    at[0] = n % v.nx;
    at[1] = n / v.nx % v.ny;
    at[2] = n / v.nx / v.ny;
    place = ((u32)(at[2] + 1) * (v.ny + 2) + at[1] + 1) * (v.nx + 2) + at[0] + 1;
    return true;
}

// Each voxel's label is its place; the labels were 0.
extern "C" __global__ void label_equivalence_begin(Bordered v, const u8 *voxels, u32 *labels) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x, place;
    int at[3];
    if (place_of(v, n, at, place) && voxels[n] != 0) labels[place] = place;
}

// Where a neighbour has a lower label, it becomes that of the place that the own label names.
extern "C" __global__ void label_equivalence_scan(Bordered v, u32 *labels, u32 *changed) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x, place;
    int at[3];
    if (!place_of(v, n, at, place)) return;
    volatile u32 *all = labels;
    u32 own = all[place], least = own;
    if (own == 0) return;
    for (int dz = -1; dz <= 1; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                int away = dx * dx + dy * dy + dz * dz;
                if (away > (v.neighbours == 6 ? 1 : v.neighbours == 18 ? 2 : 3)) continue;
                u32 label = all[place + (dz * (v.ny + 2) + dy) * (v.nx + 2) + dx];
                if (label != 0) least = min(least, label);
            }
    if (least == own) return;
    // Others may write here at the same time; the next round mends it.
    if (least < all[own]) all[own] = least;
    *changed = 1;
}

// Each voxel gets the label at the end of the way that labels show.
extern "C" __global__ void label_equivalence_analyse(Bordered v, u32 *labels) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x, place;
    int at[3];
    if (!place_of(v, n, at, place)) return;
    volatile u32 *all = labels;
    u32 label = all[place];
    if (label == 0) return;
    for (u32 next = all[label]; next != label; next = all[label]) label = next;
    all[place] = label;
}

// Sets the bits of the voxels whose label is their own place: the first ones of components. A lane a
// bit.
extern "C" __global__ void label_equivalence_mark(Bordered v, const u32 *labels, u32 *marks) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x, place;
    int at[3];
    bool first = place_of(v, n, at, place) && labels[place] == place;
    u32 bits = __ballot_sync(~0u, first);
    if (n % 32 == 0 && n < (u32)v.nx * v.ny * v.nz) marks[n / 32] = bits;
}

// Labels from 1 on, in the order of the components' first voxels; see `components_count`.
extern "C" __global__ void label_equivalence_end(
    Bordered v, const u32 *places, const u32 *marks, const u32 *before, const u32 *blocks_before,
    u32 *labels
) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x, place;
    int at[3];
    if (!place_of(v, n, at, place)) return;
    u32 first = places[place], x = first % (v.nx + 2), row = first / (v.nx + 2);
    u32 y = row % (v.ny + 2), z = row / (v.ny + 2);
    labels[n] = first == 0 ? 0
                           : label_of(
                                 ((z - 1) * v.ny + y - 1) * v.nx + x - 1, marks, before, blocks_before
                             );
}
