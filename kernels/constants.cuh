// What kernels and host must agree on, and the types in which they count. A test of `pbt-gpu`
// (`constants.rs`) compares every number here with the host's.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

// Trees and scores: `pbt-tree`.
#define BINS 64
#define BIN_MULTIPLIER_BITS 38
#define ALPHA_BITS 16
#define MASS_BITS 52
#define LN_BITS 32
#define LOG_ODDS_BITS 16
#define MINOR_STEP_BITS 8
#define MINOR_STEPS 8192
#define MAX_DEPTH 24
#define WEIGHT_TOTAL (1 << 30)

// Ridge regression: `pbt-linear`, the last three for kernels alone.
#define PANEL 64    // columns of a factor that are finished together
#define STRETCH 512 // columns whose products are summed together
#define SUMS 4      // sums that go on side by side
#define PRODUCTS 64 // vectors along an edge of a block's tile of inner products
#define PANEL_ROWS 32
#define RIDGE_THREADS 256

// Samples of posed boxes: `pbt-features`.
#define FRAME_BITS 16
#define AXIS_BITS 14
#define SAMPLE_SCALE 8
#define LEVEL_NUMBERS 12  // of a frame's level: its origin, then three steps
#define AXIS_NUMBERS 9    // of a frame's axes

enum Channel {
    INTENSITY,
    GRADIENT_I,
    GRADIENT_J,
    GRADIENT_K,
    ALONG_0,
    ALONG_1,
    ALONG_2,
    MAGNITUDE,
    ACROSS_0,
    ANGLE_0,
    ANGLE_1,
    ANGLE_2
};
// From SQRT on, modifiers are tables one after the other.
enum Modifier { VALUE, ABSOLUTE, SQRT };

// Forests: `forest.rs`.
#define HISTOGRAM 0x80000000u  // the bit of a weak classifier's `how` that says that its bin votes

// The binned matrix and boosting: `bins.rs` and `boost.rs`.
#define TILE 128         // features of a tile
#define GROUP 16         // samples whose rows are on their way from memory while as many are added
#define FEATURE_BITS 30  // of the keys by which candidates are ranked
#define BOOST_THREADS 256

// Integral volumes: `integral.rs`.
#define SEGMENT 4       // columns of a thread that lie side by side
#define SEGMENT_ROWS 4  // rows of a thread
#define INTEGRAL_THREADS 512

// Forests that label voxels: `label/`.
#define CHANNEL_ZERO 2048
#define MAX_CHANNEL 4095
#define SMOOTH_BITS 4  // fractional bits that a Gaussian keeps
enum FilterKind {
    FILTER_VALUE,
    FILTER_GRADIENT,
    FILTER_MAGNITUDE,
    FILTER_GAUSSIAN,
    FILTER_LAPLACIAN,
    FILTER_LOCAL_MEAN,
    FILTER_PLACE
};
#define LABEL_THREADS 128
#define DISTRIBUTION_THREADS 1024  // most threads of a block
#define DISTRIBUTION_CHUNK 32     // edge of the cubes of voxels that are labelled one after the other
#define MISSING 0x8000000000000000
#define MISSING_BIN 63
#define LEAST_GAIN (1 << 12)  // of a sample
#define SPLIT_THREADS 256
#define SPLIT_SLICE 16384  // samples of a block that counts
#define FIRST_BITS 6  // of the word of a candidate that says its node: where its test begins
#define SLOPE_BITS 14  // fractional bits of gradients and curvatures
#define LEAF_ONE (1 << 15)
#define BOOSTED_THREADS 1024  // most threads of a block that looks for the tests of boosted trees
#define CLASSES_AT_ONCE 8     // whose sums such a block has at a time
#define SLICE (1 << 16)       // samples whose slopes it adds in 32 bits
#define PART_THREADS 256      // of a block that parts samples
#define PART_EACH 4           // samples of such a thread

// Connected components: `components.rs`.
#define COMPONENT_THREADS 1024  // of blocks that sum
#define TILE_WORDS 1024         // most words of a tile, a thread each
#define WORD_RUNS 16            // most runs of a word: every other voxel
#define ROW_LINES 4             // rows whose labels a thread writes

// Scores of voxels and poses: `haar.rs`, `paths.rs` and `poses.rs`.
#define TILE_ROW 56  // values from one row of a block's tile to the next
#define WALK_THREADS 512
#define WAVE_THREADS 512
#define TILED_THREADS 1024
#define POSE_THREADS 256
#define BOXES_BITS 24  // of a fork's word: which box is the first
#define PLANE_GAP 4    // values of a plane of `paths.cu`'s tile beside its rows

// The best scores: `best.rs`.
#define BEST_THREADS 1024
#define DRAWN 128    // blocks that draw
#define SORTED 2048  // scores that are sorted at the end, at most
