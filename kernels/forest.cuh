// What the kernels of scoring share: trees, masses and scores, twins of `pbt_tree`.

#pragma once

#include "constants.cuh"

#define MASS_ONE (1ull << MASS_BITS)

// A weak classifier. `what` and `how` say which response: of a Haar feature its first four taps and
// the number of pairs, of a steerable one the point and level, and the channel and modifier. What a
// threshold needs comes first and is read alone: +above where the response is at least `first`,
// −above elsewhere. With HISTOGRAM in `how` the response's bin says whether ±alpha.
struct Weak {
    u32 what, how;
    int first, above;
    u64 votes;
    u64 multiplier;
    int lo, hi;
    int alpha;
    u32 unused;
};

struct Node {
    u32 first_weak, weak_count;
    u32 left, right;
    u32 positive;
};

// The trees of a classifier one after the other, with numbers of nodes and weak classifiers that
// run through all of them.
struct Forest {
    const Node *nodes;
    const Weak *weaks;
    const u32 *roots;
    const u64 *minor;
    const s64 *ln;
    u32 trees;
    u32 depth;  // levels of inner nodes
    int hard_right, hard_left, soft;
};

// How a weak classifier is read: the part that all have.
struct Threshold {
    u32 what, how;
    int first, above;
};

__device__ __forceinline__ Threshold load_threshold(const Weak *weaks, u32 index) {
    int4 words = __ldg((const int4 *)(weaks + index));
    return Threshold{(u32)words.x, (u32)words.y, words.z, words.w};
}

// Adds the votes of a weak classifier, the same for all lanes of the warp, on V responses.
template <int V>
__device__ __forceinline__ void add_votes(
    const Weak *weaks, u32 index, const Threshold &threshold, const u32 (&responses)[V],
    int (&margins)[V]
) {
    if (threshold.how & HISTOGRAM) {
        const int4 *words = (const int4 *)(weaks + index);
        int4 bits = __ldg(words + 1), bounds = __ldg(words + 2);
        u64 votes = (u64)(u32)bits.y << 32 | (u32)bits.x,
            multiplier = (u64)(u32)bits.w << 32 | (u32)bits.z;
#pragma unroll
        for (int v = 0; v < V; v++) {
            u32 distance = (u32)min(max((int)responses[v], bounds.x), bounds.y) - (u32)bounds.x;
            margins[v] +=
                (votes >> (u32)((distance * multiplier) >> 32)) & 1 ? bounds.z : -bounds.z;
        }
    } else {
#pragma unroll
        for (int v = 0; v < V; v++)
            margins[v] += (int)responses[v] >= threshold.first ? threshold.above : -threshold.above;
    }
}

__device__ __forceinline__ u64 minor_probability(const u64 *table, int margin) {
    u64 doubled = 2 * (u64)(margin < 0 ? 0u - (u32)margin : (u32)margin);
    u32 step = (u32)(doubled >> (ALPHA_BITS - MINOR_STEP_BITS));
    if (step >= MINOR_STEPS) return __ldg(table + MINOR_STEPS);
    u64 fraction = doubled & ((1 << (ALPHA_BITS - MINOR_STEP_BITS)) - 1);
    u64 here = __ldg(table + step);
    return here - (((here - __ldg(table + step + 1)) * fraction) >> (ALPHA_BITS - MINOR_STEP_BITS));
}

__device__ __forceinline__ u64 mass_product(u64 a, u64 b) {
    return __umul64hi(a, b) << (64 - MASS_BITS) | (a * b) >> MASS_BITS;
}

// The positive part of a weight at a node's empirical distribution.
__device__ __forceinline__ u64 positive_mass(u64 weight, u32 positive) {
    u64 q = positive, complement = (1ull << 32) - q;
    u64 factor = min(q, complement);
    u64 minor = __umul64hi(weight, factor) << 32 | (weight * factor) >> 32;
    return q <= complement ? minor : weight - minor;
}

__device__ __forceinline__ s64 fixed_ln(const s64 *table, u64 x) {
    x = max(x, 1ull);
    int exponent = 63 - __clzll(x);
    u64 mantissa = exponent == 0 ? 0 : x << (64 - exponent);
    u32 step = (u32)(mantissa >> 54);
    s64 fraction = (s64)((mantissa << 10) >> 32);
    s64 below = __ldg(table + step);
    return exponent * __ldg(table + 1024) + below +
           (((__ldg(table + step + 1) - below) * fraction) >> 32);
}

// The score of the masses of all trees, which add up to 2^52 a tree.
__device__ __forceinline__ s64 score_of(const Forest &forest, u64 positive, s64 margin) {
    u64 negative = ((u64)forest.trees << MASS_BITS) - positive;
    s64 log_odds = (fixed_ln(forest.ln, positive) - fixed_ln(forest.ln, negative)) >>
                   (LN_BITS - LOG_ODDS_BITS);
    s64 clamped = min(max(margin, -0x80000000ll), 0x7fffffffll);
    return (s64)((u64)log_odds << 32) | (clamped + 0x80000000ll);
}
