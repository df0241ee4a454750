// Sets that are joined by many threads at a time.

#pragma once

#include "constants.cuh"

// Sets of nodes in memory, each known by its smallest one. A node's parent is a smaller one of its
// set, and so is whatever was its parent earlier: that a cache may be behind costs a step, no more.
struct GlobalSets {
    u32 *parents;

    __device__ __forceinline__ u32 parent(u32 node) const { return __ldca(parents + node); }
};

// The same in shared memory.
struct SharedSets {
    u32 *parents;

    __device__ __forceinline__ u32 parent(u32 node) const {
        return *(volatile u32 *)(parents + node);
    }
};

// The smallest node of a set.
template <class Sets>
__device__ __forceinline__ u32 root_of(const Sets &sets, u32 node) {
    u32 parent = sets.parent(node);
    while (parent != node) {
        node = parent;
        parent = sets.parent(node);
    }
    return node;
}

// Joins two sets: climbs from the node whose parent is the higher one, which gets the lower one (Rem's
// algorithm). Most nodes that touch have the same parent already, and need no more than a look.
template <class Sets>
__device__ __forceinline__ void join(const Sets &sets, u32 a, u32 b) {
    u32 of_a = sets.parent(a), of_b = sets.parent(b);
    while (of_a != of_b) {
        if (of_a < of_b) {
            u32 swap = a;
            a = b;
            b = swap;
            swap = of_a;
            of_a = of_b;
            of_b = swap;
        }
        u32 old = atomicMin(sets.parents + a, of_b);
        if (old == a) return;
        // It had another parent, whose set is joined next.
        a = old;
        of_a = sets.parent(a);
    }
}
