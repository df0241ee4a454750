// Connected components of a mask; the twin of `pbt_volume`'s `components`.
//
// Rows become bits, and runs of lines of rows are joined within tiles in shared memory first. What is
// left of a tile are nodes, one a component of the tile, which are joined across the borders of tiles
// in memory. Labels are then numbered by the components' first voxels. Minima have no order, so that
// neither has the result.

#include "lines.cuh"
#include "marks.cuh"
#include "sets.cuh"

// Set in the place of a root while its tile is numbered; fewer than 2^31 voxels leave it free.
#define IS_ROOT 0x80000000u

// Exclusive sums over the threads of a block of whole warps, and the sum of all.
__device__ __forceinline__ u32 scan_block(u32 value, u32 &all) {
    __shared__ u32 of_warps[32];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = value;
    for (u32 step = 1; step < 32; step *= 2) {
        u32 before = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += before;
    }
    if (lane == 31) of_warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        u32 of_warp = lane < blockDim.x / 32 ? of_warps[lane] : 0;
        for (u32 step = 1; step < 32; step *= 2) {
            u32 before = __shfl_up_sync(~0u, of_warp, step);
            if (lane >= step) of_warp += before;
        }
        of_warps[lane] = of_warp;
    }
    __syncthreads();
    all = of_warps[31];
    u32 before = (warp > 0 ? of_warps[warp - 1] : 0) + sum - value;
    __syncthreads();
    return before;
}

__device__ __forceinline__ u32 sum_of_warp(u32 value) {
    for (u32 step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

// The voxels of a row in a word that are not 0, as bits.
__device__ __forceinline__ u32 pack_fours(const u8 *from, int count) {
    u32 out = 0;
    uint4 v[2];
    for (int half = 0; half < 2; half++)
        v[half] = 16 * half < count ? __ldg((const uint4 *)from + half) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        u32 of[4] = {v[half].x, v[half].y, v[half].z, v[half].w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            // The product gathers the lowest bits of four bytes in the highest four bits.
            u32 ones = __vcmpne4(of[i], 0) & 0x01010101u;
            out |= (ones * 0x10204080u >> 28) << (16 * half + 4 * i);
        }
    }
    return out;
}

// The same of all rows of a warp's lines, a voxel a lane.
template <int BUNDLE>
__device__ __forceinline__ Bits<BUNDLE> pack_any(
    const Grid &g, const u8 *voxels, int y, int z, int word
) {
    Bits<BUNDLE> out = {};
    int lane = threadIdx.x % 32;
    for (int of = 0; of < 32; of++) {
        int x = __shfl_sync(~0u, word, of) * 32 + lane;
        int first_y = __shfl_sync(~0u, y, of) * BUNDLE, first_z = __shfl_sync(~0u, z, of) * BUNDLE;
#pragma unroll
        for (int row = 0; row < BUNDLE * BUNDLE; row++) {
            int at_y = first_y + row % BUNDLE, at_z = first_z + row / BUNDLE;
            bool inside = x < g.nx && at_y < g.ny && at_z < g.nz;
            u32 bits = __ballot_sync(
                ~0u, inside && __ldg(voxels + ((u64)at_z * g.ny + at_y) * g.nx + x) != 0
            );
            if (lane == of) out.rows[row] = bits;
        }
    }
    return out;
}

// Packs a mask into bits and joins what touches within a tile: a block, a thread a word. Dynamic
// shared memory: `word_runs` numbers a thread for the runs of the tile.
//
// Gives `bits` [line][word][row], where runs begin (`starts` [line][word]), the places of the runs of
// words in `run_nodes` (`before`), and in these the node of each run. Nodes are numbered as tiles come;
// `node_count` was 0. Sets as many of `marks` to 0 as there are words of bits.
template <int BUNDLE, int CORNERS>
__device__ __forceinline__ void join_tile(
    const Grid &g, const u8 *voxels, int in_fours, u32 *bits, u32 *starts, u32 *before,
    u32 *run_nodes, u32 *parents, u32 *first_voxels, u32 *marks, u32 *node_count
) {
    const int ROWS = BUNDLE * BUNDLE;
    extern __shared__ u32 in_tile[];
    __shared__ u32 rows[ROWS][TILE_WORDS];
    __shared__ u32 starts_in[TILE_WORDS], firsts[TILE_WORDS];
    __shared__ u32 roots, numbered, first_node;

    const int t = threadIdx.x, in_x = t % g.tile[0], line = t / g.tile[0];
    const int in_y = line % g.tile[1], in_z = line / g.tile[1];
    const int tile_x = blockIdx.x % g.tiles[0], tile_yz = blockIdx.x / g.tiles[0];
    const int word = tile_x * g.tile[0] + in_x;
    const int y = tile_yz % g.tiles[1] * g.tile[1] + in_y;
    const int z = tile_yz / g.tiles[1] * g.tile[2] + in_z;
    const bool there = in_z < g.tile[2] && word < g.words && y < g.lines_y && z < g.lines_z;
    const u32 n = ((u32)z * g.lines_y + y) * g.words + word;

    Bits<BUNDLE> own = {};
    if (in_fours) {
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            int at_y = y * BUNDLE + row % BUNDLE, at_z = z * BUNDLE + row / BUNDLE;
            if (there && at_y < g.ny && at_z < g.nz)
                own.rows[row] = pack_fours(
                    voxels + ((u64)at_z * g.ny + at_y) * g.nx + word * 32, g.nx - word * 32
                );
        }
    } else {
        own = pack_any<BUNDLE>(g, voxels, y, z, there ? word : g.words);
    }
    if (t == 0) roots = numbered = 0;
#pragma unroll
    for (int row = 0; row < ROWS; row++) rows[row][t] = own.rows[row];
    __syncthreads();

    auto bits_at = [&](int at) {
        Bits<BUNDLE> out;
#pragma unroll
        for (int row = 0; row < ROWS; row++) out.rows[row] = rows[row][at];
        return out;
    };
    const u32 united = own.united();
    const u32 begin = united & ~(united << 1 | (in_x > 0 ? bits_at(t - 1).united() >> 31 : 0));
    u32 total, first = scan_block(__popc(begin), total);
    starts_in[t] = begin;
    firsts[t] = first;
    const u32 first_run = blockIdx.x * (blockDim.x * g.word_runs);
    if (there) {
        if (BUNDLE == 1) {
            bits[n] = own.rows[0];
            marks[n] = 0;
        } else {
            ((uint4 *)bits)[n] = make_uint4(
                own.rows[0], own.rows[1 % ROWS], own.rows[2 % ROWS], own.rows[3 % ROWS]
            );
            ((uint4 *)marks)[n] = make_uint4(0, 0, 0, 0);
        }
        starts[n] = begin;
        before[n] = first_run + first;
        // Marks are read four words at a time.
        if (n + 1 == (u32)g.lines_y * g.lines_z * g.words)
            for (int i = 0; i < 3; i++) marks[(n + 1) * ROWS + i] = 0;
    }
    for (u32 i = t; i < total; i += blockDim.x) in_tile[i] = i;
    __syncthreads();

    SharedSets sets = {in_tile};
    if (there) {
        auto at = [&](int dy, int dz, int back) {
            bool inside = in_y + dy >= 0 && in_y + dy < g.tile[1] && in_z + dz >= 0 && in_x >= back;
            int beside = t + (dz * g.tile[1] + dy) * g.tile[0] - back;
            return inside ? bits_at(beside) : Bits<BUNDLE>{};
        };
        const int LINES = CORNERS > 0 ? 4 : 2;
        u32 left[LINES];
#pragma unroll
        for (int k = 0; k < LINES; k++) {
            int beside = t + (beside_z(k) * g.tile[1] + beside_y(k)) * g.tile[0];
            left[k] = contacts_with<BUNDLE, CORNERS>(k, at);
            if (left[k]) left[k] = first_of_each(left[k], begin | starts_in[beside]);
        }
        // One loop for all, for lanes wait for each other in each.
        int k = 0;
        while (true) {
#pragma unroll
            for (int skip = 1; skip < LINES; skip++) {
                if (left[0]) break;
#pragma unroll
                for (int next = 1; next < LINES; next++) left[next - 1] = left[next];
                left[LINES - 1] = 0;
                k++;
            }
            if (!left[0]) break;
            u32 upto = left[0] ^ (left[0] - 1);
            left[0] &= left[0] - 1;
            int beside = t + (beside_z(k) * g.tile[1] + beside_y(k)) * g.tile[0];
            join(
                sets, first + __popc(begin & upto) - 1,
                firsts[beside] + __popc(starts_in[beside] & upto) - 1
            );
        }
    }
    __syncthreads();

    // Every run gets its root for a parent. Whoever reads one at the same time finds its old parent or
    // the root, and comes to the root from either; all such accesses are volatile or atomic, so that
    // each is of a whole number, and none is held in a register.
    u32 own_roots = 0;
    for (u32 i = t; i < total; i += blockDim.x) {
        u32 root = root_of(sets, i);
        if (root == i)
            own_roots++;
        else
            *(volatile u32 *)(in_tile + i) = root;
    }
    own_roots = sum_of_warp(own_roots);
    if (t % 32 == 0 && own_roots) atomicAdd(&roots, own_roots);
    __syncthreads();
    if (t == 0) first_node = atomicAdd(node_count, roots);
    // The place of every root: the least voxel of its set.
    for (u32 i = t; i < total; i += blockDim.x)
        if (in_tile[i] == i) in_tile[i] = ~0u;
    __syncthreads();
    const u32 first_voxel = ((u32)z * BUNDLE * g.ny + y * BUNDLE) * g.nx + 32 * word;
    int run = (int)first - 1;
    for (u32 left = united; left;) {
        u32 lowest = left & (0 - left);
        // A run ends before the first 0.
        u32 piece = left & ~(left + lowest);
        left ^= piece;
        if (begin & lowest) run++;
        u32 of = *(volatile u32 *)(in_tile + run);
        u32 *root = in_tile + (of & IS_ROOT ? (u32)run : of);
        // Most come too late for the minimum, and a look is cheaper than to try.
        u32 least = *(volatile u32 *)root;
        if ((first_voxel | IS_ROOT) >= least) continue;
        u32 voxel = first_voxel;
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            u32 in_row = own.rows[row] & piece;
            if (in_row) {
                voxel += (row / BUNDLE * g.ny + row % BUNDLE) * g.nx + __ffs(in_row) - 1;
                break;
            }
        }
        if ((voxel | IS_ROOT) < least) atomicMin(root, voxel | IS_ROOT);
    }
    __syncthreads();
    // Roots become nodes.
    for (u32 at = 0; at < total; at += blockDim.x) {
        u32 i = at + t, of = i < total ? in_tile[i] : 0;
        u32 all = __ballot_sync(~0u, of & IS_ROOT), number = 0;
        if (t % 32 == 0 && all) number = atomicAdd(&numbered, __popc(all));
        number = __shfl_sync(~0u, number, 0) + __popc(all & ~(~0u << t % 32));
        if (!(of & IS_ROOT)) continue;
        u32 node = first_node + number;
        first_voxels[node] = of & ~IS_ROOT;
        parents[node] = node;
        in_tile[i] = number | IS_ROOT;
    }
    __syncthreads();
    for (u32 i = t; i < total; i += blockDim.x) {
        u32 of = in_tile[i];
        if (!(of & IS_ROOT)) of = in_tile[of];
        run_nodes[first_run + i] = first_node + (of & ~IS_ROOT);
    }
}

// What joins nodes.
struct Nodes {
    const u32 *starts, *before, *run_nodes;
    u32 *parents;

    // The node of the run that begins last up to a place in a word.
    __device__ __forceinline__ u32 of(u32 word, u32 upto) const {
        return __ldg(run_nodes + __ldg(before + word) + __popc(__ldg(starts + word) & upto) - 1);
    }
};

// Pairs of nodes that a block remembers.
#define SEEN 512

// Joins what touches across the borders along y and z of a tile and those before it. Blocks along y take
// the words of a tile that lie at them.
template <int BUNDLE, int CORNERS>
__device__ __forceinline__ void join_borders(const Grid &g, const u32 *bits, const Nodes &nodes) {
    // Two tiles touch in the same components again and again. A pair that gives way to another one
    // here costs a look later, no more.
    __shared__ u64 seen[SEEN];
    for (u32 i = threadIdx.x; i < SEEN; i += blockDim.x) seen[i] = 0;
    __syncthreads();
    const GlobalSets sets = {nodes.parents};
    auto join_nodes = [&](u32 a, u32 b) {
        u64 pair = (u64)a << 32 | b;
        u32 slot = (a * 0x9e3779b1u ^ b * 0x85ebca6bu) / (0xffffffffu / SEEN + 1);
        if (a == b || atomicExch(seen + slot, pair) == pair) return;
        join(sets, a, b);
    };
    const int tile_x = blockIdx.x % g.tiles[0], tile_yz = blockIdx.x / g.tiles[0];
    // The lines of the first plane, then the first and the last ones of the others.
    const int ends = g.tile[1] > 1 ? 2 : 1;
    const int lines = g.tile[1] + ends * (g.tile[2] - 1);
    const int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= lines * g.tile[0]) return;
    const int in_x = i % g.tile[0], line = i / g.tile[0], other = line - g.tile[1];
    const int in_y = other < 0 ? line : other % ends * (g.tile[1] - 1);
    const int in_z = other < 0 ? 0 : 1 + other / ends;
    const int word = tile_x * g.tile[0] + in_x;
    const int y = tile_yz % g.tiles[1] * g.tile[1] + in_y;
    const int z = tile_yz / g.tiles[1] * g.tile[2] + in_z;
    if (word >= g.words || y >= g.lines_y || z >= g.lines_z) return;
    const u32 n = ((u32)z * g.lines_y + y) * g.words + word;
    // Runs end at the ends of tiles.
    auto at = [&](int dy, int dz, int back) {
        bool inside = y + dy >= 0 && y + dy < g.lines_y && z + dz >= 0 && in_x >= back;
        u32 beside = n + (dz * g.lines_y + dy) * g.words - back;
        return inside ? load_bits<BUNDLE>(bits, beside) : Bits<BUNDLE>{};
    };
#pragma unroll
    for (int k = 0; k < (CORNERS > 0 ? 4 : 2); k++) {
        int dy = beside_y(k), dz = beside_z(k);
        if (in_y + dy >= 0 && in_y + dy < g.tile[1] && in_z + dz >= 0) continue;
        u32 left = contacts_with<BUNDLE, CORNERS>(k, at);
        if (!left) continue;
        u32 beside = n + (dz * g.lines_y + dy) * g.words;
        left = first_of_each(left, __ldg(nodes.starts + n) | __ldg(nodes.starts + beside));
        for (; left; left &= left - 1) {
            u32 upto = left ^ (left - 1);
            join_nodes(nodes.of(n, upto), nodes.of(beside, upto));
        }
    }
}

// The same across the borders along x: a thread a line and border.
template <int BUNDLE, int CORNERS>
__device__ __forceinline__ void join_ends(const Grid &g, const u32 *bits, const Nodes &nodes) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x, ends = g.tiles[0] - 1;
    const u32 line = i / ends, word = (i % ends + 1) * g.tile[0];
    if (line >= (u32)g.lines_y * g.lines_z) return;
    const int y = line % g.lines_y, z = line / g.lines_y;
    const u32 n = line * g.words + word;
    auto at = [&](int dy, int dz, int back) {
        bool inside = y + dy >= 0 && y + dy < g.lines_y && z + dz >= 0;
        u32 beside = n + (dz * g.lines_y + dy) * g.words - back;
        return inside ? load_bits<BUNDLE>(bits, beside) : Bits<BUNDLE>{};
    };
    const GlobalSets sets = {nodes.parents};
    const Bits<BUNDLE> here = at(0, 0, 0), last = at(0, 0, 1);
    if (here.united() & last.united() >> 31)
        join(sets, nodes.of(n, 1), nodes.of(n - 1, ~0u));
    for (int k = 0; k < (CORNERS > 0 ? 4 : 2); k++) {
        if (!has_corners<CORNERS>(k)) continue;
        int dy = beside_y(k), dz = beside_z(k);
        u32 beside = n + (dz * g.lines_y + dy) * g.words;
        if (bits_here<BUNDLE>(k, here) & bits_there<BUNDLE>(k, at(dy, dz, 1)) >> 31)
            join(sets, nodes.of(n, 1), nodes.of(beside - 1, ~0u));
        if (bits_there<BUNDLE>(k, at(dy, dz, 0)) & bits_here<BUNDLE>(k, last) >> 31)
            join(sets, nodes.of(n - 1, ~0u), nodes.of(beside, 1));
    }
}

// Gives every node its root for a parent, and every root the first voxel of its set. `count` is that
// of the nodes.
extern "C" __global__ void components_flatten(
    const u32 *count, u32 *parents, u32 *first_voxels
) {
    const u32 nodes = *count;
    for (u32 n = blockIdx.x * blockDim.x + threadIdx.x; n < nodes; n += gridDim.x * blockDim.x) {
        u32 root = root_of(GlobalSets{parents}, n);
        if (root == n) continue;
        parents[n] = root;
        u32 first = __ldcg(first_voxels + n);
        // Most come too late for the minimum, and a look is cheaper than to try.
        if (first < __ldcg(first_voxels + root)) atomicMin(first_voxels + root, first);
    }
}

// Sets the bits of the first voxels of components.
extern "C" __global__ void components_mark(
    const u32 *count, const u32 *parents, const u32 *first_voxels, u32 *marks
) {
    const u32 nodes = *count;
    for (u32 n = blockIdx.x * blockDim.x + threadIdx.x; n < nodes; n += gridDim.x * blockDim.x) {
        if (parents[n] != n) continue;
        u32 first = first_voxels[n];
        atomicOr(marks + first / 32, 1u << first % 32);
    }
}

// How many bits are set before each group of four words within its block, and how many in each block.
extern "C" __global__ __launch_bounds__(COMPONENT_THREADS) void components_count(
    const u32 *marks, u32 groups, u32 *before, u32 *in_blocks
) {
    u32 n = blockIdx.x * COMPONENT_THREADS + threadIdx.x, own = 0;
    if (n < groups) {
        uint4 four = __ldg((const uint4 *)marks + n);
        own = __popc(four.x) + __popc(four.y) + __popc(four.z) + __popc(four.w);
    }
    u32 all, sum = scan_block(own, all);
    if (n < groups) before[n] = sum;
    if (threadIdx.x == 0) in_blocks[blockIdx.x] = all;
}

// Exclusive sums in place, then the sum of all. One block.
extern "C" __global__ __launch_bounds__(COMPONENT_THREADS) void components_scan(
    u32 *values, u32 count
) {
    u32 sum = 0;
    for (u32 first = 0; first < count; first += COMPONENT_THREADS) {
        u32 n = first + threadIdx.x;
        u32 all, before = scan_block(n < count ? values[n] : 0, all);
        if (n < count) values[n] = sum + before;
        sum += all;
    }
    if (threadIdx.x == 0) values[count] = sum;
}

// Turns each node's parent into its label.
extern "C" __global__ void components_number(
    const u32 *count, const u32 *first_voxels, const u32 *marks, const u32 *before,
    const u32 *blocks_before, u32 *parents
) {
    const u32 nodes = *count;
    for (u32 n = blockIdx.x * blockDim.x + threadIdx.x; n < nodes; n += gridDim.x * blockDim.x)
        parents[n] = label_of(__ldg(first_voxels + parents[n]), marks, before, blocks_before);
}

// The labels of all voxels; a thread takes EACH voxels of all rows of a beam, or of LINES single rows.
// Rows are whole numbers of them.
template <int BUNDLE, int EACH, int LINES>
__device__ __forceinline__ void write_labels(
    const Grid &g, const u32 *bits, const u32 *starts, const u32 *before, const u32 *run_nodes,
    const u32 *labels_of, u32 *labels
) {
    const u32 n = blockIdx.x * blockDim.x + threadIdx.x, lines = (u32)g.lines_y * g.lines_z;
    const int in_row = g.nx / EACH, x = n % in_row * EACH, word = x / 32, from = x % 32;
    const u32 first_line = n / in_row * LINES, mine = (2u << (EACH - 1)) - 1;
    Bits<BUNDLE> own[LINES];
    u32 label[LINES][EACH] = {};
#pragma unroll
    for (int l = 0; l < LINES; l++) {
        u32 line = first_line + l, at = line * g.words + word;
        if (line >= lines) break;
        own[l] = load_bits<BUNDLE>(bits, at);
        u32 united = own[l].united() >> from & mine;
        if (!united) continue;
        u32 begin = __ldg(starts + at);
        u32 run = __ldg(before + at) + __popc(begin & ((2u << from) - 1)) - 1, of = 0;
        begin >>= from;
        if (united & 1) of = __ldg(labels_of + __ldg(run_nodes + run));
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (i > 0 && begin >> i & 1) of = __ldg(labels_of + __ldg(run_nodes + ++run));
            label[l][i] = of;
        }
    }
#pragma unroll
    for (int l = 0; l < LINES; l++) {
        u32 line = first_line + l;
        if (line >= lines) return;
        int y = line % g.lines_y * BUNDLE, z = line / g.lines_y * BUNDLE;
#pragma unroll
        for (int row = 0; row < BUNDLE * BUNDLE; row++) {
            int at_y = y + row % BUNDLE, at_z = z + row / BUNDLE;
            if (at_y >= g.ny || at_z >= g.nz) continue;
            u32 here = own[l].rows[row] >> from, out[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++) out[i] = here >> i & 1 ? label[l][i] : 0;
            u32 *to = labels + ((u64)at_z * g.ny + at_y) * g.nx + x;
            if (EACH == 4)
                __stcs((uint4 *)to, make_uint4(out[0], out[1 % EACH], out[2 % EACH], out[3 % EACH]));
            else
                *to = out[0];
        }
    }
}

#define KERNELS(NEIGHBOURS, BUNDLE, CORNERS)                                                       \
    extern "C" __global__ __launch_bounds__(TILE_WORDS, 2) void components_tiles_##NEIGHBOURS( \
        Grid g, const u8 *voxels, int in_fours, u32 *bits, u32 *starts, u32 *before,               \
        u32 *run_nodes, u32 *parents, u32 *first_voxels, u32 *marks, u32 *node_count               \
    ) {                                                                                            \
        join_tile<BUNDLE, CORNERS>(                                                                \
            g, voxels, in_fours, bits, starts, before, run_nodes, parents, first_voxels, marks,    \
            node_count                                                                             \
        );                                                                                         \
    }                                                                                              \
    extern "C" __global__ void components_borders_##NEIGHBOURS(                                    \
        Grid g, const u32 *bits, Nodes nodes                                                       \
    ) {                                                                                            \
        join_borders<BUNDLE, CORNERS>(g, bits, nodes);                                             \
    }                                                                                              \
    extern "C" __global__ void components_ends_##NEIGHBOURS(                                       \
        Grid g, const u32 *bits, Nodes nodes                                                       \
    ) {                                                                                            \
        join_ends<BUNDLE, CORNERS>(g, bits, nodes);                                                \
    }
KERNELS(6, 1, 0)
KERNELS(18, 1, 1)
KERNELS(26, 2, 2)

// The labels of lines of BUNDLE x BUNDLE rows, EACH voxels at a time.
#define LABELS(BUNDLE, EACH)                                                                       \
    extern "C" __global__ void components_labels_##BUNDLE##_##EACH(                                \
        Grid g, const u32 *bits, const u32 *starts, const u32 *before, const u32 *run_nodes,       \
        const u32 *labels_of, u32 *labels                                                          \
    ) {                                                                                            \
        write_labels<BUNDLE, EACH, BUNDLE == 1 ? ROW_LINES : 1>(                                   \
            g, bits, starts, before, run_nodes, labels_of, labels                                  \
        );                                                                                         \
    }
LABELS(1, 1)
LABELS(1, 4)
LABELS(2, 1)
LABELS(2, 4)
