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
};

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

// What a channel is made of, and how: a `Filter` of `pbt-features`.
struct FilterChannel {
    const void *values;  // of a local mean the integral volume of all voxels, else 16 bits a voxel
    u32 kind;    // a FilterKind
    int number;  // an axis, or a radius
    // Of a place the image's place of the first voxel along the axis, and the image's last place;
    // of a Laplacian the Gaussian's variance in sixteenths.
    s64 first, last;
};

__device__ __forceinline__ u32 magnitude(const Part &p, const u16 *voxels, const Place &at) {
    u32 squares = 0;
    for (int axis = 0; axis < 3; axis++) {
        int d = difference(p, voxels, at, axis);
        squares += d * d;
    }
    // The floor of the root of an integer below 2^52 is exact.
    return (u32)sqrt((double)squares) >> 1;
}

__device__ __forceinline__ u32
laplacian(const Part &p, const u16 *smooth, const Place &at, s64 variance) {
    auto value = [&](int dx, int dy, int dz) {
        return (s64)value_at(p, smooth, at.x + dx, at.y + dy, at.z + dz);
    };
    s64 around = value(-1, 0, 0) + value(1, 0, 0) + value(0, -1, 0) + value(0, 1, 0) +
                 value(0, 0, -1) + value(0, 0, 1);
    s64 scaled = ((around - 6 * value(0, 0, 0)) * variance) >> (4 + SMOOTH_BITS - 1);
    return min(max(CHANNEL_ZERO + scaled, (s64)0), (s64)MAX_CHANNEL);
}

__device__ __forceinline__ u32
local_mean(const Part &p, const u32 *sums, const Place &at, int radius) {
    int x0 = max(at.x - radius, 0), x1 = min(at.x + radius + 1, p.nx);
    int y0 = max(at.y - radius, 0), y1 = min(at.y + radius + 1, p.ny);
    int z0 = max(at.z - radius, 0), z1 = min(at.z + radius + 1, p.nz);
    auto row = [&](int y, int z) {
        const u32 *from = sums + ((u64)z * (p.ny + 1) + y) * (p.nx + 1);
        return from[x1] - from[x0];
    };
    u32 sum = (row(y1, z1) - row(y0, z1)) - (row(y1, z0) - row(y0, z0));
    u32 count = (x1 - x0) * (y1 - y0) * (z1 - z0);
    return (sum + count / 2) / count;
}

__device__ __forceinline__ u32 channel_value(const Part &p, const FilterChannel &c, const Place &at) {
    const u16 *values = (const u16 *)c.values;
    switch (c.kind) {
    case FILTER_VALUE: return value_at(p, values, at.x, at.y, at.z);
    case FILTER_GRADIENT: return CHANNEL_ZERO + (difference(p, values, at, c.number) >> 1);
    case FILTER_MAGNITUDE: return magnitude(p, values, at);
    case FILTER_GAUSSIAN:
        return (value_at(p, values, at.x, at.y, at.z) + (1 << (SMOOTH_BITS - 1))) >> SMOOTH_BITS;
    case FILTER_LAPLACIAN: return laplacian(p, values, at, c.first);
    case FILTER_LOCAL_MEAN: return local_mean(p, (const u32 *)c.values, at, c.number);
    default: {
        s64 place = c.first + (c.number == 0 ? at.x : c.number == 1 ? at.y : at.z);
        return min(max(place, (s64)0), c.last) * MAX_CHANNEL / c.last;
    }
    }
}

// The channels of the part that is wanted, `[channel][voxel]`; blocks along y are channels.
extern "C" __global__ void filters_channels(Part p, const FilterChannel *channels, u16 *out) {
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x, count = (u64)p.rx * p.ry * p.rz;
    if (n >= count) return;
    u64 row = n / p.rx;
    Place at = {(int)(n % p.rx) + p.skip_x, (int)(row % p.ry) + p.skip_y,
                (int)(row / p.ry) + p.skip_z};
    out[blockIdx.y * count + n] = channel_value(p, channels[blockIdx.y], at);
}

// A Gaussian: its weights from the middle outwards are `weights[first]` to `weights[first + radius]`.
struct Gaussian {
    u32 first;
    int radius;
};

// One pass of Gaussians along an axis of `n` voxels that are `stride` apart, over all voxels; blocks
// along y are Gaussians. Their values lie `step` apart, 0 where all have the same, and come in shifted
// by `shift`.
extern "C" __global__ void filters_smooth(
    const u16 *values, u64 step, u64 count, int n, u64 stride, const Gaussian *gaussians,
    const u32 *weights, int shift, u16 *out
) {
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    const Gaussian gaussian = gaussians[blockIdx.y];
    weights += gaussian.first;
    int place = at / stride % n;
    const u16 *line = values + blockIdx.y * step + (at - place * stride);
    auto value = [=](int d) {
        return (u32)__ldg(line + min(max(place + d, 0), n - 1) * stride) << shift;
    };
    u32 sum = (1 << 15) + __ldg(weights) * value(0);
    for (int d = 1; d <= gaussian.radius; d++)
        sum += __ldg(weights + d) * (value(-d) + value(d));
    out[blockIdx.y * count + at] = sum >> 16;
}
