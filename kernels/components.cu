// Connected components of a mask; the twin of `pbt_volume`'s `components`.
//
// Rows become bits. A line is a row, or for 26 neighbours a beam: a bundle of 2 x 2 rows, any two of
// whose voxels at x or at x and x + 1 touch. Runs of a line's united bits are the nodes of a union-find
// whose roots are the smallest members; labels are then numbered by the components' first voxels in
// memory. Minima have no order, so that neither has the result.

#include "constants.cuh"

struct Grid {
    int nx, ny, nz;
    int words;             // of a row: 32 voxels each
    int lines_y, lines_z;  // lines of a plane, and planes of lines
    int bundle;            // rows of a line along y and along z: 1 or 2
    int corners;           // faces: 0, edges too: 1, corners too: 2
};

// Fewer than 2^31 voxels have fewer than 2^32 of anything.
__device__ __forceinline__ u32 line_words(const Grid &g) {
    return (u32)g.lines_y * g.lines_z * g.words;
}

// The words of a row; of the last one where the grid ends before it.
__device__ __forceinline__ const u32 *row_of(const Grid &g, const u32 *bits, int y, int z) {
    y = min(y, g.ny - 1);
    z = min(z, g.nz - 1);
    return bits + ((u64)z * g.ny + y) * g.words;
}

__device__ __forceinline__ u32 united(const Grid &g, const u32 *bits, int y, int z, int word) {
    u32 all = 0;
    for (int dz = 0; dz < g.bundle; dz++)
        for (int dy = 0; dy < g.bundle; dy++)
            all |= __ldg(row_of(g, bits, y * g.bundle + dy, z * g.bundle + dz) + word);
    return all;
}

// The voxels that are not 0 as bits, the first voxel of a row in the lowest bit of a word of its own.
// `in_fours`: rows are whole numbers of 16 voxels.
extern "C" __global__ void components_pack(Grid g, const u8 *voxels, int in_fours, u32 *bits) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= (u32)g.ny * g.nz * g.words) return;
    int word = n % g.words, first = word * 32, count = min(32, g.nx - first);
    const u8 *from = voxels + (u64)(n / g.words) * g.nx + first;
    u32 out = 0;
    if (in_fours) {
        for (int half = 0; 16 * half < count; half++) {
            uint4 v = __ldg((const uint4 *)from + half);
            u32 of[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                // The product gathers the lowest bits of four bytes in the highest four bits.
                u32 ones = __vcmpne4(of[i], 0) & 0x01010101u;
                out |= (ones * 0x10204080u >> 28) << (16 * half + 4 * i);
            }
        }
    } else {
        for (int i = 0; i < count; i++) out |= (u32)(from[i] != 0) << i;
    }
    bits[n] = out;
}

// Exclusive sums over the threads of a block of COMPONENT_THREADS, and the sum of all.
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
        u32 of_warp = lane < COMPONENT_THREADS / 32 ? of_warps[lane] : 0;
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

// Where the runs of lines begin, a bit a place, how many begin before each word within its block, and
// how many in each block.
extern "C" __global__ __launch_bounds__(COMPONENT_THREADS) void components_starts(
    Grid g, const u32 *bits, u32 *starts, u32 *before, u32 *in_blocks
) {
    u32 n = blockIdx.x * COMPONENT_THREADS + threadIdx.x;
    u32 begin = 0;
    if (n < line_words(g)) {
        int word = n % g.words;
        u32 line = n / g.words;
        int y = line % g.lines_y, z = line / g.lines_y;
        u32 here = united(g, bits, y, z, word);
        u32 last = word > 0 ? united(g, bits, y, z, word - 1) : 0;
        begin = here & ~(here << 1 | last >> 31);
        starts[n] = begin;
    }
    u32 all, sum = scan_block(__popc(begin), all);
    if (n < line_words(g)) before[n] = sum;
    if (threadIdx.x == 0) in_blocks[blockIdx.x] = all;
}

// The same of bits that are given.
extern "C" __global__ __launch_bounds__(COMPONENT_THREADS) void components_count(
    const u32 *bits, u32 words, u32 *before, u32 *in_blocks
) {
    u32 n = blockIdx.x * COMPONENT_THREADS + threadIdx.x;
    u32 all, sum = scan_block(n < words ? __popc(bits[n]) : 0, all);
    if (n < words) before[n] = sum;
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

// Numbers the runs through; each is a set of its own. `first_voxels` are the places in memory of the
// first voxels of runs.
extern "C" __global__ void components_nodes(
    Grid g, const u32 *bits, const u32 *starts, const u32 *blocks_before, u32 *before, u32 *parents,
    u32 *first_voxels
) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= line_words(g)) return;
    int word = n % g.words;
    u32 line = n / g.words;
    int y = line % g.lines_y, z = line / g.lines_y;
    u32 node = before[n] + blocks_before[n / COMPONENT_THREADS];
    before[n] = node;
    for (u32 left = starts[n]; left; left &= left - 1, node++) {
        parents[node] = node;
        int bit = __ffs(left) - 1;
        // The rows of a bundle come one after the other in memory, so the first one with a voxel in
        // the run decides.
        u32 first = ~0u;
        u32 run = ~0u << bit;
        for (int w = word; w < g.words; w++, run = ~0u) {
            u32 here = united(g, bits, y, z, w);
            // The run ends before the first 0.
            u32 ends = ~here & run;
            if (ends) run &= (1u << (__ffs(ends) - 1)) - 1;
            for (int row = 0; row < g.bundle * g.bundle; row++) {
                int ry = y * g.bundle + row % g.bundle, rz = z * g.bundle + row / g.bundle;
                if (ry >= g.ny || rz >= g.nz) continue;
                u32 own = __ldg(row_of(g, bits, ry, rz) + w) & run;
                if (own) first = min(first, ((u32)rz * g.ny + ry) * g.nx + 32 * w + __ffs(own) - 1);
            }
            // Nothing comes before what the first row of the bundle has.
            if (ends || first / g.nx == (u32)z * g.bundle * g.ny + y * g.bundle) break;
        }
        first_voxels[node] = first;
    }
}

// Sets of nodes in memory, each known by its smallest one. A node's parent is a smaller one of its set.
struct GlobalSets {
    u32 *parents;

    __device__ __forceinline__ u32 parent(u32 node) const { return __ldcg(parents + node); }
};

// The same in shared memory.
struct SharedSets {
    u32 *parents;

    __device__ __forceinline__ u32 parent(u32 node) const {
        return *(volatile u32 *)(parents + node);
    }
};

// The smallest node of a set. May halve the way for the next: whoever joins a node at the same time
// goes on with its old parent, which stays in the set.
template <bool HALVE, class Sets>
__device__ __forceinline__ u32 root_of(const Sets &sets, u32 node) {
    u32 parent = sets.parent(node);
    while (parent != node) {
        u32 grandparent = sets.parent(parent);
        if (HALVE && grandparent != parent) sets.parents[node] = grandparent;
        node = grandparent;
        parent = sets.parent(node);
    }
    return node;
}

template <class Sets>
__device__ __forceinline__ void join(const Sets &sets, u32 a, u32 b) {
    while (true) {
        a = root_of<true>(sets, a);
        b = root_of<true>(sets, b);
        if (a == b) return;
        u32 high = max(a, b), low = min(a, b);
        u32 old = atomicMin(sets.parents + high, low);
        if (old == high) return;
        // It had got a parent in the meantime.
        a = old;
        b = low;
    }
}

// Runs of a line, and how many begin before each of its words.
struct Line {
    const u32 *starts, *before;

    // The run that holds a bit: the last that begins up to there.
    __device__ __forceinline__ u32 node(int word, int bit) const {
        return before[word] + __popc(__ldg(starts + word) & (~0u >> (31 - bit))) - 1;
    }
};

// One or two rows of a line that lie towards another line.
struct Face {
    const u32 *first, *second;

    __device__ __forceinline__ u32 at(int word) const {
        return word < 0 ? 0 : __ldg(first + word) | __ldg(second + word);
    }
};

// Joins the runs of two lines where bits of a face here and of one there touch in a word. Neighbouring
// bits of a face are of one run, so one contact of many is enough.
template <class Sets>
__device__ __forceinline__ void join_faces(
    const Line &here, const Line &there, const Face &face_here, const Face &face_there, int word,
    bool corners, const Sets &sets
) {
    u32 a = face_here.at(word), b = face_there.at(word);
    if (!(a | b)) return;
    u32 last_a = face_here.at(word - 1), last_b = face_there.at(word - 1);
    u32 both = a & b, before = last_a & last_b;
    for (u32 left = both & ~(both << 1 | before >> 31); left; left &= left - 1) {
        int bit = __ffs(left) - 1;
        join(sets, here.node(word, bit), there.node(word, bit));
    }
    if (!corners) return;
    // One ends at a place, and the other begins at the next.
    u32 a_before = a << 1 | last_a >> 31, b_before = b << 1 | last_b >> 31;
    for (u32 left = a_before & b & ~a & ~b_before; left; left &= left - 1) {
        int bit = __ffs(left) - 1;
        u32 node = bit > 0 ? here.node(word, bit - 1) : here.node(word - 1, 31);
        join(sets, node, there.node(word, bit));
    }
    for (u32 left = b_before & a & ~b & ~a_before; left; left &= left - 1) {
        int bit = __ffs(left) - 1;
        u32 node = bit > 0 ? there.node(word, bit - 1) : there.node(word - 1, 31);
        join(sets, here.node(word, bit), node);
    }
}

// Joins the runs of a line in a word with those that they touch on the lines before, where `wanted`;
// `line(dy, dz)` are the runs of a line beside it.
template <class Sets, class Wanted, class LineAt>
__device__ __forceinline__ void join_line(
    const Grid &g, const u32 *bits, int y, int z, int word, const Sets &sets, Wanted wanted,
    LineAt line
) {
    // The second row of a face lies beyond the first along one axis.
    int row = y * g.bundle, plane = z * g.bundle, beside = g.bundle - 1;
    auto face = [&](int y, int z, int dy, int dz) {
        return Face{row_of(g, bits, y, z), row_of(g, bits, y + dy, z + dz)};
    };
    Line here = line(0, 0);
    if (y > 0 && wanted(-1, 0))
        join_faces(
            here, line(-1, 0), face(row, plane, 0, beside), face(row - 1, plane, 0, beside), word,
            g.corners > 0, sets
        );
    if (z == 0) return;
    if (wanted(0, -1))
        join_faces(
            here, line(0, -1), face(row, plane, beside, 0), face(row, plane - 1, beside, 0), word,
            g.corners > 0, sets
        );
    if (g.corners == 0) return;
    if (y > 0 && wanted(-1, -1))
        join_faces(
            here, line(-1, -1), face(row, plane, 0, 0), face(row - 1, plane - 1, 0, 0), word,
            g.corners > 1, sets
        );
    // There is a line beyond, so this one has all its rows.
    if (y + 1 < g.lines_y && wanted(1, -1))
        join_faces(
            here, line(1, -1), face(row + beside, plane, 0, 0),
            face(row + g.bundle, plane - 1, 0, 0), word, g.corners > 1, sets
        );
}

// Lines that are joined in shared memory first, along y and z.
struct Tile {
    int y, z;
};

#define IS_ROOT 0x80000000u

// Joins what touches within a tile: a block, a thread a word. Dynamic shared memory: a number for each
// run that the tile may have, 16 a word.
extern "C" __global__ __launch_bounds__(COMPONENT_THREADS) void components_tiles(
    Grid g, Tile tile, const u32 *bits, const u32 *starts, const u32 *before, u32 *parents
) {
    extern __shared__ u32 in_tile[];
    __shared__ u32 firsts[COMPONENT_THREADS];  // by word, runs of the tile that begin before it
    int line = threadIdx.x / g.words, word = threadIdx.x % g.words;
    int in_y = line % tile.y, in_z = line / tile.y;
    int y = blockIdx.x * tile.y + in_y, z = blockIdx.y * tile.z + in_z;
    bool there = in_z < tile.z && y < g.lines_y && z < g.lines_z;
    u32 n = ((u32)z * g.lines_y + y) * g.words + word;
    u32 count = there ? __popc(starts[n]) : 0, first_node = there ? before[n] : 0;
    u32 all, first = scan_block(count, all);
    firsts[threadIdx.x] = first;
    for (u32 i = first; i < first + count; i++) in_tile[i] = i;
    __syncthreads();
    SharedSets sets = {in_tile};
    auto wanted = [&](int dy, int dz) {
        return in_y + dy >= 0 && in_y + dy < tile.y && in_z + dz >= 0;
    };
    auto line_at = [&](int dy, int dz) {
        return Line{
            starts + ((u32)(z + dz) * g.lines_y + y + dy) * g.words,
            firsts + ((in_z + dz) * tile.y + in_y + dy) * g.words
        };
    };
    if (there) join_line(g, bits, y, z, word, sets, wanted, line_at);
    __syncthreads();
    for (u32 i = first; i < first + count; i++) in_tile[i] = root_of<false>(sets, i);
    __syncthreads();
    // Runs of a tile are in the order of all runs, so the smallest one is so there, too.
    for (u32 i = first; i < first + count; i++)
        if (in_tile[i] == i) in_tile[i] = IS_ROOT | (first_node + i - first);
    __syncthreads();
    for (u32 i = first; i < first + count; i++)
        if (!(in_tile[i] & IS_ROOT))
            parents[first_node + i - first] = in_tile[in_tile[i]] & ~IS_ROOT;
}

// Joins what touches across the borders of tiles.
extern "C" __global__ void components_join(
    Grid g, Tile tile, const u32 *bits, const u32 *starts, const u32 *before, u32 *parents
) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= line_words(g)) return;
    int word = n % g.words;
    u32 number = n / g.words;
    int y = number % g.lines_y, z = number / g.lines_y;
    int in_y = y % tile.y, in_z = z % tile.z;
    if (in_y > 0 && in_y + 1 < tile.y && in_z > 0) return;
    auto wanted = [&](int dy, int dz) {
        return in_y + dy < 0 || in_y + dy >= tile.y || in_z + dz < 0;
    };
    auto line_at = [&](int dy, int dz) {
        u32 first = ((u32)(z + dz) * g.lines_y + y + dy) * g.words;
        return Line{starts + first, before + first};
    };
    join_line(g, bits, y, z, word, GlobalSets{parents}, wanted, line_at);
}

// Gives every node its root for a parent, and every root the first voxel of its set. `count` is that
// of the nodes.
extern "C" __global__ void components_flatten(
    const u32 *count, u32 *parents, u32 *first_voxels
) {
    const u32 nodes = *count;
    for (u32 n = blockIdx.x * blockDim.x + threadIdx.x; n < nodes; n += gridDim.x * blockDim.x) {
        u32 root = root_of<false>(GlobalSets{parents}, n);
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

// Turns each node's parent into its label: the number of components that begin up to its own.
extern "C" __global__ void components_number(
    const u32 *count, const u32 *first_voxels, const u32 *marks, const u32 *before,
    const u32 *blocks_before, u32 *parents
) {
    const u32 nodes = *count;
    for (u32 n = blockIdx.x * blockDim.x + threadIdx.x; n < nodes; n += gridDim.x * blockDim.x) {
        u32 first = __ldg(first_voxels + parents[n]), word = first / 32;
        parents[n] = __ldg(blocks_before + word / COMPONENT_THREADS) + __ldg(before + word) +
                     __popc(__ldg(marks + word) & (~0u >> (31 - first % 32)));
    }
}

// The labels of all voxels, `EACH` a thread; rows are whole numbers of them.
template <int EACH>
__device__ __forceinline__ void write_labels(
    const Grid &g, const u32 *bits, const u32 *starts, const u32 *before, const u32 *label_of,
    u32 *labels
) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    int in_row = g.nx / EACH, x = n % in_row * EACH, word = x / 32;
    u32 row = n / in_row;
    if (row >= (u32)g.ny * g.nz) return;
    u32 own = __ldg(bits + (u64)row * g.words + word) >> x % 32;
    u32 out[EACH] = {};
    if (own & ((2u << (EACH - 1)) - 1)) {
        int y = row % g.ny / g.bundle, z = row / g.ny / g.bundle;
        u64 at = ((u64)z * g.lines_y + y) * g.words + word;
        u32 begin = __ldg(starts + at), first = __ldg(before + at);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (own >> i & 1) {
                u32 node = first + __popc(begin & (~0u >> (31 - (x % 32 + i)))) - 1;
                out[i] = __ldg(label_of + node);
            }
    }
    u32 *to = labels + (u64)row * g.nx + x;
    if (EACH == 4)
        __stcs((uint4 *)to, make_uint4(out[0], out[1 % EACH], out[2 % EACH], out[3 % EACH]));
    else
        *to = out[0];
}

extern "C" __global__ void components_labels(
    Grid g, const u32 *bits, const u32 *starts, const u32 *before, const u32 *label_of, u32 *labels
) {
    write_labels<1>(g, bits, starts, before, label_of, labels);
}

extern "C" __global__ void components_labels_in_fours(
    Grid g, const u32 *bits, const u32 *starts, const u32 *before, const u32 *label_of, u32 *labels
) {
    write_labels<4>(g, bits, starts, before, label_of, labels);
}
