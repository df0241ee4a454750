// Boosting rounds of one node on the device: the twin of `pbt_tree::adaboost` with the search of
// `pbt_cpu::CpuBooster`.
//
// A round is two launches, `boost_search` and `boost_update`, and needs no word from the host: what
// they hand on lies in an array of `Round`, one a round and zero at the start. All sums are of
// integers, so their order never shows.
//
// The matrix lies in tiles of 128 features, bytes [tile][sample][feature of the tile]. A warp takes
// a sample at a time, a lane four features of it, and adds the sample's signed weight to the
// block's histograms [half 2][bin 64][odd or even 2][lane 32]. Lane and bank are the same number,
// so that the additions of a warp never meet; because of the other warps they are atomic ones,
// which pass at twice the rate of a load, an addition and a store. Where tiles are few, a tile is
// split among several blocks: `1 << split` parts of 128 >> split features, and a warp takes 1 <<
// split samples at a time.

#include "constants.cuh"

#define THREADS BOOST_THREADS
#define BLOCKS_PER_SM 2
#define HALF_OF_WEIGHTS (WEIGHT_TOTAL / 2u)
// Candidates are ranked by keys: the cost, at most 8·2³⁰, above FEATURE_BITS bits of the feature.

// A sample that still weighs something, and its weight, negative for a negative sample.
struct Entry {
    u32 sample;
    int weight;
};

// What a round starts from and what it found.
struct Round {
    u64 inverse_key;  // ~(cost << 30 | feature) of the best so far, the largest wins; 0: none yet
    u64 votes;        // bit b: bin b votes +1
    u32 feature;
    u32 error2;        // twice the weighted error
    u32 total;         // sum of the weights; 0: boosting has ended
    int signed_total;  // sum of the signed weights
    u32 alive;         // number of entries
    u32 found;         // 1 when feature, error2, votes and bounds are set
    int lo, hi;        // bounds of the feature
};

// The best of a part of a tile.
struct Candidate {
    u64 votes;
    u32 error2;
    u32 padding;
};

// Where the weak classifiers come from: thresholds, histograms whose output bins merge 1 <<
// merge_bits bins, or both.
struct Kind {
    u32 threshold;
    u32 histogram;
    u32 merge_bits;
};

#define ODD 128                 // from an even feature of a lane to the odd one after it, bytes
#define HALF (TILE * BINS * 2)  // from the first two features of a lane to the other two

// Adds a sample to the histograms of the four features whose bins are the bytes of `bins`; `base`
// is four times the lane.
__device__ __forceinline__ void add_sample(char *sums, u32 base, u32 bins, int weight) {
    atomicAdd((int *)(sums + (((bins << 8) & 0x3f00u) | base)), weight);
    atomicAdd((int *)(sums + ((bins & 0x3f00u) | base) + ODD), weight);
    atomicAdd((int *)(sums + (((bins >> 8) & 0x3f00u) | base) + HALF), weight);
    atomicAdd((int *)(sums + (((bins >> 16) & 0x3f00u) | base) + HALF + ODD), weight);
}

struct Entries {
    int4 pair[GROUP / 2];
};

__device__ __forceinline__ void load_entries(Entries &entries, const Entry *list, u32 group) {
    const int4 *pairs = (const int4 *)list + (u64)group * (GROUP / 2);
#pragma unroll
    for (int i = 0; i < GROUP / 2; i++) entries.pair[i] = __ldg(pairs + i);
}

__device__ __forceinline__ void load_rows(u32 *rows, const u32 *tile, const Entries &entries) {
#pragma unroll
    for (int i = 0; i < GROUP / 2; i++) {
        rows[2 * i] = __ldg(tile + (u64)(u32)entries.pair[i].x * (TILE / 4));
        rows[2 * i + 1] = __ldg(tile + (u64)(u32)entries.pair[i].z * (TILE / 4));
    }
}

// Adds the groups first, first + step, … below `end` of the list. `tile` is the lane's word of the
// first row.
__device__ __forceinline__ void add_groups(
    char *sums, u32 base, const u32 *tile, const Entry *list, u32 first, u32 step, u32 end
) {
    if (first >= end) return;
    Entries now, next;
    u32 rows[GROUP], next_rows[GROUP];
    load_entries(now, list, first);
    load_rows(rows, tile, now);
    load_entries(next, list, min(first + step, end - 1));
    for (u32 group = first; group < end; group += step) {
        Entries after;
        load_rows(next_rows, tile, next);
        load_entries(after, list, min(group + 2 * step, end - 1));
#pragma unroll
        for (int i = 0; i < GROUP / 2; i++) {
            add_sample(sums, base, rows[2 * i], now.pair[i].y);
            add_sample(sums, base, rows[2 * i + 1], now.pair[i].w);
        }
#pragma unroll
        for (int i = 0; i < GROUP; i++) rows[i] = next_rows[i];
        now = next;
        next = after;
    }
}

// What `best_of_feature` keeps while it goes through the bins in rising order.
struct Scan {
    int cum, gain, group;
    u32 best_bin, upper, histogram_gain;
    u64 votes;
};

__device__ __forceinline__ void scan_bin(Scan &scan, int d, u32 bin, int all, const Kind &kind) {
    scan.cum += d;
    int difference = (all - scan.cum) - scan.cum;
    int size = abs(difference);
    if (size > scan.gain) {
        scan.gain = size;
        scan.best_bin = bin;
        scan.upper = difference >= 0;
    }
    u32 merged = 1u << kind.merge_bits;
    scan.group += d;
    if ((bin & (merged - 1)) == merged - 1) {
        scan.histogram_gain += abs(scan.group);
        if (scan.group > 0) scan.votes |= (~0ull >> (BINS - merged)) << (bin + 1 - merged);
        scan.group = 0;
    }
}

// The best weak classifier of a feature: its cost, and through the pointers its votes and twice its
// error.
__device__ __forceinline__ u64
finish_scan(const Scan &scan, u32 total, const Kind &kind, u64 *votes, u32 *error2) {
    u64 cost = ~0ull;
    if (kind.threshold) {
        u64 upper = (~0ull << scan.best_bin) << 1;
        *votes = scan.upper ? upper : ~upper;
        *error2 = total - (u32)scan.gain;
        cost = (u64)*error2 * 7;
    }
    u32 histogram_error2 = total - scan.histogram_gain;
    if (kind.histogram && (u64)histogram_error2 * 8 < cost) {
        *votes = scan.votes;
        *error2 = histogram_error2;
        cost = (u64)histogram_error2 * 8;
    }
    return cost;
}

// The best weak classifier of every part of a tile, from `first_tile` on, and of all: a block a
// part. Clears the list that the update of this round will write.
extern "C" __global__ __launch_bounds__(THREADS, BLOCKS_PER_SM) void boost_search(
    const u8 *bins, u32 samples, u32 features, u32 first_tile, u32 split, const Entry *list,
    Entry *next_list, u32 list_capacity, u32 threshold, u32 histogram, u32 merge_bits, Round *round,
    Candidate *candidates
) {
    __shared__ int4 words[TILE * BINS / 4];
    __shared__ u64 warp_keys[THREADS / 32];
    const Kind kind = {threshold, histogram, merge_bits};
    u32 total = round->total;
    if (total == 0) return;
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < list_capacity; i += gridDim.x * THREADS)
        next_list[i] = Entry{0, 0};
    for (u32 i = threadIdx.x; i < TILE * BINS / 4; i += THREADS) words[i] = make_int4(0, 0, 0, 0);
    __syncthreads();

    char *sums = (char *)words;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 copies = 1u << split, width = 32 >> split;
    u32 tile = blockIdx.x >> split, first_lane = (blockIdx.x & (copies - 1)) * width;
    const u32 *rows = (const u32 *)(bins + (u64)tile * samples * TILE) + first_lane + lane % width;
    u32 groups = (round->alive + GROUP - 1) / GROUP;
    if (split == 0) {
        // The same with less arithmetic, for the matrices where it counts.
        add_groups(sums, lane * 4, rows, list, warp, THREADS / 32, groups);
    } else {
        add_groups(
            sums, lane * 4, rows, list, warp * copies + lane / width, THREADS / 32 * copies, groups
        );
        __syncthreads();
        // Lanes that took different samples of the same features have sums of their own: the first
        // lane of each feature gets them all.
        for (u32 row = warp; row < TILE * BINS / 32; row += THREADS / 32) {
            int *word = (int *)words + row * 32 + lane;
            int sum = *word;
            for (u32 step = width; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
            if (lane < width) *word = sum;
        }
    }
    __syncthreads();

    // Every sample is in one bin of each feature, so that the sum of all bins is the same for all
    // features.
    int all = round->signed_total;
    u64 best_key = ~0ull, best_votes = 0;
    u32 best_error2 = 0;
    u32 feature = (first_tile + tile) * TILE + (first_lane + lane) * 4 + warp;
    if (warp < 4 && lane < width && feature < features) {
        Scan scan = {0, -1, 0, 0, 0, 0, 0};
        const char *column = sums + (warp & 1) * ODD + (warp >> 1) * HALF + lane * 4;
#pragma unroll 8
        for (u32 bin = 0; bin < BINS; bin++) {
            scan_bin(scan, *(const int *)(column + bin * 256), bin, all, kind);
        }
        best_key =
            finish_scan(scan, total, kind, &best_votes, &best_error2) << FEATURE_BITS | feature;
    }
    u64 key = best_key;
    for (int step = 16; step > 0; step /= 2) key = min(key, __shfl_xor_sync(~0u, key, step));
    if (lane == 0) warp_keys[warp] = key;
    __syncthreads();
    for (u32 w = 0; w < THREADS / 32; w++) key = min(key, warp_keys[w]);
    if (key == best_key && key != ~0ull) {
        candidates[((first_tile + tile) << split) + first_lane / width] =
            Candidate{best_votes, best_error2, 0};
        atomicMax(&round->inverse_key, ~key);
    }
}

// The feature that is best so far.
__device__ __forceinline__ u32 best_feature(const Round *round) {
    return (u32)(~round->inverse_key) & ((1u << FEATURE_BITS) - 1);
}

// Keeps the bins of the best feature so far when it lies in the tiles first_tile .. first_tile +
// tiles, for a matrix that passes through the device piece by piece.
extern "C" __global__ void boost_keep_row(
    const u8 *bins, u32 samples, u32 first_tile, u32 tiles, const Round *round, u8 *row
) {
    u32 feature = best_feature(round);
    u32 tile = feature / TILE - first_tile;
    if (round->total == 0 || round->inverse_key == 0 || feature / TILE < first_tile ||
        tile >= tiles)
        return;
    const u8 *column = bins + (u64)tile * samples * TILE + feature % TILE;
    for (u32 s = blockIdx.x * blockDim.x + threadIdx.x; s < samples; s += gridDim.x * blockDim.x)
        row[s] = column[(u64)s * TILE];
}

// Ends a round: writes what it found, and the entries and sums of the next. `row` holds the bins of
// the best feature, or is null where the whole matrix is in `bins`. Boosting ends (the next round's
// total stays 0) where nothing was found, where the error exceeds half of `most_error2` = 2·θ times
// the total, and where no or every weight was wrong.
extern "C" __global__ void boost_update(
    const u8 *bins, const u8 *row, u32 samples, u32 split, const int2 *bounds, double most_error2,
    const Entry *list, Entry *next_list, const Candidate *candidates, Round *round
) {
    __shared__ u32 warp_counts[32];
    __shared__ u32 block_first;
    __shared__ u32 block_total;
    __shared__ int block_signed;
    Round *next = round + 1;
    u32 total = round->total;
    if (total == 0 || round->inverse_key == 0) return;
    u32 feature = best_feature(round);
    Candidate best = candidates[feature / (TILE >> split)];
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        int2 range = bounds[feature];
        round->votes = best.votes;
        round->feature = feature;
        round->error2 = best.error2;
        round->lo = range.x;
        round->hi = range.y;
        round->found = 1;
    }
    // The signed sums give the weight that is wrong exactly.
    u32 wrong = best.error2 / 2, right = total - wrong;
    if (wrong == 0 || right == 0 || !((double)best.error2 <= most_error2 * (double)total)) return;

    if (threadIdx.x == 0) {
        block_total = 0;
        block_signed = 0;
    }
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    Entry entry = {0, 0};
    u32 weight = 0;
    if (i < round->alive) {
        entry = list[i];
        u32 bin =
            row ? row[entry.sample]
                : bins[((u64)(feature / TILE) * samples + entry.sample) * TILE + feature % TILE];
        bool label = entry.weight > 0;
        bool is_right = ((best.votes >> bin) & 1) == label;
        weight = (u32)((u64)abs(entry.weight) * HALF_OF_WEIGHTS / (is_right ? right : wrong));
        entry.weight = label ? (int)weight : -(int)weight;
    }
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 kept = __ballot_sync(~0u, weight != 0);
    u32 sum = weight;
    int signed_sum = entry.weight;
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
        signed_sum += __shfl_xor_sync(~0u, signed_sum, step);
    }
    if (lane == 0) warp_counts[warp] = __popc(kept);
    __syncthreads();
    if (lane == 0) {
        atomicAdd(&block_total, sum);
        atomicAdd(&block_signed, signed_sum);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 count = 0;
        for (u32 w = 0; w < blockDim.x / 32; w++) {
            u32 of_warp = warp_counts[w];
            warp_counts[w] = count;
            count += of_warp;
        }
        block_first = count ? atomicAdd(&next->alive, count) : 0;
        if (count) {
            atomicAdd(&next->total, block_total);
            atomicAdd(&next->signed_total, block_signed);
        }
    }
    __syncthreads();
    if (weight != 0)
        next_list[block_first + warp_counts[warp] + __popc(kept & ((1u << lane) - 1))] = entry;
}

// A weak classifier: `row` of the responses, its bounds and their multiplier, its votes and their
// weight.
struct Weak {
    u64 votes;
    u64 multiplier;
    u32 row;
    int lo, hi;
    int alpha;
};

// Margins Σ ±alpha of samples whose responses are `[row][sample]`.
extern "C" __global__ void boost_margins(
    const int *responses, u32 samples, const Weak *weaks, u32 count, int *margins
) {
    u32 s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= samples) return;
    int margin = 0;
    for (u32 i = 0; i < count; i++) {
        Weak weak = weaks[i];
        int x = __ldg(responses + (u64)weak.row * samples + s);
        u32 distance = (u32)min(max(x, weak.lo), weak.hi) - (u32)weak.lo;
        u32 bin = (u32)((distance * weak.multiplier) >> 32);
        margin += (weak.votes >> bin) & 1 ? weak.alpha : -weak.alpha;
    }
    margins[s] = margin;
}
