// The best of many scores: the highest first, the lower index first where scores tie; the twin of
// `pbt_tree::best_indices`.
//
// `best_draw` looks at a few scores, one at a place drawn from each of many equal parts, and
// `best_threshold` takes one of the highest of them: a score that with near certainty is reached by
// at least as many as are wanted and by few more. `best_filter` reads all scores once and lists
// those that reach it. `best_select` takes the best of the list, in order. Whether the threshold
// was low enough and the list long enough is seen from the number that reach it; the host deals
// with the rest. The threshold, the list's order and the number of threads leave no trace in the
// result.

#include "constants.cuh"

#define THREADS BEST_THREADS
#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)

// A score that sorts as a number without sign, and the complement of its index: the larger, the
// better.
struct Key {
    u64 score;
    u32 order;
    u32 unused;
};

__device__ __forceinline__ Key key_of(s64 score, u32 index) {
    return Key{(u64)score ^ 1ull << 63, ~index};
}

__device__ __forceinline__ bool is_less(const Key &a, const Key &b) {
    return a.score < b.score || (a.score == b.score && a.order < b.order);
}

// Sorts `size` keys, a power of two, the best first.
__device__ __forceinline__ void sort(u64 *scores, u32 *orders, u32 size) {
    for (u32 run = 2; run <= size; run *= 2) {
        for (u32 step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < size / 2; i += blockDim.x) {
                u32 a = 2 * i - (i & (step - 1)), b = a + step;
                Key first = {scores[a], orders[a]}, second = {scores[b], orders[b]};
                if (is_less(first, second) == ((a & run) == 0)) {
                    scores[a] = second.score;
                    orders[a] = second.order;
                    scores[b] = first.score;
                    orders[b] = first.order;
                }
            }
        }
    }
    __syncthreads();
}

// A place of part `part` of `parts` equal ones, drawn by a hash, so that no regularity of a volume
// meets it.
__device__ __forceinline__ u32 drawn_place(u32 part, u32 parts, u32 count) {
    u32 hash = part * 0x9e3779b1u;
    hash = (hash ^ hash >> 15) * 0x85ebca77u;
    hash ^= hash >> 13;
    u32 first = (u32)((u64)count * part / parts), end = (u32)((u64)count * (part + 1) / parts);
    return first + __umulhi(hash, end - first);
}

__device__ __forceinline__ Key better(const Key &a, const Key &b) { return is_less(a, b) ? b : a; }

// Draws a score from each of `parts` parts, no more than there are scores, and keeps the best of
// THREADS groups of them, of parts far from each other. DRAWN blocks.
extern "C" __global__ __launch_bounds__(THREADS) void best_draw(
    const s64 *scores, u32 count, u32 parts, Key *drawn
) {
    __shared__ Key of_warp[THREADS / 32];
    const u32 threads = DRAWN * THREADS, kept = THREADS / DRAWN, warps_each = THREADS / 32 / kept;
    // An odd factor puts neighbours far apart.
    u32 thread = (blockIdx.x * THREADS + threadIdx.x) * 0x9e3779b1u % threads;
    Key best = {0, 0};
#pragma unroll 2
    for (u32 part = thread; part < parts; part += threads) {
        u32 place = drawn_place(part, parts, count);
        best = better(best, key_of(__ldg(scores + place), place));
    }
    for (int step = 16; step > 0; step /= 2) {
        Key other = {
            __shfl_xor_sync(~0u, best.score, step), __shfl_xor_sync(~0u, best.order, step)
        };
        best = better(best, other);
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x < kept) {
        best = of_warp[threadIdx.x * warps_each];
        for (u32 w = 1; w < warps_each; w++)
            best = better(best, of_warp[threadIdx.x * warps_each + w]);
        drawn[blockIdx.x * kept + threadIdx.x] = best;
    }
}

// The key of rank `rank`, from 1, of what `best_draw` kept; with rank 0 one that all scores reach.
// Sets the number that reach it to 0. One block.
extern "C" __global__ __launch_bounds__(THREADS) void best_threshold(
    const Key *drawn, u32 rank, Key *threshold, u32 *reached
) {
    __shared__ u64 scores[THREADS];
    __shared__ u32 orders[THREADS];
    if (rank > 0) {
        scores[threadIdx.x] = drawn[threadIdx.x].score;
        orders[threadIdx.x] = drawn[threadIdx.x].order;
        sort(scores, orders, THREADS);
    }
    if (threadIdx.x == 0) {
        *threshold = rank > 0 ? Key{scores[rank - 1], orders[rank - 1]} : Key{0, 0};
        *reached = 0;
    }
}

__device__ __forceinline__ void list(
    s64 score, u32 index, const Key &threshold, u32 capacity, Key *listed, u32 *reached
) {
    Key key = key_of(score, index);
    if (is_less(key, threshold)) return;
    u32 slot = atomicAdd(reached, 1);
    if (slot < capacity) listed[slot] = key;
}

// Lists the scores that reach the threshold, in any order; `scores` begins at a multiple of 16
// bytes.
extern "C" __global__ __launch_bounds__(256) void best_filter(
    const s64 *scores, u32 count, const Key *threshold_at, u32 capacity, Key *listed, u32 *reached
) {
    const Key threshold = *threshold_at;
    const longlong2 *pairs = (const longlong2 *)scores;
    const u32 pair_count = count / 2, threads = gridDim.x * blockDim.x;
    const u32 first = blockIdx.x * blockDim.x + threadIdx.x;
    u32 i = first;
    const u32 AT_ONCE = 4;
    for (; i + (AT_ONCE - 1) * threads < pair_count; i += AT_ONCE * threads) {
        longlong2 pair[AT_ONCE];
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) pair[k] = __ldcs(pairs + i + k * threads);
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            u32 index = 2 * (i + k * threads);
            list(pair[k].x, index, threshold, capacity, listed, reached);
            list(pair[k].y, index + 1, threshold, capacity, listed, reached);
        }
    }
    for (; i < pair_count; i += threads) {
        longlong2 pair = __ldcs(pairs + i);
        list(pair.x, 2 * i, threshold, capacity, listed, reached);
        list(pair.y, 2 * i + 1, threshold, capacity, listed, reached);
    }
    if (first == 0 && count % 2)
        list(scores[count - 1], count - 1, threshold, capacity, listed, reached);
}

// What `narrow` found of a digit.
struct Digit {
    u32 digit, here, above;
};

// The highest digit that together with those above it has `needed` members. One warp.
__device__ __forceinline__ void find_digit(const u32 *counts, u32 needed, Digit *found) {
    const u32 each = DIGITS / 32, lane = threadIdx.x, top = DIGITS - 1 - lane * each;
    u32 of_lane = 0;
    // Each lane begins at another bank.
    for (u32 i = 0; i < each; i++) of_lane += counts[top - ((i + lane) & (each - 1))];
    u32 above = of_lane;
    for (u32 step = 1; step < 32; step *= 2) {
        u32 left = __shfl_up_sync(~0u, above, step);
        if (lane >= step) above += left;
    }
    above -= of_lane;
    if (needed > above && needed <= above + of_lane) {
        u32 digit = top;
        while (above + counts[digit] < needed) above += counts[digit--];
        *found = Digit{digit, counts[digit], above};
    }
}

// Raises `cut` from 0, digit by digit, as long as at least `wanted` listed reach it, until no more
// than SORTED do: true then. `above` are certain to reach it already; of the others `number(i,
// &value)` says which take part, with a value of at most `bits` bits.
template <class Number>
__device__ __forceinline__ bool narrow(
    u32 listed, u32 wanted, int bits, u32 *counts, Digit *digit, u32 &above, u64 &cut, Number number
) {
    u64 found = 0;
    for (int done = 0; done < bits;) {
        int width = min(DIGIT_BITS, bits - done), shift = bits - done - width;
        for (u32 i = threadIdx.x; i < DIGITS; i += THREADS) counts[i] = 0;
        __syncthreads();
#pragma unroll 4
        for (u32 i = threadIdx.x; i < listed; i += THREADS) {
            u64 value;
            if (number(i, value) && (value >> shift) >> width == found)
                atomicAdd(counts + (u32)((value >> shift) & ((1u << width) - 1)), 1);
        }
        __syncthreads();
        if (threadIdx.x < 32) find_digit(counts, wanted - above, digit);
        __syncthreads();
        found = found << width | digit->digit;
        above += digit->above;
        cut = found << shift;
        done += width;
        bool few = above + digit->here <= SORTED;
        __syncthreads();
        if (few) return true;
    }
    return false;
}

// The `wanted` best of the listed, in order; at most SORTED. Only where the list holds all that
// reached the threshold, and as many as are wanted. Otherwise zeros. One block. `best` is the
// number that reached the threshold, then the scores, then the indices.
extern "C" __global__ __launch_bounds__(THREADS) void best_select(
    const Key *listed, u32 capacity, const u32 *reached, u32 wanted, s64 *best
) {
    __shared__ u64 scores[SORTED];
    __shared__ u32 orders[SORTED];
    __shared__ u64 bounds[2];
    __shared__ u32 taken;
    __shared__ Digit digit;
    const u32 count = *reached;
    if (threadIdx.x == 0) {
        best[0] = count;
        bounds[0] = ~0ull;
        bounds[1] = 0;
        taken = 0;
    }
    if (count > capacity || count < wanted) {
        for (u32 i = threadIdx.x; i < 2 * wanted; i += THREADS) best[1 + i] = 0;
        return;
    }
    __syncthreads();

    Key cut = {0, 0};
    if (count > SORTED) {
        u64 low = ~0ull, high = 0;
#pragma unroll 4
        for (u32 i = threadIdx.x; i < count; i += THREADS) {
            u64 score = listed[i].score;
            low = min(low, score);
            high = max(high, score);
        }
        for (int step = 16; step > 0; step /= 2) {
            low = min(low, __shfl_xor_sync(~0u, low, step));
            high = max(high, __shfl_xor_sync(~0u, high, step));
        }
        if (threadIdx.x % 32 == 0) {
            atomicMin(bounds, low);
            atomicMax(bounds + 1, high);
        }
        __syncthreads();
        low = bounds[0];
        u32 above = 0;
        u64 part = 0;
        u32 *counts = (u32 *)scores;
        auto distance = [=](u32 i, u64 &value) {
            value = listed[i].score - low;
            return true;
        };
        bool few = narrow(
            count, wanted, 64 - __clzll(bounds[1] - low), counts, &digit, above, part, distance
        );
        cut.score = low + part;
        if (!few) {
            // Too many of one score: those of low index.
            u64 score = cut.score;
            auto order = [=](u32 i, u64 &value) {
                value = listed[i].order;
                return listed[i].score == score;
            };
            narrow(count, wanted, 32, counts, &digit, above, part, order);
            cut.order = (u32)part;
        }
        __syncthreads();
    }
    for (u32 i = threadIdx.x; i < count; i += THREADS) {
        Key key = listed[i];
        if (is_less(key, cut)) continue;
        u32 slot = atomicAdd(&taken, 1);
        scores[slot] = key.score;
        orders[slot] = key.order;
    }
    __syncthreads();
    u32 size = 2;
    while (size < taken) size *= 2;
    for (u32 i = taken + threadIdx.x; i < size; i += THREADS) {
        scores[i] = 0;
        orders[i] = 0;
    }
    sort(scores, orders, size);
    for (u32 i = threadIdx.x; i < wanted; i += THREADS) {
        best[1 + i] = (s64)(scores[i] ^ 1ull << 63);
        best[1 + wanted + i] = ~orders[i];
    }
}
