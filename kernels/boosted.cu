// Boosted trees that label voxels; the twin of `pbt_tree`'s `label/boosted_host.rs`, `label/slopes.rs`
// and `label/softmax.rs`.
//
// The samples of a tree are a list in which those of a node lie together. For each node and feature a
// block sums counts and slopes by bin in shared memory, and its first warp goes through the bins: the
// histograms never reach memory. Then the samples of each node that has a test are parted.

#include "constants.cuh"

struct Matrix {
    const u8 *bins;        // [feature][sample]
    const u8 *bin_counts;  // of each feature, without that of missing responses
    u64 samples;
    u32 others;  // classes but the background
    u32 unused;
};

// The samples of a node, as a part of the list.
struct Node {
    u32 begin, count;
};

// The best test of a node on a feature; a fall of 0 where there is none.
struct Found {
    double fall;  // of twice the loss
    u32 last;
    u32 candidate;  // place of the feature among those of the tree
    u32 left;       // samples up to and with `last`
    u32 unused;
};

// Where the samples of a node go.
struct Part {
    u32 begin, count;
    u32 feature, last;
    u32 child;  // number of the left child, before the right one; NO_CHILD where the node is a leaf
    u32 unused;
};
#define NO_CHILD (~0u)

// A node of a finished tree.
struct BinNode {
    u32 feature;  // LEAF of a leaf
    u32 next;     // the left child, before the right one, or the leaf's number
    u32 last;
    u32 unused;
};
#define LEAF (~0u)

// Slopes of a sample by the score of a class in one word.
__device__ __forceinline__ int packed(int gradient, int curve) {
    return (gradient & 0xffff) | curve << 16;
}
__device__ __forceinline__ int gradient_of(int slopes) { return (short)slopes; }
__device__ __forceinline__ int curve_of(int slopes) { return slopes >> 16; }

__device__ __forceinline__ int warp_sum(int value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

// Sums over the lanes up to this one.
template <class T>
__device__ __forceinline__ T scanned(T value, u32 lane) {
    for (u32 step = 1; step < 32; step *= 2) {
        T before = __shfl_up_sync(~0u, value, step);
        if (lane >= step) value += before;
    }
    return value;
}

// Adds the sums of a block to those of nodes.
__device__ __forceinline__ void add_sums(const int *own, u32 count, s64 *sums) {
    for (u32 n = threadIdx.x; n < count; n += blockDim.x) {
        if (own[n] != 0) atomicAdd((u64 *)sums + n, (u64)(s64)own[n]);
    }
}

// exp(−(highest − score)·2⁻¹¹), as `pbt_tree`'s table has it.
__device__ __forceinline__ double share_of(const double *exps, u32 count, s64 highest, s64 score) {
    u64 step = highest - score;
    return step < count ? __ldg(exps + step) : 0.0;
}

// Slopes of the samples of a tree, a thread each, and their sums. Dynamic shared memory: the sums.
extern "C" __global__ void boosted_slopes(
    Matrix m, const double *exps, u32 exp_count, const u8 *labels, const int *scores,
    const u32 *list, u32 count, int *slopes, s64 *sums
) {
    extern __shared__ int own_sums[];  // [class − 1][2]
    for (u32 n = threadIdx.x; n < 2 * m.others; n += blockDim.x) own_sums[n] = 0;
    __syncthreads();
    u32 place = blockIdx.x * blockDim.x + threadIdx.x;
    bool is_sample = place < count;
    u32 sample = is_sample ? list[place] : 0;
    const int *own = scores + (u64)sample * m.others;
    s64 highest = 0;
    for (u32 c = 0; c < m.others; c++) highest = max(highest, (s64)own[c]);
    double of_others = 0.0;
    for (u32 c = 0; c < m.others; c++) of_others += share_of(exps, exp_count, highest, own[c]);
    double all = share_of(exps, exp_count, highest, 0) + of_others;
    u32 left = LEAF_ONE, label = labels[sample];
    for (u32 c = 0; c < m.others; c++) {
        double part = share_of(exps, exp_count, highest, own[c]) / all * (double)LEAF_ONE;
        u32 share = min((u32)part, left);
        left -= share;
        int twice = (int)share - (label == c + 1 ? LEAF_ONE : 0);
        int gradient = (twice + (twice > 0) - (twice < 0)) / 2;
        int curve = max((share * (LEAF_ONE - share) + LEAF_ONE) >> (SLOPE_BITS + 2), 1u);
        if (is_sample) slopes[(u64)sample * m.others + c] = packed(gradient, curve);
        gradient = warp_sum(is_sample ? gradient : 0);
        curve = warp_sum(is_sample ? curve : 0);
        if (threadIdx.x % 32 == 0) {
            atomicAdd(own_sums + 2 * c, gradient);
            atomicAdd(own_sums + 2 * c + 1, curve);
        }
    }
    __syncthreads();
    add_sums(own_sums, 2 * m.others, sums);
}

// Twice how much the loss falls by the best score of a leaf with these sums.
__device__ __forceinline__ double worth(s64 gradients, s64 curves, double ridge) {
    double gradient = (double)gradients / (double)(1 << SLOPE_BITS);
    double curve = (double)curves / (double)(1 << SLOPE_BITS);
    return gradient * gradient / (curve + ridge);
}

__device__ __forceinline__ bool is_better(const Found &a, const Found &b) {
    return a.fall > b.fall || (a.fall == b.fall && a.last < b.last);
}

// The best test of each node, from `first_node` on, on each feature: blocks along x for features, along
// y for nodes. Dynamic shared memory: sums, those of a slice of the samples, counts.
extern "C" __global__ __launch_bounds__(BOOSTED_THREADS) void boosted_search(
    Matrix m, const Node *nodes, u32 first_node, const u32 *list, const int *slopes,
    const u32 *features, u32 min_leaf, double ridge, double least, Found *found
) {
    extern __shared__ s64 sums[];  // [class − first class][2][bin]
    const u32 together = min(m.others, (u32)CLASSES_AT_ONCE);
    int *slice = (int *)(sums + 2 * together * BINS);
    u32 *counts = (u32 *)(slice + 2 * together * BINS);
    const Node node = nodes[first_node + blockIdx.y];
    const u32 n = node.count, feature = features[blockIdx.x];
    Found *own = found + (u64)blockIdx.y * gridDim.x + blockIdx.x;
    if (n < 2 * min_leaf) {
        if (threadIdx.x == 0) *own = {0.0, BINS, blockIdx.x, 0, 0};
        return;
    }
    const u8 *row = m.bins + feature * m.samples;
    list += node.begin;
    // Of a lane's two bins.
    const u32 lane = threadIdx.x, bin = 2 * lane;
    double left_worth[2] = {0.0, 0.0}, right_worth[2] = {0.0, 0.0}, before = 0.0;
    for (u32 first = 0; first < m.others; first += together) {
        const u32 classes = min(together, m.others - first), cells = 2 * classes * BINS;
        for (u32 i = threadIdx.x; i < cells; i += blockDim.x) sums[i] = 0, slice[i] = 0;
        if (first == 0) {
            for (u32 i = threadIdx.x; i < BINS; i += blockDim.x) counts[i] = 0;
        }
        __syncthreads();
        // No sum of a slice leaves its 32 bits.
        for (u32 begin = 0; begin < n; begin += SLICE) {
            const u32 end = min(begin + SLICE, n);
            for (u32 i = begin + threadIdx.x; i < end; i += blockDim.x) {
                const u32 sample = list[i], here = __ldg(row + sample);
                if (first == 0) atomicAdd(counts + here, 1);
                const int *both = slopes + (u64)sample * m.others + first;
                for (u32 c = 0; c < classes; c++) {
                    atomicAdd(slice + 2 * c * BINS + here, gradient_of(both[c]));
                    atomicAdd(slice + (2 * c + 1) * BINS + here, curve_of(both[c]));
                }
            }
            __syncthreads();
            for (u32 i = threadIdx.x; i < cells; i += blockDim.x) {
                sums[i] += slice[i];
                slice[i] = 0;
            }
            __syncthreads();
        }
        if (threadIdx.x < 32) {
            for (u32 c = 0; c < classes; c++) {
                const s64 *gradients = sums + 2 * c * BINS + bin, *curves = gradients + BINS;
                s64 gradient = scanned(gradients[0] + gradients[1], lane);
                s64 curve = scanned(curves[0] + curves[1], lane);
                const s64 left_gradient[2] = {gradient - gradients[1], gradient};
                const s64 left_curve[2] = {curve - curves[1], curve};
                gradient = __shfl_sync(~0u, gradient, 31);
                curve = __shfl_sync(~0u, curve, 31);
                before += worth(gradient, curve, ridge);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    left_worth[i] += worth(left_gradient[i], left_curve[i], ridge);
                    right_worth[i] +=
                        worth(gradient - left_gradient[i], curve - left_curve[i], ridge);
                }
            }
        }
        __syncthreads();
    }
    if (threadIdx.x >= 32) return;
    const u32 bins = m.bin_counts[feature];
    u32 second = scanned(counts[bin] + counts[bin + 1], lane);
    const u32 count[2] = {second - counts[bin + 1], second};
    Found best = {0.0, BINS, blockIdx.x, 0, 0};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        bool wanted = bin + i < bins && count[i] >= min_leaf && n - count[i] >= min_leaf;
        if (!wanted) continue;
        Found other = {left_worth[i] + right_worth[i] - before, bin + i, blockIdx.x, count[i], 0};
        if (other.fall > least && is_better(other, best)) best = other;
    }
    for (int step = 16; step > 0; step /= 2) {
        Found other = best;
        other.fall = __shfl_xor_sync(~0u, best.fall, step);
        other.last = __shfl_xor_sync(~0u, best.last, step);
        other.left = __shfl_xor_sync(~0u, best.left, step);
        if (is_better(other, best)) best = other;
    }
    if (lane == 0) *own = best;
}

// The best test of each node, of equals that on the lower feature. A warp a node.
extern "C" __global__ void boosted_choose(
    const Found *found, u32 features, u32 first_node, u32 count, Found *best_of
) {
    u32 n = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (n >= count) return;
    Found best = {0.0, BINS, ~0u, 0, 0};
    auto first = [](const Found &a, const Found &b) {
        return a.fall > b.fall || (a.fall == b.fall && a.candidate < b.candidate);
    };
    for (u32 i = lane; i < features; i += 32) {
        Found other = found[(u64)n * features + i];
        if (first(other, best)) best = other;
    }
    for (int step = 16; step > 0; step /= 2) {
        Found other = {
            __shfl_xor_sync(~0u, best.fall, step), __shfl_xor_sync(~0u, best.last, step),
            __shfl_xor_sync(~0u, best.candidate, step), __shfl_xor_sync(~0u, best.left, step), 0
        };
        if (first(other, best)) best = other;
    }
    if (lane == 0) best_of[first_node + n] = best;
}

// Parts the samples of the nodes from `first_node` on: blocks along x for parts of a node, along y for
// nodes. `ends` are the ends of the children's samples so far; `sums` are the children's, `[child][class
// − 1][2]`. Dynamic shared memory: sums of both sides.
extern "C" __global__ __launch_bounds__(PART_THREADS) void boosted_part(
    Matrix m, const Part *parts, u32 first_node, const u32 *list, const int *slopes, u32 *out,
    u32 *ends, s64 *sums
) {
    extern __shared__ int side_sums[];  // [side][class − 1][2]
    __shared__ u32 warp_counts[PART_THREADS / 32], bases[2];
    const Part part = parts[first_node + blockIdx.y];
    const u32 begin = blockIdx.x * (PART_THREADS * PART_EACH);
    if (part.child == NO_CHILD || begin >= part.count) return;
    const u32 width = 2 * m.others, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 i = threadIdx.x; i < 2 * width; i += blockDim.x) side_sums[i] = 0;
    const u8 *row = m.bins + part.feature * m.samples;
    // Samples that lie side by side stay so.
    const u32 first = begin + PART_EACH * threadIdx.x;
    u32 samples[PART_EACH], own = 0, rights = 0;
#pragma unroll
    for (u32 k = 0; k < PART_EACH; k++) {
        if (first + k >= part.count) continue;
        samples[k] = list[part.begin + first + k];
        u32 right = __ldg(row + samples[k]) > part.last;
        own += right ? 1 << 16 : 1;
        rights |= right << k;
    }
    u32 upto = scanned(own, lane);
    if (lane == 31) warp_counts[warp] = upto;
    __syncthreads();
    u32 before = upto - own, all = 0;
    for (u32 w = 0; w < PART_THREADS / 32; w++) {
        if (w < warp) before += warp_counts[w];
        all += warp_counts[w];
    }
    if (threadIdx.x == 0) {
        bases[0] = atomicAdd(ends + part.child, all & 0xffff);
        bases[1] = atomicAdd(ends + part.child + 1, all >> 16);
    }
    for (u32 c = 0; c < m.others; c++) {
        int of[2][2] = {{0, 0}, {0, 0}};
#pragma unroll
        for (u32 k = 0; k < PART_EACH; k++) {
            if (first + k >= part.count) continue;
            int both = slopes[(u64)samples[k] * m.others + c];
            bool right = rights >> k & 1;
            of[0][0] += right ? 0 : gradient_of(both);
            of[0][1] += right ? 0 : curve_of(both);
            of[1][0] += right ? gradient_of(both) : 0;
            of[1][1] += right ? curve_of(both) : 0;
        }
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            int sum = warp_sum(of[i / 2][i % 2]);
            if (lane == 0) atomicAdd(side_sums + (i / 2) * width + 2 * c + i % 2, sum);
        }
    }
    __syncthreads();
    u32 to[2] = {bases[0] + (before & 0xffff), bases[1] + (before >> 16)};
#pragma unroll
    for (u32 k = 0; k < PART_EACH; k++) {
        if (first + k >= part.count) continue;
        if (rights >> k & 1) {
            out[to[1]++] = samples[k];
        } else {
            out[to[0]++] = samples[k];
        }
    }
    add_sums(side_sums, 2 * width, sums + (u64)part.child * width);
}

// Adds the steps of a tree to the scores of all samples, a thread each.
extern "C" __global__ void boosted_add(
    Matrix m, const BinNode *nodes, const int *steps, int *scores
) {
    u64 sample = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (sample >= m.samples) return;
    BinNode node = nodes[0];
    while (node.feature != LEAF) {
        u32 bin = __ldg(m.bins + node.feature * m.samples + sample);
        node = nodes[node.next + (bin > node.last)];
    }
    steps += (u64)node.next * m.others;
    for (u32 c = 0; c < m.others; c++) scores[sample * m.others + c] += steps[c];
}
