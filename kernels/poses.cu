// Steerable responses, scores and patches of posed boxes; twins of `steerable.rs` and `patches.rs` of `pbt-cpu`.

#include "waves.cuh"

#define FRAME_BITS 16
#define AXIS_BITS 14
#define SAMPLE_SCALE 8
#define LEVEL_NUMBERS 12  // origin, then three steps
#define AXIS_NUMBERS 9

// Intensity and gradient of a level, with its border.
struct Channels {
    const short4 *voxels;
    int nx, ny, nz;
    int border;
};

// The transforms of values 0 … 4095 one after the other (√, ∛, square, cube, log), and the angles by cosine.
struct Transforms {
    const int *of_value;
    const int *angle;
};

// The frames of poses: [LEVEL_NUMBERS · levels + AXIS_NUMBERS][pose], the axes last.
struct Frames {
    const int *numbers;
    u32 poses, levels;
};

// `SteerableFeature`, packed: point and level, channel and modifier, a byte each.
struct Feature {
    u32 place, type;
};

enum Channel { INTENSITY, GRADIENT_I, GRADIENT_J, GRADIENT_K, ALONG_0, ALONG_1, ALONG_2, MAGNITUDE, ACROSS_0, ANGLE_0, ANGLE_1, ANGLE_2 };
enum Modifier { VALUE, ABSOLUTE, SQRT };

__device__ __forceinline__ int saturated(s64 value) { return (int)min(max(value, -0x80000000ll), 0x7fffffffll); }

// Position of a grid point: origin + Σ step · number, saturating after every operation.
template <class Number>
__device__ __forceinline__ int position(const Number &number, u32 first, u32 point, int axis) {
    int at = number(first + axis);
#pragma unroll
    for (int a = 0; a < 3; a++) {
        int moved = saturated((s64)number(first + 3 + 3 * a + axis) * (s64)((point >> (8 * a)) & 255));
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
    for (int i = 0; i < 4; i++) c.value[i] = a.value[i] * 256 + (b.value[i] - a.value[i]) * fraction;
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
    return root((s64)s.value[1] * s.value[1] + (s64)s.value[2] * s.value[2] + (s64)s.value[3] * s.value[3]);
}

// The component of the gradient along a box axis.
template <class Number>
__device__ __forceinline__ int project(const Number &number, u32 axes, const Sample &s, int a) {
    int sum = 0;
#pragma unroll
    for (int b = 0; b < 3; b++) sum += s.value[1 + b] * number(axes + 3 * a + b);
    return sum >> AXIS_BITS;
}

template <class Number>
__device__ __forceinline__ int angle(const Number &number, u32 axes, const Sample &s, int a, const Transforms &transforms) {
    int length = magnitude(s);
    int cosine = length == 0 ? 0 : min(max(project(number, axes, s, a) * 1024 / length, -1024), 1024);
    return __ldg(transforms.angle + cosine + 1024) * SAMPLE_SCALE;
}

template <class Number>
__device__ __forceinline__ int response_of(const Number &number, u32 axes, const Sample &s, u32 type, const Transforms &transforms) {
    u32 channel = type & 255, modifier = type >> 8;
    int value;
    switch (channel) {
        case INTENSITY:
        case GRADIENT_I:
        case GRADIENT_J:
        case GRADIENT_K:
            value = channel == INTENSITY ? s.value[0] : channel == GRADIENT_I ? s.value[1] : channel == GRADIENT_J ? s.value[2] : s.value[3];
            break;
        case ALONG_0:
        case ALONG_1:
        case ALONG_2:
            value = project(number, axes, s, channel - ALONG_0);
            break;
        case MAGNITUDE:
            value = magnitude(s);
            break;
        case ACROSS_0: {
            s64 all = magnitude(s), along = project(number, axes, s, 0);
            value = root(max(all * all - along * along, 0ll));
            break;
        }
        default:
            value = angle(number, axes, s, channel - ANGLE_0, transforms);
    }
    if (modifier == VALUE) return value;
    if (modifier == ABSOLUTE) return abs(value);
    int whole = min(max((int)((u32)abs(value)) / SAMPLE_SCALE, 0), 4095);
    return __ldg(transforms.of_value + (modifier - SQRT) * 4096 + whole);
}

// Responses `[feature][site]` in the images that are there: a thread a site, `per_block` features a block of 128. Channels are [image][level].
extern "C" __global__ void pose_responses(
    const Channels *channels, const u32 *images, Frames frames, u32 first_site, const Feature *features, u32 feature_count, u32 per_block,
    u32 site_count, Transforms transforms, int *out
) {
    u32 s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= site_count) return;
    u32 site = first_site + s;
    auto number = [&](u32 n) { return __ldg(frames.numbers + (u64)n * frames.poses + site); };
    const Channels *levels = channels + (u64)images[site] * frames.levels;
    u32 axes = frames.levels * LEVEL_NUMBERS;
    u32 last_place = ~0u;
    Sample sample;
    u32 end = min((blockIdx.y + 1) * per_block, feature_count);
    for (u32 f = blockIdx.y * per_block; f < end; f++) {
        Feature feature = features[f];
        // Features of one point follow each other.
        if (feature.place != last_place) {
            u32 level = feature.place >> 24;
            if (!levels[level].voxels) return;
            int at[3];
#pragma unroll
            for (int a = 0; a < 3; a++) at[a] = position(number, level * LEVEL_NUMBERS, feature.place, a);
            sample = sample_at(levels[level], at);
            last_place = feature.place;
        }
        out[(u64)f * site_count + s] = response_of(number, axes, sample, feature.type, transforms);
    }
}

// The poses of a block, their frames in shared memory.
struct Poses {
    const Channels *levels;
    const int *frames;  // [number][capacity]
    Transforms transforms;
    u32 count, capacity, axes;

    __device__ __forceinline__ u32 place(u32 index) const { return index; }

    template <int V>
    __device__ __forceinline__ void margins(const Forest &forest, u32 begin, u32 end, const u32 (&places)[V], int (&margins)[V]) const {
        for (u32 w = begin; w < end; w++) {
            Threshold weak = load_threshold(forest.weaks, w);
            u32 responses[V];
            u32 level = weak.what >> 24;
            Channels channels = levels[level];
#pragma unroll
            for (int v = 0; v < V; v++) {
                auto number = [&](u32 n) { return frames[n * capacity + places[v]]; };
                int at[3];
#pragma unroll
                for (int a = 0; a < 3; a++) at[a] = position(number, level * LEVEL_NUMBERS, weak.what, a);
                responses[v] = (u32)response_of(number, axes, sample_at(channels, at), weak.how & ~HISTOGRAM, transforms);
            }
            add_votes<V>(forest.weaks, w, weak, responses, margins);
        }
    }
};

// Scores of poses in one image by waves: a block takes blockDim.x poses at a time. Lists as for `haar_waves`; dynamic shared memory: sums of
// margins and masses, then the frames.
extern "C" __global__ __launch_bounds__(256) void pose_waves(
    Forest forest, const Channels *levels, Frames frames, Transforms transforms, u32 *places, u64 *weights, s64 *scores
) {
    extern __shared__ u64 shared_words[];
    u32 capacity = blockDim.x;
    Sums sums;
    sums.positive = shared_words;
    sums.dominant = (s64 *)(sums.positive + capacity);
    sums.margins = (int *)(sums.dominant + capacity);
    int *numbers = sums.margins + capacity;
    u64 lists_each = (u64)(2 * forest.depth + 2) * capacity;
    Lists lists = {places + blockIdx.x * lists_each, weights + blockIdx.x * lists_each};
    u32 axes = frames.levels * LEVEL_NUMBERS, t = threadIdx.x;
    for (u32 first = blockIdx.x * capacity; first < frames.poses; first += gridDim.x * capacity) {
        u32 count = min(capacity, frames.poses - first);
        for (u32 n = 0; n < axes + AXIS_NUMBERS; n++)
            if (t < count) numbers[n * capacity + t] = __ldg(frames.numbers + (u64)n * frames.poses + first + t);
        sums.positive[t] = 0;
        sums.dominant[t] = 0;
        sums.margins[t] = 0;
        __syncthreads();
        Poses poses = {levels, numbers, transforms, count, capacity, axes};
        waves<1, 0>(forest, poses, lists, sums, capacity);
        if (t < count) scores[first + t] = score_of(forest, sums.positive[t], sums.dominant[t]);
        __syncthreads();
    }
}

// Patches `[site][level][intensities, then edges][point]` in the images that are there: a thread a point of a site and level.
extern "C" __global__ void pose_patches(
    const Channels *channels, const u32 *images, Frames frames, const u32 *patch_levels, u32 patch_level_count, u32 points_x, u32 points_y,
    u32 points_z, u32 edges, short *out
) {
    u32 points = points_x * points_y * points_z;
    u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= (u64)frames.poses * patch_level_count * points) return;
    u32 point = n % points, block = n / points, site = block / patch_level_count, level = patch_levels[block % patch_level_count];
    const Channels c = channels[(u64)images[site] * frames.levels + level];
    if (!c.voxels) return;
    u32 packed = point % points_x | point / points_x % points_y << 8 | point / (points_x * points_y) << 16;
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
