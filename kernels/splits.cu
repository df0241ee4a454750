// The best splits of the nodes of a level; the twin of `pbt_cpu`'s `label/splits.rs` and of
// `pbt_tree`'s `label/gain.rs`.
//
// A candidate is a test on one feature in one node. The node's samples are counted by class and bin in
// shared memory, and a warp goes through the bins. A node with few samples has one warp for both, so
// that its histogram never reaches memory; one with many has a block for each slice of its samples,
// whose counts are added in memory. Candidates come by feature, so that the bins which many nodes
// look at stay in the caches.

#include "constants.cuh"

struct Task {
    u32 first_sample, samples;  // those of each class together, the classes in order
    u32 first_candidate, candidates;
};

struct Matrix {
    const u8 *bins;  // [feature][sample]
    const u8 *bin_counts;  // of each feature, without that of missing responses
    const s64 *ln;         // ln(1 + i/1024)
    u64 samples;
    u32 classes;
    u32 unused;
};

struct Candidate {
    u32 feature;
    u32 place;   // its task, then, in FIRST_BITS, the bin at which the test begins
    u32 number;  // of all: those of a task together

    __device__ __forceinline__ u32 task() const { return place >> FIRST_BITS; }
    __device__ __forceinline__ u32 first() const { return place & ((1 << FIRST_BITS) - 1); }
};

// The best test of a candidate; a gain of 0 where there is none.
struct Found {
    s64 gain;
    u32 last;
    u32 candidate;  // of the node
};

// As `pbt_tree::fixed::ln`.
__device__ __forceinline__ s64 ln_of(const s64 *table, u32 x) {
    if (x <= 1) return 0;
    int exponent = 31 - __clz(x);
    u64 mantissa = (u64)x << (64 - exponent);
    u32 step = mantissa >> 54;
    s64 fraction = (mantissa << 10) >> 32;
    s64 below = __ldg(table + step);
    return exponent * __ldg(table + 1024) + below +
           (((__ldg(table + step + 1) - below) * fraction) >> 32);
}

__device__ __forceinline__ s64 x_ln_x(const s64 *table, u32 x) { return x * ln_of(table, x); }

// Sums over the lanes up to this one.
__device__ __forceinline__ u32 scanned(u32 value, u32 lane) {
    for (u32 step = 1; step < 32; step *= 2) {
        u32 before = __shfl_up_sync(~0u, value, step);
        if (lane >= step) value += before;
    }
    return value;
}

__device__ __forceinline__ bool is_better(const Found &a, const Found &b) {
    return a.gain > b.gain || (a.gain == b.gain && a.last < b.last);
}

// The test of the highest gain of those that begin at the bin `first`, of equals the one that ends
// lowest; `counts` are those of the samples, `[class][bin]`, `totals` those of each class. A warp;
// each lane has two bins.
__device__ __forceinline__ Found best_test(
    const Matrix &m, const u32 *counts, const u32 *totals, u32 n, u32 bins, u32 first, u32 min_leaf
) {
    const u32 lane = threadIdx.x % 32, bin = 2 * lane;
    u32 count[2] = {0, 0};
    s64 sides[2] = {0, 0}, own = 0;
    for (u32 c = 0; c < m.classes; c++) {
        u32 total = totals[c];
        if (total == 0) continue;
        const u32 *of_class = counts + c * BINS;
        u32 here = bin >= first ? of_class[bin] : 0, next = bin + 1 >= first ? of_class[bin + 1] : 0;
        u32 second = scanned(here + next, lane), left[2] = {second - next, second};
        own += x_ln_x(m.ln, total);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            count[i] += left[i];
            sides[i] += x_ln_x(m.ln, left[i]) + x_ln_x(m.ln, total - left[i]);
        }
    }
    s64 before = own - x_ln_x(m.ln, n);
    Found best = {0, BINS, 0};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        bool wanted = bin + i >= first && bin + i < bins && count[i] >= min_leaf &&
                      n - count[i] >= min_leaf;
        if (!wanted) continue;
        s64 gain = sides[i] - (x_ln_x(m.ln, count[i]) + x_ln_x(m.ln, n - count[i])) - before;
        Found found = {gain, bin + i, 0};
        if (gain > LEAST_GAIN * (s64)n && is_better(found, best)) best = found;
    }
    for (int step = 16; step > 0; step /= 2) {
        Found other = {
            __shfl_xor_sync(~0u, best.gain, step), __shfl_xor_sync(~0u, best.last, step), 0
        };
        if (is_better(other, best)) best = other;
    }
    return best;
}

// Counts those samples of a node from `from` to before `to` by class and bin of a feature; `thread` of
// `threads` that share it. Samples and totals are the node's.
__device__ __forceinline__ void count_samples(
    const Matrix &m, const u32 *samples, const u32 *totals, u32 feature, u32 from, u32 to, u32 thread,
    u32 threads, u32 *counts
) {
    const u8 *row = m.bins + feature * m.samples;
    u32 first = 0;
    for (u32 c = 0; c < m.classes && first < to; c++) {
        u32 *of_class = counts + c * BINS;
        u32 end = min(first + totals[c], to), i = max(first, from) + thread;
        first += totals[c];
        const u32 AT_ONCE = 4;
        for (; i + (AT_ONCE - 1) * threads < end; i += AT_ONCE * threads) {
            u32 bin[AT_ONCE];
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++) bin[k] = __ldg(row + __ldg(samples + i + k * threads));
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++) atomicAdd(of_class + bin[k], 1);
        }
        for (; i < end; i += threads) atomicAdd(of_class + __ldg(row + __ldg(samples + i)), 1);
    }
}

// The best test of a candidate whose samples are counted. A warp.
__device__ __forceinline__ void choose(
    const Matrix &m, const Task *tasks, const u32 *totals, const Candidate &candidate,
    const u32 *counts, u32 min_leaf, Found *found
) {
    const Task task = tasks[candidate.task()];
    Found best = best_test(
        m, counts, totals + (u64)candidate.task() * m.classes, task.samples,
        m.bin_counts[candidate.feature], candidate.first(), min_leaf
    );
    best.candidate = candidate.number - task.first_candidate;
    if (threadIdx.x % 32 == 0) found[candidate.number] = best;
}

// Candidates of nodes with few samples, a warp each. `totals` are the samples of each task and
// class. Dynamic shared memory: a histogram a warp.
extern "C" __global__ __launch_bounds__(SPLIT_THREADS) void splits_few(
    Matrix m, const Task *tasks, const u32 *totals, const u32 *samples,
    const Candidate *candidates, u32 count, u32 min_leaf, Found *found
) {
    extern __shared__ u32 histograms[];
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = blockIdx.x * (blockDim.x / 32) + warp;
    if (n >= count) return;
    u32 *counts = histograms + warp * m.classes * BINS;
    const Candidate candidate = candidates[n];
    const Task task = tasks[candidate.task()];
    for (u32 i = lane; i < m.classes * BINS; i += 32) counts[i] = 0;
    __syncwarp();
    count_samples(
        m, samples + task.first_sample, totals + (u64)candidate.task() * m.classes,
        candidate.feature, 0, task.samples, lane, 32, counts
    );
    __syncwarp();
    choose(m, tasks, totals, candidate, counts, min_leaf, found);
}

// Counts the samples of candidates of nodes with many, a block a candidate (x) and SPLIT_SLICE
// samples (y), and adds to `counts`, a histogram a candidate, which begin as 0. Dynamic shared memory:
// a histogram.
extern "C" __global__ __launch_bounds__(SPLIT_THREADS) void splits_count(
    Matrix m, const Task *tasks, const u32 *totals, const u32 *samples,
    const Candidate *candidates, u32 *counts
) {
    extern __shared__ u32 histograms[];
    const Candidate candidate = candidates[blockIdx.x];
    const Task task = tasks[candidate.task()];
    u32 from = blockIdx.y * SPLIT_SLICE, to = min(from + SPLIT_SLICE, task.samples);
    if (from >= to) return;
    for (u32 i = threadIdx.x; i < m.classes * BINS; i += blockDim.x) histograms[i] = 0;
    __syncthreads();
    count_samples(
        m, samples + task.first_sample, totals + (u64)candidate.task() * m.classes,
        candidate.feature, from, to, threadIdx.x, blockDim.x, histograms
    );
    __syncthreads();
    counts += (u64)blockIdx.x * m.classes * BINS;
    for (u32 i = threadIdx.x; i < m.classes * BINS; i += blockDim.x) {
        if (histograms[i] > 0) atomicAdd(counts + i, histograms[i]);
    }
}

// The best tests of the candidates that were counted, a warp each.
extern "C" __global__ __launch_bounds__(SPLIT_THREADS) void splits_choose(
    Matrix m, const Task *tasks, const u32 *totals, const Candidate *candidates, const u32 *counts,
    u32 count, u32 min_leaf, Found *found
) {
    u32 n = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (n >= count) return;
    choose(m, tasks, totals, candidates[n], counts + (u64)n * m.classes * BINS, min_leaf, found);
}

// The best candidate of each task, of equals the first. A warp a task.
extern "C" __global__ void splits_best(
    const Task *tasks, u32 count, const Found *found, Found *best_of
) {
    u32 n = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (n >= count) return;
    const Task task = tasks[n];
    Found best = {0, 0, ~0u};
    auto first = [](const Found &a, const Found &b) {
        return a.gain > b.gain || (a.gain == b.gain && a.candidate < b.candidate);
    };
    for (u32 i = lane; i < task.candidates; i += 32) {
        Found other = found[task.first_candidate + i];
        if (first(other, best)) best = other;
    }
    for (int step = 16; step > 0; step /= 2) {
        Found other = {
            __shfl_xor_sync(~0u, best.gain, step), __shfl_xor_sync(~0u, best.last, step),
            __shfl_xor_sync(~0u, best.candidate, step)
        };
        if (first(other, best)) best = other;
    }
    if (lane == 0) best_of[n] = best;
}
