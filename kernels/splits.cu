// The best splits of the nodes of a level; the twin of `pbt_cpu`'s `label/splits.rs` and of
// `pbt_tree`'s `label/gain.rs`.
//
// A candidate is a test on one feature in one node. A group of threads counts the node's samples by
// class and bin in shared memory, and its first warp goes through the bins: a warp for a node with
// few samples, a block for one with many. The histograms never reach memory.

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
    u32 where;  // its task, then, in FIRST_BITS, the bin at which the test begins

    __device__ __forceinline__ u32 task() const { return where >> FIRST_BITS; }
    __device__ __forceinline__ u32 first() const { return where & ((1 << FIRST_BITS) - 1); }
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

// Counts the samples of a node by class and bin of a feature; `thread` of `threads` that share it.
__device__ __forceinline__ void count_samples(
    const Matrix &m, const u32 *samples, const u32 *totals, u32 feature, u32 thread, u32 threads,
    u32 *counts
) {
    const u8 *row = m.bins + feature * m.samples;
    for (u32 c = 0; c < m.classes; c++) {
        u32 total = totals[c], *of_class = counts + c * BINS;
        u32 i = thread;
        const u32 AT_ONCE = 4;
        for (; i + (AT_ONCE - 1) * threads < total; i += AT_ONCE * threads) {
            u32 bin[AT_ONCE];
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++) bin[k] = __ldg(row + __ldg(samples + i + k * threads));
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++) atomicAdd(of_class + bin[k], 1);
        }
        for (; i < total; i += threads) atomicAdd(of_class + __ldg(row + __ldg(samples + i)), 1);
        samples += total;
    }
}

// The best test of each candidate, counted by as many threads as share a histogram.
template <class Wait>
__device__ __forceinline__ void search(
    const Matrix &m, const Task *tasks, const u32 *all_totals, const u32 *samples,
    const Candidate &candidate, u32 n, u32 min_leaf, u32 thread, u32 threads, u32 *counts,
    Found *found, Wait wait
) {
    const Task task = tasks[candidate.task()];
    const u32 *totals = all_totals + (u64)candidate.task() * m.classes;
    for (u32 i = thread; i < m.classes * BINS; i += threads) counts[i] = 0;
    wait();
    count_samples(
        m, samples + task.first_sample, totals, candidate.feature, thread, threads, counts
    );
    wait();
    if (thread >= 32) return;
    Found best = best_test(
        m, counts, totals, task.samples, m.bin_counts[candidate.feature], candidate.first(),
        min_leaf
    );
    best.candidate = n - task.first_candidate;
    if (thread == 0) found[n] = best;
}

// Candidates of nodes with few samples, a warp each. `totals` are the samples of each task and
// class. Dynamic shared memory: a histogram a warp.
extern "C" __global__ __launch_bounds__(SPLIT_THREADS) void splits_few(
    Matrix m, const Task *tasks, const u32 *totals, const u32 *samples,
    const Candidate *candidates, u32 count, u32 min_leaf, Found *found
) {
    extern __shared__ u32 histograms[];
    u32 warp = threadIdx.x / 32, n = blockIdx.x * (blockDim.x / 32) + warp;
    if (n >= count) return;
    search(
        m, tasks, totals, samples, candidates[n], n, min_leaf, threadIdx.x % 32, 32,
        histograms + warp * m.classes * BINS, found, [] { __syncwarp(); }
    );
}

// Candidates of nodes with many samples, a block each. Dynamic shared memory: a histogram.
extern "C" __global__ __launch_bounds__(SPLIT_THREADS) void splits_many(
    Matrix m, const Task *tasks, const u32 *totals, const u32 *samples,
    const Candidate *candidates, u32 count, u32 min_leaf, Found *found
) {
    extern __shared__ u32 histograms[];
    u32 n = blockIdx.x;
    search(
        m, tasks, totals, samples, candidates[n], n, min_leaf, threadIdx.x, blockDim.x, histograms,
        found, [] { __syncthreads(); }
    );
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
