// Scoring the samples of a block, two ways.
//
// `walk`: every thread follows its own sample with a stack of its own, as in the patent. Threads of
// a warp that meet different nodes wait for each other.
//
// `waves`: the block goes through the tree, depth first, and takes all its samples that reach a
// node together, in full warps; what a node needs is then the same for all lanes. A list holds the
// samples that wait at a node: where in the block, and with which weight. A level of the tree has
// two lists, since both children of a node wait at the same time at most.
//
// Sums of masses and margins are of integers, so that no order shows.

#pragma once

#include "branch.cuh"

#define DOMINANT 0x80000000u

// A list of samples: places in the block (with DOMINANT where a hard tree would come here), and
// weights.
struct Lists {
    u32 *places;
    u64 *weights;
};

// A node with its list.
struct Visit {
    u32 node, count;
    u16 level, slot;  // slot 2: every sample of the block, with the weight 1
};

// What a block keeps of its samples, in shared memory: [capacity] each.
struct Sums {
    int *margins;
    u64 *positive;
    s64 *dominant;
};

// A sample's place in a list: all samples come first, in order.
template <class Samples>
__device__ __forceinline__ u32
place_of(const Samples &samples, const Lists &lists, const Visit &visit, u32 capacity, u32 index) {
    if (visit.slot == 2) return samples.place(index) | DOMINANT;
    return lists.places[(visit.level * 2 + visit.slot) * capacity + index];
}

// Appends to a list of the children's level; all lanes of the warp take part.
__device__ __forceinline__ void append(
    const Lists &lists, u32 list, u32 capacity, u32 *count, bool wanted, u32 place, u64 weight
) {
    u32 lane = threadIdx.x % 32;
    u32 votes = __ballot_sync(~0u, wanted);
    if (votes == 0) return;
    u32 first = 0;
    if (lane == 0) first = atomicAdd(count, __popc(votes));
    first = __shfl_sync(~0u, first, 0);
    if (wanted) {
        u32 at = list * capacity + first + __popc(votes & ((1u << lane) - 1));
        lists.places[at] = place;
        lists.weights[at] = weight;
    }
}

// Adds the margins of a node to those of all samples, which lie in rows of 32, V rows a warp.
template <int V, class Samples>
__device__ __forceinline__ void add_margins_in_rows(
    const Forest &forest, const Samples &samples, const Sums &sums, const Node &node
) {
    const u32 warps = blockDim.x / 32, lane = threadIdx.x % 32;
    u32 chunks = samples.count / (32 * V), parts = max(min(warps / chunks, node.weak_count), 1u);
    for (u32 item = threadIdx.x / 32; item < chunks * parts; item += warps) {
        u32 first = item % chunks * (32 * V) + lane, part = item / chunks;
        int margins[V] = {};
        u32 begin = node.first_weak + node.weak_count * part / parts,
            end = node.first_weak + node.weak_count * (part + 1) / parts;
        samples.template margins_in_rows<V>(forest, begin, end, first, margins);
#pragma unroll
        for (int v = 0; v < V; v++) atomicAdd(sums.margins + first + v * 32, margins[v]);
    }
}

// Adds the margins of a node to those of the samples on its list, V samples a lane.
template <int V, class Samples>
__device__ __forceinline__ void add_margins(
    const Forest &forest, const Samples &samples, const Lists &lists, const Sums &sums,
    u32 capacity, const Visit &visit, const Node &node
) {
    const u32 warps = blockDim.x / 32, lane = threadIdx.x % 32, last = visit.count - 1;
    u32 chunks = (visit.count + 32 * V - 1) / (32 * V),
        parts = max(min(warps / chunks, node.weak_count), 1u);
    for (u32 item = threadIdx.x / 32; item < chunks * parts; item += warps) {
        u32 first = item % chunks * (32 * V) + lane, part = item / chunks;
        u32 places[V];
        int margins[V] = {};
#pragma unroll
        for (int v = 0; v < V; v++)
            places[v] =
                place_of(samples, lists, visit, capacity, min(first + v * 32, last)) & ~DOMINANT;
        u32 begin = node.first_weak + node.weak_count * part / parts,
            end = node.first_weak + node.weak_count * (part + 1) / parts;
        samples.template margins<V>(forest, begin, end, places, margins);
#pragma unroll
        for (int v = 0; v < V; v++)
            if (first + v * 32 <= last) atomicAdd(sums.margins + first + v * 32, margins[v]);
    }
}

// Scores all samples of the block. `samples.count` of them lie at `samples.place(0 …)`;
// `samples.margins<V>(forest, begin, end, places, sums)` adds the margins of weak classifiers at V
// places. Where samples may lie in rows, ROWS of them are taken at a time. Sums must be zero; what
// they end with is the caller's.
template <int MANY, int ROWS, class Samples>
__device__ __forceinline__ void waves(
    const Forest &forest, const Samples &samples, const Lists &lists, const Sums &sums, u32 capacity
) {
    __shared__ Visit stack[2 * MAX_DEPTH + 2];
    __shared__ u32 counts[2];
    __shared__ u32 waiting;
    const u32 warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (u32 tree = 0; tree < forest.trees; tree++) {
        if (threadIdx.x == 0) {
            stack[0] = Visit{__ldg(forest.roots + tree), samples.count, 0, 2};
            waiting = 1;
            counts[0] = counts[1] = 0;
        }
        __syncthreads();
        while (true) {
            u32 top = waiting;
            if (top == 0) break;
            Visit visit = stack[top - 1];
            Node node = forest.nodes[visit.node];
            if (node.weak_count == 0) {
                // Only a root: children that are leaves are settled with their parents.
                for (u32 i = threadIdx.x; i < visit.count; i += blockDim.x) {
                    sums.positive[place_of(samples, lists, visit, capacity, i) & ~DOMINANT] +=
                        positive_mass(MASS_ONE, node.positive);
                }
                __syncthreads();
                if (threadIdx.x == 0) waiting = top - 1;
                __syncthreads();
                continue;
            }

            // Margins. Where there are more warps than pieces of the list, they share the weak
            // classifiers.
            bool rows = false;
            if constexpr (ROWS > 0) rows = visit.slot == 2 && samples.template in_rows<ROWS>();
            if (rows) {
                if constexpr (ROWS > 0) add_margins_in_rows<ROWS>(forest, samples, sums, node);
            } else if (visit.count >= 32 * MANY) {
                add_margins<MANY>(forest, samples, lists, sums, capacity, visit, node);
            } else {
                add_margins<1>(forest, samples, lists, sums, capacity, visit, node);
            }
            __syncthreads();

            // Where each sample goes on.
            Node left = forest.nodes[node.left], right = forest.nodes[node.right];
            u32 list = (visit.level + 1) * 2;
            for (u32 first = warp * 32; first < visit.count; first += warps * 32) {
                u32 index = first + lane;
                bool there = index < visit.count;
                u32 place = 0;
                u64 to_left = 0, to_right = 0;
                bool go_left = false, go_right = false, right_likelier = false;
                if (there) {
                    place = place_of(samples, lists, visit, capacity, index);
                    u64 weight =
                        visit.slot == 2
                            ? MASS_ONE
                            : lists.weights[(visit.level * 2 + visit.slot) * capacity + index];
                    int margin = sums.margins[index];
                    sums.margins[index] = 0;
                    u32 at = place & ~DOMINANT;
                    if (place & DOMINANT) sums.dominant[at] += margin;
                    Shares shares = shares_of(forest, margin, weight, visit.slot == 2);
                    right_likelier = shares.right;
                    to_left = right_likelier ? shares.other : shares.likelier;
                    to_right = right_likelier ? shares.likelier : shares.other;
                    go_left = shares.visited || !right_likelier;
                    go_right = shares.visited || right_likelier;
                    u64 settled = 0;
                    if (!shares.visited && shares.other > 0)
                        settled = positive_mass(
                            shares.other, right_likelier ? left.positive : right.positive
                        );
                    if (go_left && left.weak_count == 0) {
                        settled += positive_mass(to_left, left.positive);
                        go_left = false;
                    }
                    if (go_right && right.weak_count == 0) {
                        settled += positive_mass(to_right, right.positive);
                        go_right = false;
                    }
                    sums.positive[at] += settled;
                }
                u32 at = place & ~DOMINANT, dominant = place & DOMINANT;
                if (left.weak_count > 0)
                    append(
                        lists, list, capacity, &counts[0], go_left,
                        at | (right_likelier ? 0 : dominant), to_left
                    );
                if (right.weak_count > 0)
                    append(
                        lists, list + 1, capacity, &counts[1], go_right,
                        at | (right_likelier ? dominant : 0), to_right
                    );
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                u32 next = top - 1;
                u16 level = visit.level + 1;
                if (counts[0]) stack[next++] = Visit{node.left, counts[0], level, 0};
                if (counts[1]) stack[next++] = Visit{node.right, counts[1], level, 1};
                counts[0] = counts[1] = 0;
                waiting = next;
            }
            __syncthreads();
        }
        __syncthreads();
    }
}

// The masses of one sample: its positive mass and the margin along the dominant path.
template <class Samples>
__device__ __forceinline__ void walk(
    const Forest &forest, const Samples &samples, u32 place, u64 *positive, s64 *dominant_margin
) {
    u32 nodes[MAX_DEPTH + 2];
    u64 weights[MAX_DEPTH + 2];
    u32 places[1] = {place};
    for (u32 tree = 0; tree < forest.trees; tree++) {
        nodes[0] = __ldg(forest.roots + tree) | DOMINANT;
        weights[0] = MASS_ONE;
        u32 waiting = 1;
        while (waiting > 0) {
            waiting--;
            u32 number = nodes[waiting] & ~DOMINANT;
            bool dominant = nodes[waiting] & DOMINANT;
            u64 weight = weights[waiting];
            Node node = forest.nodes[number];
            if (node.weak_count == 0) {
                *positive += positive_mass(weight, node.positive);
                continue;
            }
            int margins[1] = {0};
            samples.template margins<1>(
                forest, node.first_weak, node.first_weak + node.weak_count, places, margins
            );
            int margin = margins[0];
            if (dominant) *dominant_margin += margin;
            Shares shares = shares_of(forest, margin, weight);
            u32 likelier = shares.right ? node.right : node.left,
                other = shares.right ? node.left : node.right;
            if (shares.visited) {
                nodes[waiting] = other;
                weights[waiting++] = shares.other;
            } else if (shares.other > 0) {
                *positive += positive_mass(shares.other, forest.nodes[other].positive);
            }
            nodes[waiting] = likelier | (dominant ? DOMINANT : 0);
            weights[waiting++] = shares.likelier;
        }
    }
}
