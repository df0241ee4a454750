// What the kernels of scoring share: numbers, trees, masses and scores, twins of `pbt_tree`.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define MASS_BITS 52
#define MASS_ONE (1ull << MASS_BITS)
#define LN_BITS 32
#define MINOR_STEP_BITS 8
#define MINOR_STEPS (32 << MINOR_STEP_BITS)
#define ALPHA_BITS 16
#define LOG_ODDS_BITS 16

// A weak classifier. `what` and `how` say which response: of a Haar feature its first pair of taps and their number, of a steerable
// one the point and level, and the channel and modifier.
struct Weak {
    u64 votes;
    u64 multiplier;
    int lo, hi;
    int alpha;
    u32 what;
    u32 how;
    int first;    // of a threshold: the lowest response on the upper side
    u32 kind;     // HISTOGRAM, ABOVE or BELOW: the side of a threshold that votes +1
    u32 feature;
};

#define HISTOGRAM 0
#define ABOVE 1
#define BELOW 2

struct Node {
    u32 first_weak, weak_count;
    u32 left, right;
    u32 positive;
};

// The trees of a classifier one after the other, with numbers of nodes and weak classifiers that run through all of them.
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

__device__ __forceinline__ Weak load_weak(const Weak *weaks, u32 index) {
    const int4 *words = (const int4 *)(weaks + index);
    union {
        int4 words[3];
        Weak weak;
    } all;
#pragma unroll
    for (int i = 0; i < 3; i++) all.words[i] = __ldg(words + i);
    return all.weak;
}

__device__ __forceinline__ int signed_alpha(const Weak &weak, int x) {
    bool vote;
    if (weak.kind == HISTOGRAM) {
        u32 distance = (u32)min(max(x, weak.lo), weak.hi) - (u32)weak.lo;
        vote = (weak.votes >> (u32)((distance * weak.multiplier) >> 32)) & 1;
    } else {
        vote = (x >= weak.first) == (weak.kind == ABOVE);
    }
    return vote ? weak.alpha : -weak.alpha;
}

__device__ __forceinline__ u64 minor_probability(const u64 *table, int margin) {
    u64 doubled = 2 * (u64)(margin < 0 ? 0u - (u32)margin : (u32)margin);
    u32 step = (u32)(doubled >> (ALPHA_BITS - MINOR_STEP_BITS));
    if (step >= MINOR_STEPS) return __ldg(table + MINOR_STEPS);
    u64 fraction = doubled & ((1 << (ALPHA_BITS - MINOR_STEP_BITS)) - 1);
    u64 here = __ldg(table + step);
    return here - (((here - __ldg(table + step + 1)) * fraction) >> (ALPHA_BITS - MINOR_STEP_BITS));
}

__device__ __forceinline__ u64 mass_product(u64 a, u64 b) { return __umul64hi(a, b) << (64 - MASS_BITS) | (a * b) >> MASS_BITS; }

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
    return exponent * __ldg(table + 1024) + below + (((__ldg(table + step + 1) - below) * fraction) >> 32);
}

// The score of the masses of all trees, which add up to 2^52 a tree.
__device__ __forceinline__ s64 score_of(const Forest &forest, u64 positive, s64 margin) {
    u64 negative = ((u64)forest.trees << MASS_BITS) - positive;
    s64 log_odds = (fixed_ln(forest.ln, positive) - fixed_ln(forest.ln, negative)) >> (LN_BITS - LOG_ODDS_BITS);
    s64 clamped = min(max(margin, -0x80000000ll), 0x7fffffffll);
    return (s64)((u64)log_odds << 32) | (clamped + 0x80000000ll);
}
