// Steerable responses and scores of posed boxes; the twin of `poses.rs` of `pbt-cpu`.

#include "sampling.cuh"
#include "waves.cuh"

// The transforms of values 0 … 4095 one after the other (√, ∛, square, cube, log), and the angles
// by cosine.
struct Transforms {
    const int *of_value;
    const int *angle;
};

// `SteerableFeature`, packed: point and level, channel and modifier, a byte each.
struct Feature {
    u32 place, type;
};

// The component of the gradient along a box axis.
template <class Number>
__device__ __forceinline__ int project(const Number &number, u32 axes, const Sample &s, int a) {
    int sum = 0;
#pragma unroll
    for (int b = 0; b < 3; b++) sum += s.value[1 + b] * number(axes + 3 * a + b);
    return sum >> AXIS_BITS;
}

template <class Number>
__device__ __forceinline__ int angle(
    const Number &number, u32 axes, const Sample &s, int a, const Transforms &transforms
) {
    int length = magnitude(s);
    int cosine =
        length == 0 ? 0 : min(max(project(number, axes, s, a) * 1024 / length, -1024), 1024);
    return __ldg(transforms.angle + cosine + 1024) * SAMPLE_SCALE;
}

template <class Number>
__device__ __forceinline__ int response_of(
    const Number &number, u32 axes, const Sample &s, u32 type, const Transforms &transforms
) {
    u32 channel = type & 255, modifier = type >> 8;
    int value;
    switch (channel) {
    case INTENSITY:
    case GRADIENT_I:
    case GRADIENT_J:
    case GRADIENT_K:
        value = channel == INTENSITY    ? s.value[0]
                : channel == GRADIENT_I ? s.value[1]
                : channel == GRADIENT_J ? s.value[2]
                                        : s.value[3];
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

// Responses `[feature][site]` in the images that are there: a thread a site, `per_block` features a
// block of 128. Channels are [image][level].
extern "C" __global__ void poses_responses(
    const Channels *channels, const u32 *images, Frames frames, u32 first_site,
    const Feature *features, u32 feature_count, u32 per_block, u32 site_count,
    Transforms transforms, int *out
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
            for (int a = 0; a < 3; a++)
                at[a] = position(number, level * LEVEL_NUMBERS, feature.place, a);
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
    __device__ __forceinline__ void margins(
        const Forest &forest, u32 begin, u32 end, const u32 (&places)[V], int (&margins)[V]
    ) const {
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
                for (int a = 0; a < 3; a++)
                    at[a] = position(number, level * LEVEL_NUMBERS, weak.what, a);
                responses[v] = (u32)response_of(
                    number, axes, sample_at(channels, at), weak.how & ~HISTOGRAM, transforms
                );
            }
            add_votes<V>(forest.weaks, w, weak, responses, margins);
        }
    }
};

// Scores of poses in one image by waves: a block takes so many poses at a time, at most blockDim.x. Lists
// as for `haar_waves`; dynamic shared memory: sums of margins and masses, then the frames.
extern "C" __global__ __launch_bounds__(POSE_THREADS) void poses_waves(
    Forest forest, const Channels *levels, Frames frames, u32 poses_a_block, Transforms transforms,
    u32 *places, u64 *weights, s64 *scores
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
    for (u32 first = blockIdx.x * poses_a_block; first < frames.poses;
         first += gridDim.x * poses_a_block) {
        u32 count = min(poses_a_block, frames.poses - first);
        for (u32 n = 0; n < axes + AXIS_NUMBERS; n++)
            if (t < count)
                numbers[n * capacity + t] =
                    __ldg(frames.numbers + (u64)n * frames.poses + first + t);
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
