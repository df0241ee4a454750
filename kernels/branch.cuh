// The rule of a node: which children an evaluation visits, and with which weight; the twin of
// `branch.rs` of `pbt-tree`.

#pragma once

#include "forest.cuh"

// How a node shares the weight of a sample between its children. A hard tree would visit the
// likelier child alone.
struct Shares {
    bool right;  // whether the right child is the likelier
    bool
        visited;  // whether the other child is visited too; else its own distribution stands for it
    u64 likelier, other;
};

// At a root every weight is 1.
__device__ __forceinline__ Shares
shares_of(const Forest &forest, int margin, u64 weight, bool root = false) {
    if (margin >= forest.hard_right) return Shares{true, false, weight, 0};
    if (margin <= forest.hard_left) return Shares{false, false, weight, 0};
    u64 probability = minor_probability(forest.minor, margin);
    u64 minor = root ? probability : mass_product(weight, probability);
    bool soft = margin <= forest.soft && margin >= -forest.soft;
    return Shares{margin >= 0, soft, weight - minor, minor};
}
