// Haar responses at voxels, and scores of all voxels or of listed ones; the twin of `haar.rs` of `pbt-cpu`.

#include "tiles.cuh"
#include "waves.cuh"

struct Site {
    u32 image;
    int x, y, z;
};

// Responses `[feature][site]` at scattered voxels of the images that are there. Taps are (x, y, z,
// weight); blocks of 128 sites × `per_block` features.
extern "C" __global__ void haar_responses(
    const Table *images, const Site *sites, u32 site_count, const int4 *taps, const u32 *first_taps,
    u32 features, u32 per_block, int *out
) {
    u32 s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= site_count) return;
    Site site = sites[s];
    Table table = images[site.image];
    if (!table.values) return;
    const u32 *at = table.values + table.origin +
                    (site.x + site.y * (int)table.row + site.z * (int)table.plane);
    u32 end = min((blockIdx.y + 1) * per_block, features);
    for (u32 f = blockIdx.y * per_block; f < end; f++) {
        u32 sum = 0;
        u32 last = __ldg(first_taps + f + 1);
#pragma unroll 4
        for (u32 t = __ldg(first_taps + f); t < last; t++) {
            int4 tap = __ldg(taps + t);
            sum += __ldg(at + (tap.x + tap.y * (int)table.row + tap.z * (int)table.plane)) *
                   (u32)tap.w;
        }
        out[(u64)f * site_count + s] = (int)sum;
    }
}

// Taps as byte offsets into a table with these distances of rows and planes.
extern "C" __global__ void haar_bind_to_table(
    const int4 *taps, u32 count, int row, int plane, int2 *bound
) {
    u32 t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < count)
        bound[t] = make_int2(4 * (taps[t].x + taps[t].y * row + taps[t].z * plane), taps[t].w);
}

// Taps (x, y, z, weight) for a tile.
extern "C" __global__ void haar_bind_to_tile(const int4 *taps, u32 count, Blocks b, u32 *bound) {
    u32 t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= count) return;
    int4 tap = taps[t];
    u32 place = tap.w == 0
                    ? 0
                    : (tap.x - b.low[0]) +
                          ((tap.y - b.low[1]) + (tap.z - b.low[2]) * b.extent[1]) * Tile::ROW;
    bound[t] = Tile::packed(place, tap.w);
}

// The voxels of a block. `Reader` reads the table: the whole of it or the block's tile.
template <class Reader>
struct Voxels {
    Reader reader;
    const void *taps;
    u32 count;
    int bits[2];
    u32 nx, nxy;  // of a block that the border cuts
    bool whole;

    __device__ __forceinline__ u32 place(u32 index) const {
        if (whole) return index;
        u32 z = index / nxy, in_plane = index - z * nxy, y = in_plane / nx;
        return (z << (bits[0] + bits[1])) | y << bits[0] | (in_plane - y * nx);
    }

    __device__ __forceinline__ u32 base(u32 place) const {
        u32 x = place & ((1u << bits[0]) - 1), y = (place >> bits[0]) & ((1u << bits[1]) - 1),
            z = place >> (bits[0] + bits[1]);
        return reader.base(x, y, z);
    }

    // Adds the margins of the weak classifiers begin … end at V voxels. `read(v, offset)` gives the
    // value beside voxel v.
    template <int V, class Read>
    __device__ __forceinline__ void add(
        const Forest &forest, u32 begin, u32 end, int (&margins)[V], Read read
    ) const {
        for (u32 w = begin; w < end; w++) {
            Threshold weak = load_threshold(forest.weaks, w);
            u32 sums[V] = {}, four = weak.what;
            // Four taps at a time; the last may be a pair. The next four are on their way while
            // these are added, the last time four too many, for which there is room.
            Taps taps_now = Reader::taps(taps, four);
            for (int pairs = weak.how & ~HISTOGRAM; pairs > 0; pairs -= 2) {
                Taps next = Reader::taps(taps, ++four);
                auto add_tap = [&](int n) {
                    u32 values[V];
#pragma unroll
                    for (int v = 0; v < V; v++) values[v] = read(v, taps_now.offset[n]);
#pragma unroll
                    for (int v = 0; v < V; v++) sums[v] += values[v] * taps_now.weight[n];
                };
                add_tap(0);
                add_tap(1);
                if (pairs > 1) {
                    add_tap(2);
                    add_tap(3);
                }
                taps_now = next;
            }
            add_votes<V>(forest.weaks, w, weak, sums, margins);
        }
    }

    template <int V>
    __device__ __forceinline__ void margins(
        const Forest &forest, u32 begin, u32 end, const u32 (&places)[V], int (&margins)[V]
    ) const {
        u32 bases[V];
#pragma unroll
        for (int v = 0; v < V; v++) bases[v] = base(places[v]);
        add<V>(forest, begin, end, margins, [&](int v, int offset) {
            return reader.read(bases[v] + offset);
        });
    }

    // Whether the places are 0, 1, … in rows of 32, and V rows from a multiple of V on lie side by
    // side at a distance that the reader knows.
    template <int V>
    __device__ __forceinline__ bool in_rows() const {
        return whole && bits[0] == 5 && (1 << bits[1]) % V == 0 && count % (32 * V) == 0;
    }

    // The same at the voxels first, first + 32, …: one address for all of them.
    template <int V>
    __device__ __forceinline__ void margins_in_rows(
        const Forest &forest, u32 begin, u32 end, u32 first, int (&margins)[V]
    ) const {
        u32 at = base(first);
        add<V>(forest, begin, end, margins, [&](int v, int offset) {
            return reader.read(at + offset + v * 4 * Reader::ROW);
        });
    }
};

template <class Reader>
__device__ __forceinline__ Voxels<Reader> voxels_of(
    const Blocks &b, const int (&first)[3], Reader reader, const void *taps
) {
    Voxels<Reader> voxels;
    u32 n[3];
    for (int a = 0; a < 3; a++) n[a] = min(1 << b.bits[a], b.shape[a] - first[a]);
    voxels.reader = reader;
    voxels.taps = taps;
    voxels.count = n[0] * n[1] * n[2];
    voxels.bits[0] = b.bits[0];
    voxels.bits[1] = b.bits[1];
    voxels.nx = n[0];
    voxels.nxy = n[0] * n[1];
    voxels.whole = n[0] == 1u << b.bits[0] && n[1] == 1u << b.bits[1];
    return voxels;
}

template <bool TILED>
__device__ __forceinline__ auto reader_of(
    const Table &table, const Blocks &b, const int (&first)[3], u32 *tile
) {
    if constexpr (TILED) {
        return Tile{(u32)tile_plane<0>(b), (u32)__cvta_generic_to_shared(tile)};
    } else {
        const u32 *at = table.values + table.origin +
                        ((u64)first[2] * table.plane + (u64)first[1] * table.row + first[0]);
        return WholeTable{(const char *)at, table.row, table.plane};
    }
}

// Scores of all voxels by waves. A block takes every gridDim.x-th block of voxels; its lists lie in
// `places` and `weights`, 2·depth + 2 of them. Dynamic shared memory: sums of margins and masses,
// then the tile.
template <bool TILED>
__device__ __forceinline__ void score_by_waves(
    const Forest &forest, const Table &table, const Blocks &b, const void *taps, u32 *places,
    u64 *weights, s64 *scores
) {
    extern __shared__ u64 shared_words[];
    u32 capacity = 1u << (b.bits[0] + b.bits[1] + b.bits[2]);
    Sums sums;
    sums.positive = shared_words;
    sums.dominant = (s64 *)(sums.positive + capacity);
    sums.margins = (int *)(sums.dominant + capacity);
    u32 *tile = (u32 *)(sums.margins + capacity);
    u64 lists_each = (u64)(2 * forest.depth + 2) * capacity;
    Lists lists = {places + blockIdx.x * lists_each, weights + blockIdx.x * lists_each};
    u32 blocks = b.blocks[0] * b.blocks[1] * b.blocks[2];
    for (u32 block = blockIdx.x; block < blocks; block += gridDim.x) {
        int first[3];
        first_voxel(b, block, first);
        if constexpr (TILED) load_tile<0>(table, b, first, tile);
        for (u32 i = threadIdx.x; i < capacity; i += blockDim.x) {
            sums.positive[i] = 0;
            sums.dominant[i] = 0;
            sums.margins[i] = 0;
        }
        __syncthreads();
        auto voxels = voxels_of(b, first, reader_of<TILED>(table, b, first, tile), taps);
        waves<4, TILED ? 8 : 0>(forest, voxels, lists, sums, capacity);
        for (u32 i = threadIdx.x; i < voxels.count; i += blockDim.x) {
            u32 place = voxels.place(i);
            scores[voxel_number(b, first, place)] =
                score_of(forest, sums.positive[place], sums.dominant[place]);
        }
        __syncthreads();
    }
}

// Scores of all voxels by a walk a thread.
extern "C" __global__ __launch_bounds__(WALK_THREADS) void haar_walks(
    Forest forest, Table table, Blocks b, const void *taps, s64 *scores
) {
    u32 blocks = b.blocks[0] * b.blocks[1] * b.blocks[2];
    for (u32 block = blockIdx.x; block < blocks; block += gridDim.x) {
        int first[3];
        first_voxel(b, block, first);
        auto voxels = voxels_of(b, first, reader_of<false>(table, b, first, nullptr), taps);
        for (u32 i = threadIdx.x; i < voxels.count; i += blockDim.x) {
            u32 place = voxels.place(i);
            u64 positive = 0;
            s64 margin = 0;
            walk(forest, voxels, place, &positive, &margin);
            scores[voxel_number(b, first, place)] = score_of(forest, positive, margin);
        }
    }
}

// Scores of listed voxels (x, y, z) by a walk a thread.
extern "C" __global__ __launch_bounds__(WALK_THREADS) void haar_walks_at(
    Forest forest, Table table, const int *listed, u32 count, const void *taps, s64 *scores
) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const int *voxel = listed + 3 * (u64)n;
    const u32 *at = table.values + table.origin +
                    ((u64)voxel[2] * table.plane + (u64)voxel[1] * table.row + voxel[0]);
    // A block of one voxel.
    Voxels<WholeTable> voxels = {};
    voxels.reader = WholeTable{(const char *)at, table.row, table.plane};
    voxels.taps = taps;
    u64 positive = 0;
    s64 margin = 0;
    walk(forest, voxels, 0, &positive, &margin);
    scores[n] = score_of(forest, positive, margin);
}

extern "C" __global__ __launch_bounds__(WAVE_THREADS) void haar_waves(
    Forest forest, Table table, Blocks b, const void *taps, u32 *places, u64 *weights, s64 *scores
) {
    score_by_waves<false>(forest, table, b, taps, places, weights, scores);
}

extern "C" __global__ __launch_bounds__(TILED_THREADS) void haar_waves_tiled(
    Forest forest, Table table, Blocks b, const void *taps, u32 *places, u64 *weights, s64 *scores
) {
    score_by_waves<true>(forest, table, b, taps, places, weights, scores);
}
