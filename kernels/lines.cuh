// Lines of a mask as bits, and where they touch. A line is a row, or for 26 neighbours a beam: a bundle
// of 2 x 2 rows, any two of whose voxels at x or at x and x + 1 touch.

#pragma once

#include "constants.cuh"

struct Grid {
    int nx, ny, nz;
    int words;             // of a row: 32 voxels each
    int word_runs;         // most runs of a word
    int lines_y, lines_z;  // lines of a plane, and planes of lines
    int tile[3];           // words, lines along y and lines along z of a tile
    int tiles[2];          // tiles along x and y
};

// The bits of a line in a word, by row: one, or the four of a beam.
template <int BUNDLE>
struct Bits {
    u32 rows[BUNDLE * BUNDLE];

    __device__ __forceinline__ u32 row(int y, int z) const {
        return rows[BUNDLE == 1 ? 0 : 2 * z + y];
    }
    // Rows that lie towards lines before (0) or after (1), united.
    __device__ __forceinline__ u32 face_y(int side) const { return row(side, 0) | row(side, 1); }
    __device__ __forceinline__ u32 face_z(int side) const { return row(0, side) | row(1, side); }
    __device__ __forceinline__ u32 united() const { return face_y(0) | face_y(1); }
};

template <int BUNDLE>
__device__ __forceinline__ Bits<BUNDLE> load_bits(const u32 *bits, u32 n) {
    Bits<BUNDLE> out;
    if (BUNDLE == 1) {
        out.rows[0] = __ldg(bits + n);
    } else {
        uint4 four = __ldg((const uint4 *)bits + n);
        out.rows[0] = four.x;
        out.rows[1 % (BUNDLE * BUNDLE)] = four.y;
        out.rows[2 % (BUNDLE * BUNDLE)] = four.z;
        out.rows[3 % (BUNDLE * BUNDLE)] = four.w;
    }
    return out;
}

// Places in a word where voxels of two lines touch, one for each pair of runs at least: at x, or one
// here and one there at x and x - 1. At each, the runs that begin last up to there touch. `between`:
// voxels that touch both sides, whose joints make those of the two needless.
__device__ __forceinline__ u32 contacts_of(
    u32 here, u32 there, u32 last_here, u32 last_there, bool corners, u32 between = 0
) {
    u32 both = here & there, last = last_here & last_there;
    // Neighbouring bits are of one run, so one contact of many is enough.
    u32 at = both & ~(both << 1 | last >> 31) & ~(between | between << 1 | between >> 1);
    if (!corners) return at;
    // One ends at a place, and the other begins at the next.
    u32 here_1 = here << 1 | last_here >> 31, there_1 = there << 1 | last_there >> 31;
    u32 beside = here_1 & there & ~(here | there_1) | there_1 & here & ~(there | here_1);
    return at | beside & ~(between | between << 1);
}

// Of contacts, the first after each place of `begin`, where a run begins here or there.
__device__ __forceinline__ u32 first_of_each(u32 contacts, u32 begin) {
    u32 firsts = begin | 1, lasts = firsts >> 1 | 0x80000000u;
    // The lowest bit of each part; the last place of a part keeps the borrow within it.
    return contacts & ~((contacts | lasts) - firsts);
}

// Lines touch the four before them, `k` 0 to 3, with these bits here and there. CORNERS: 6, 18 or 26
// neighbours as 0, 1 or 2.
template <int BUNDLE>
__device__ __forceinline__ u32 bits_here(int k, const Bits<BUNDLE> &here) {
    return k == 0 ? here.face_y(0) : k == 1 ? here.face_z(0) : here.row(k - 2, 0);
}

template <int BUNDLE>
__device__ __forceinline__ u32 bits_there(int k, const Bits<BUNDLE> &there) {
    return k == 0 ? there.face_y(1) : k == 1 ? there.face_z(1) : there.row(3 - k, 1);
}

template <int CORNERS>
__device__ __forceinline__ bool has_corners(int k) {
    return CORNERS > (k < 2 ? 0 : 1);
}

__device__ __forceinline__ int beside_y(int k) { return k == 1 ? 0 : k == 3 ? 1 : -1; }
__device__ __forceinline__ int beside_z(int k) { return k == 0 ? 0 : -1; }

// Where a line touches one before it in a word; `at(dy, dz, back)` are the bits of a line beside it in
// this word or the one before.
template <int BUNDLE, int CORNERS, class At>
__device__ __forceinline__ u32 contacts_with(int k, const At &at) {
    u32 between = 0;
    // The voxels between two lines that share an edge lie in the lines that both touch.
    if (k == 2) between = at(0, -1, 0).row(0, 1) | at(-1, 0, 0).row(1, 0);
    if (k == 3) between = at(0, -1, 0).row(1, 1) | at(1, 0, 0).row(0, 0);
    int dy = beside_y(k), dz = beside_z(k);
    return contacts_of(
        bits_here<BUNDLE>(k, at(0, 0, 0)), bits_there<BUNDLE>(k, at(dy, dz, 0)),
        bits_here<BUNDLE>(k, at(0, 0, 1)), bits_there<BUNDLE>(k, at(dy, dz, 1)),
        has_corners<CORNERS>(k), between
    );
}
