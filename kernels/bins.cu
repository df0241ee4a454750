// Bounds and bins of responses, and the tiled matrix that boosting reads: the twin of
// `pbt_tree::{Bounds, BinnedMatrix}`.

#include "constants.cuh"

#define DIGIT_BITS 8
#define DIGITS (1 << DIGIT_BITS)

// The digit of the value of rank `rank` among the counted, and the rank that is left within that
// digit. One warp.
__device__ __forceinline__ void find_digit(
    const u32 *counts, u32 rank, u32 *digit, u32 *rank_within
) {
    u32 lane = threadIdx.x % 32;
    u32 of_lane = 0;
#pragma unroll
    for (u32 i = 0; i < DIGITS / 32; i++) of_lane += counts[lane * (DIGITS / 32) + i];
    u32 before = of_lane;
    for (u32 step = 1; step < 32; step *= 2) {
        u32 left = __shfl_up_sync(~0u, before, step);
        if (lane >= step) before += left;
    }
    before -= of_lane;
    if (rank >= before && rank < before + of_lane) {
        u32 d = lane * (DIGITS / 32);
        while (rank >= before + counts[d]) before += counts[d++];
        *digit = d;
        *rank_within = rank - before;
    }
}

// Bounds of each feature, a block a feature: the responses of rank `rank` from below and from above
// (0: the smallest and the largest), moved apart by one where they coincide; and the multipliers
// ⌊2³⁸/(hi − lo + 1)⌋. `responses` is [feature][sample]; `samples` is not 0 and rank is at most
// (samples − 1)/2. With `cached`, the row is kept in dynamic shared memory (4 bytes a sample).
//
// The order statistics are found digit by digit, from the highest that the range of the responses
// has.
extern "C" __global__ void bins_bounds(
    const int *responses, u32 samples, u32 rank, u32 cached, int2 *bounds, u64 *multipliers
) {
    extern __shared__ int cache[];
    __shared__ int warp_low[32], warp_high[32];
    __shared__ u32 counts[2][DIGITS];
    __shared__ u32 digit[2], rank_left[2];
    const int *row = responses + (u64)blockIdx.x * samples;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    int low = 0x7fffffff, high = -0x7fffffff - 1;
    for (u32 s = threadIdx.x; s < samples; s += blockDim.x) {
        int x = __ldg(row + s);
        if (cached) cache[s] = x;
        low = min(low, x);
        high = max(high, x);
    }
    for (int step = 16; step > 0; step /= 2) {
        low = min(low, __shfl_xor_sync(~0u, low, step));
        high = max(high, __shfl_xor_sync(~0u, high, step));
    }
    if (lane == 0) {
        warp_low[warp] = low;
        warp_high[warp] = high;
    }
    __syncthreads();
    for (u32 w = 0; w < blockDim.x / 32; w++) {
        low = min(low, warp_low[w]);
        high = max(high, warp_high[w]);
    }

    if (rank > 0 && low < high) {
        const int *values = cached ? cache : row;
        // Distances from the smallest, as unsigned numbers of `bits` bits; what is found so far of
        // the two that are sought.
        u32 found[2] = {0, 0};
        u32 ranks[2] = {rank, samples - 1 - rank};
        int bits = 32 - __clz((u32)high - (u32)low);
        for (int done = 0; done < bits;) {
            int width = min(DIGIT_BITS, bits - done);
            int shift = bits - done - width;
            for (u32 i = threadIdx.x; i < 2 * DIGITS; i += blockDim.x) (&counts[0][0])[i] = 0;
            __syncthreads();
            bool same = found[0] == found[1];
            for (u32 s = threadIdx.x; s < samples; s += blockDim.x) {
                u32 distance = (u32)values[s] - (u32)low;
                u32 prefix = (distance >> shift) >> width;
                u32 d = (distance >> shift) & ((1u << width) - 1);
                if (prefix == found[0]) atomicAdd(&counts[0][d], 1);
                if (!same && prefix == found[1]) atomicAdd(&counts[1][d], 1);
            }
            __syncthreads();
            if (warp < 2)
                find_digit(
                    counts[same ? 0 : warp], warp == 0 ? ranks[0] : ranks[1], &digit[warp],
                    &rank_left[warp]
                );
            __syncthreads();
            for (int side = 0; side < 2; side++) {
                found[side] = found[side] << width | digit[side];
                ranks[side] = rank_left[side];
            }
            done += width;
            __syncthreads();
        }
        high = (int)((u32)low + found[1]);
        low = (int)((u32)low + found[0]);
    }
    if (threadIdx.x == 0) {
        if (low == high) {
            if (high == 0x7fffffff)
                low--;
            else
                high++;
        }
        bounds[blockIdx.x] = make_int2(low, high);
        multipliers[blockIdx.x] =
            (1ull << BIN_MULTIPLIER_BITS) / (u64)((long long)high - (long long)low + 1);
    }
}

// Writes 32 samples of a tile, a warp 16 features of them: `word` gives the bins of four features
// of a sample, a byte each.
template <typename Word>
__device__ __forceinline__ void write_tile(u32 samples, u8 *tiles, Word word) {
    // A word more a row: lanes that write the same column of different rows use different banks.
    __shared__ u32 block[32][TILE / 4 + 1];
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 sample_blocks = (samples + 31) / 32;
    u32 tile = blockIdx.x / sample_blocks, first = blockIdx.x % sample_blocks * 32;
    u32 sample = min(first + lane, samples - 1);
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        block[lane][warp * 4 + i] = word(tile * TILE + (warp * 4 + i) * 4, sample);
    __syncthreads();
    u32 *out = (u32 *)(tiles + ((u64)tile * samples + first) * TILE);
    for (u32 s = warp; s < 32 && first + s < samples; s += 8)
        out[s * (TILE / 4) + lane] = block[s][lane];
}

// Bins of responses `[feature][sample]` into tiles. Blocks of 256 threads, one for each 32 samples
// of each tile.
extern "C" __global__ void bins_quantise(
    const int *responses, u32 samples, u32 features, const int2 *bounds, const u64 *multipliers,
    u8 *tiles
) {
    write_tile(samples, tiles, [=](u32 first, u32 sample) {
        u32 word = 0;
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            u32 feature = first + k;
            if (feature < features) {
                int2 range = __ldg(bounds + feature);
                u64 multiplier = __ldg(multipliers + feature);
                int x = __ldg(responses + (u64)feature * samples + sample);
                u32 distance = (u32)min(max(x, range.x), range.y) - (u32)range.x;
                // (distance · multiplier) >> 32 in two products of 32 bits.
                u32 bin = __umulhi(distance, (u32)multiplier) + distance * (u32)(multiplier >> 32);
                word |= bin << (8 * k);
            }
        }
        return word;
    });
}

// Bins `[feature][sample]` into tiles. Blocks as for `bins_quantise`.
extern "C" __global__ void bins_arrange(const u8 *rows, u32 samples, u32 features, u8 *tiles) {
    write_tile(samples, tiles, [=](u32 first, u32 sample) {
        u32 word = 0;
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            if (first + k < features)
                word |= (u32)__ldg(rows + (u64)(first + k) * samples + sample) << (8 * k);
        }
        return word;
    });
}
