// The channels that filters make of an image; the twin of `pbt_cpu`'s `label/filters.rs`.

#include "constants.cuh"

// The voxels that filters are applied to, where the part of them that is wanted begins, and its
// shape. Beyond the ends, filters see the border voxels.
struct Part {
    int nx, ny, nz;
    int skip_x, skip_y, skip_z;
    int rx, ry, rz;
};

struct Place {
    int x, y, z;  // in the voxels, not in the part that is wanted
    u64 n;        // in the part that is wanted
    bool there;
};

__device__ __forceinline__ Place place_of(const Part &p) {
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 row = n / p.rx;
    return Place{
        (int)(n % p.rx) + p.skip_x, (int)(row % p.ry) + p.skip_y, (int)(row / p.ry) + p.skip_z, n,
        row < (u64)p.ry * p.rz
    };
}

__device__ __forceinline__ int value_at(const Part &p, const u16 *values, int x, int y, int z) {
    x = min(max(x, 0), p.nx - 1);
    y = min(max(y, 0), p.ny - 1);
    z = min(max(z, 0), p.nz - 1);
    return __ldg(values + ((u64)z * p.ny + y) * p.nx + x);
}

// The next voxel along an axis less the one before.
__device__ __forceinline__ int difference(
    const Part &p, const u16 *voxels, const Place &at, int axis
) {
    int dx = axis == 0, dy = axis == 1, dz = axis == 2;
    return value_at(p, voxels, at.x + dx, at.y + dy, at.z + dz) -
           value_at(p, voxels, at.x - dx, at.y - dy, at.z - dz);
}

extern "C" __global__ void filters_intensity(Part p, const u16 *voxels, u16 *out) {
    Place at = place_of(p);
    if (at.there) out[at.n] = value_at(p, voxels, at.x, at.y, at.z);
}

extern "C" __global__ void filters_gradient(Part p, const u16 *voxels, int axis, u16 *out) {
    Place at = place_of(p);
    if (at.there) out[at.n] = CHANNEL_ZERO + (difference(p, voxels, at, axis) >> 1);
}

extern "C" __global__ void filters_magnitude(Part p, const u16 *voxels, u16 *out) {
    Place at = place_of(p);
    if (!at.there) return;
    u32 squares = 0;
    for (int axis = 0; axis < 3; axis++) {
        int d = difference(p, voxels, at, axis);
        squares += d * d;
    }
    // The floor of the root of an integer below 2^52 is exact.
    out[at.n] = (u32)sqrt((double)squares) >> 1;
}

// One pass of a Gaussian along an axis of `n` voxels that are `stride` apart, over all voxels.
// Values come in shifted by `shift`; `weights` go from the middle outwards up to `radius`.
extern "C" __global__ void filters_smooth(
    const u16 *values, u64 count, int n, u64 stride, const u32 *weights, int radius, int shift,
    u16 *out
) {
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    int place = at / stride % n;
    const u16 *line = values + (at - place * stride);
    auto value = [=](int d) {
        return (u32)__ldg(line + min(max(place + d, 0), n - 1) * stride) << shift;
    };
    u32 sum = (1 << 15) + __ldg(weights) * value(0);
    for (int d = 1; d <= radius; d++) sum += __ldg(weights + d) * (value(-d) + value(d));
    out[at] = sum >> 16;
}

extern "C" __global__ void filters_gaussian(Part p, const u16 *smooth, u16 *out) {
    Place at = place_of(p);
    if (!at.there) return;
    u32 value = value_at(p, smooth, at.x, at.y, at.z);
    out[at.n] = (value + (1 << (SMOOTH_BITS - 1))) >> SMOOTH_BITS;
}

// `variance` is that of the Gaussian in sixteenths.
extern "C" __global__ void filters_laplacian(Part p, const u16 *smooth, s64 variance, u16 *out) {
    Place at = place_of(p);
    if (!at.there) return;
    auto value = [&](int dx, int dy, int dz) {
        return (s64)value_at(p, smooth, at.x + dx, at.y + dy, at.z + dz);
    };
    s64 around = value(-1, 0, 0) + value(1, 0, 0) + value(0, -1, 0) + value(0, 1, 0) +
                 value(0, 0, -1) + value(0, 0, 1);
    s64 scaled = ((around - 6 * value(0, 0, 0)) * variance) >> (4 + SMOOTH_BITS - 1);
    out[at.n] = min(max(CHANNEL_ZERO + scaled, (s64)0), (s64)MAX_CHANNEL);
}

// `sums` is the integral volume of all voxels.
extern "C" __global__ void filters_local_mean(Part p, const u32 *sums, int radius, u16 *out) {
    Place at = place_of(p);
    if (!at.there) return;
    int x0 = max(at.x - radius, 0), x1 = min(at.x + radius + 1, p.nx);
    int y0 = max(at.y - radius, 0), y1 = min(at.y + radius + 1, p.ny);
    int z0 = max(at.z - radius, 0), z1 = min(at.z + radius + 1, p.nz);
    auto row = [&](int y, int z) {
        const u32 *from = sums + ((u64)z * (p.ny + 1) + y) * (p.nx + 1);
        return from[x1] - from[x0];
    };
    u32 sum = (row(y1, z1) - row(y0, z1)) - (row(y1, z0) - row(y0, z0));
    u32 count = (x1 - x0) * (y1 - y0) * (z1 - z0);
    out[at.n] = (sum + count / 2) / count;
}

// `first` is the image's place of the first voxel along the axis, `last` the image's last place.
extern "C" __global__ void filters_place(Part p, int axis, s64 first, s64 last, u16 *out) {
    Place at = place_of(p);
    if (!at.there) return;
    s64 place = first + (axis == 0 ? at.x : axis == 1 ? at.y : at.z);
    out[at.n] = min(max(place, (s64)0), last) * MAX_CHANNEL / last;
}
