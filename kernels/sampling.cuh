// Samples of a level's channels at grid points of posed boxes; twins of `ChannelVolume::sample` and
// `PoseFrame::point` of `pbt-features`.

#pragma once

#include "constants.cuh"

// Intensity and gradient of a level, with its border.
struct Channels {
    const short4 *voxels;
    int nx, ny, nz;
    int border;
};

// The frames of poses: [LEVEL_NUMBERS · levels + AXIS_NUMBERS][pose], the axes last.
struct Frames {
    const int *numbers;
    u32 poses, levels;
};

__device__ __forceinline__ int saturated(s64 value) {
    return (int)min(max(value, -0x80000000ll), 0x7fffffffll);
}

// Position of a grid point: origin + Σ step · number, saturating after every operation.
template <class Number>
__device__ __forceinline__ int position(const Number &number, u32 first, u32 point, int axis) {
    int at = number(first + axis);
#pragma unroll
    for (int a = 0; a < 3; a++) {
        int moved =
            saturated((s64)number(first + 3 + 3 * a + axis) * (s64)((point >> (8 * a)) & 255));
        at = saturated((s64)at + moved);
    }
    return at;
}

struct Sample {
    int value[4];
};

__device__ __forceinline__ Sample voxel(const short4 *at) {
    int2 words = __ldg((const int2 *)at);
    return Sample{{(short)words.x, words.x >> 16, (short)words.y, words.y >> 16}};
}

__device__ __forceinline__ Sample between(const Sample &a, const Sample &b, int fraction) {
    Sample c;
#pragma unroll
    for (int i = 0; i < 4; i++)
        c.value[i] = a.value[i] * 256 + (b.value[i] - a.value[i]) * fraction;
    return c;
}

// Trilinear interpolation at a position with FRAME_BITS fractional bits.
__device__ __forceinline__ Sample sample_at(const Channels &c, const int (&at)[3]) {
    int shape[3] = {c.nx, c.ny, c.nz};
    u32 base = 0, stride = 1, step[3];
    int fraction[3];
#pragma unroll
    for (int a = 0; a < 3; a++) {
        int last = shape[a] - 1;
        int whole = (at[a] >> FRAME_BITS) + c.border;
        base += (u32)min(max(whole, 0), last) * stride;
        step[a] = whole >= 0 && whole < last ? stride : 0;
        fraction[a] = (at[a] >> (FRAME_BITS - 8)) & 255;
        stride *= shape[a];
    }
    const short4 *v = c.voxels + base;
    Sample planes[2];
#pragma unroll
    for (int z = 0; z < 2; z++) {
        const short4 *p = z ? v + step[2] : v;
        Sample low = between(voxel(p), voxel(p + step[0]), fraction[0]);
        Sample high = between(voxel(p + step[1]), voxel(p + step[1] + step[0]), fraction[0]);
        planes[z] = between(low, high, fraction[1]);
#pragma unroll
        for (int i = 0; i < 4; i++) planes[z].value[i] >>= 8;
    }
    Sample s = between(planes[0], planes[1], fraction[2]);
#pragma unroll
    for (int i = 0; i < 4; i++) s.value[i] >>= 13;
    return s;
}

// ⌊√n⌋ for n below 2^52, where the nearest double of the root never rounds up to the next integer.
__device__ __forceinline__ int root(s64 n) { return (int)sqrt((double)n); }

__device__ __forceinline__ int magnitude(const Sample &s) {
    return root(
        (s64)s.value[1] * s.value[1] + (s64)s.value[2] * s.value[2] + (s64)s.value[3] * s.value[3]
    );
}
