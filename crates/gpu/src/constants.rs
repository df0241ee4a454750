//! Numbers that the kernels know too: the twin of `kernels/constants.cuh`, with which a test
//! compares them.

/// Features of a tile; the bins lie as bytes `[tile][sample][feature of the tile]`.
pub(crate) const TILE: usize = 128;
/// Samples that a warp of the search takes at a time; lists of entries are as long as a multiple of
/// it.
pub(crate) const GROUP: usize = 16;
/// Bits of a feature's number in the keys by which candidates are ranked.
pub(crate) const FEATURE_BITS: u32 = 30;
/// Threads of a block that searches.
pub(crate) const BOOST_THREADS: u32 = 256;

/// Columns of a thread that makes an integral volume.
pub(crate) const SEGMENT: usize = 4;
/// Rows of such a thread.
pub(crate) const SEGMENT_ROWS: usize = 4;
/// Most threads of a block that makes an integral volume.
pub(crate) const INTEGRAL_THREADS: usize = 512;

/// Values from one row of a block's tile to the next, which is as long as a row may be.
pub(crate) const TILE_ROW: usize = 56;
/// Threads of a block that scores voxels by walks.
pub(crate) const WALK_THREADS: u32 = 512;
/// Threads of a block that scores voxels by waves.
pub(crate) const WAVE_THREADS: u32 = 512;
/// The same on tiles, where a block alone fills a multiprocessor's shared memory.
pub(crate) const TILED_THREADS: u32 = 1024;
/// Most threads of a block that scores poses.
pub(crate) const POSE_THREADS: u32 = 256;
/// Bits of a fork's word that say which box is the first.
pub(crate) const BOXES_BITS: u32 = 24;
/// Values of a plane of a tile for paths beside its rows.
pub(crate) const PLANE_GAP: usize = 4;
/// The bit of a weak classifier's `how` that says that the response's bin votes.
pub(crate) const HISTOGRAM: u32 = 1 << 31;

/// Vectors along an edge of a block's tile of inner products.
pub(crate) const PRODUCTS: usize = 64;
/// Rows of a panel that a block computes.
pub(crate) const PANEL_ROWS: usize = 32;
/// Threads of a block that computes products, or solves.
pub(crate) const RIDGE_THREADS: u32 = 256;

/// What a channel of a forest that labels voxels shows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FilterKind {
    Value,
    Gradient,
    Magnitude,
    Gaussian,
    Laplacian,
    LocalMean,
    Place,
}

/// Threads of a block that computes responses at voxels.
pub(crate) const LABEL_THREADS: u32 = 128;
/// Most threads of a block that labels all voxels.
pub(crate) const DISTRIBUTION_THREADS: u32 = 1024;
/// Edge of the cubes of voxels that are labelled one after the other.
pub(crate) const DISTRIBUTION_CHUNK: usize = 32;

/// Most threads of a block that looks for splits.
pub(crate) const SPLIT_THREADS: u32 = 256;
/// Samples of a block that counts those of a node.
pub(crate) const SPLIT_SLICE: usize = 1 << 14;
/// Bits of the word of a candidate that says its node: the bin at which its test begins.
pub(crate) const FIRST_BITS: u32 = 6;
/// Most threads of a block that looks for the tests of boosted trees.
pub(crate) const BOOSTED_THREADS: u32 = 1024;
/// Classes whose sums such a block has at a time.
pub(crate) const CLASSES_AT_ONCE: usize = 8;
/// Samples whose slopes it adds in 32 bits.
#[cfg(test)]
const SLICE: usize = 1 << 16;
/// Threads of a block that parts the samples of nodes of boosted trees.
pub(crate) const PART_THREADS: u32 = 256;
/// Samples of such a thread.
pub(crate) const PART_EACH: u32 = 4;

/// Threads of a block that sums for connected components.
pub(crate) const COMPONENT_THREADS: u32 = 1024;
/// Most words of a tile, a thread each.
pub(crate) const TILE_WORDS: usize = 1024;
/// Most runs of a word: every other voxel.
pub(crate) const WORD_RUNS: usize = 16;
/// Rows whose labels a thread writes.
pub(crate) const ROW_LINES: usize = 4;

/// Numbers of a frame's level.
pub(crate) const LEVEL_NUMBERS: usize = 12;
/// Numbers of a frame's axes.
pub(crate) const AXIS_NUMBERS: usize = 9;

/// Threads of the blocks that find the best scores, and groups of draws.
pub(crate) const BEST_THREADS: u32 = 1024;
/// Blocks that draw.
pub(crate) const DRAWN: u32 = 128;
/// Scores that are sorted on the device, at most.
pub(crate) const SORTED: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_features::{Channel, Modifier};
    use std::collections::BTreeMap;

    const HEADER: &str = include_str!("../../../kernels/constants.cuh");

    /// The value of `48`, `0x30u` or `(1 << 4)`.
    fn value(text: &str) -> u64 {
        let text = text.trim_matches(['(', ')', 'u']);
        if let Some((number, shift)) = text.split_once(" << ") {
            return value(number) << value(shift);
        }
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        }
        .unwrap_or_else(|_| panic!("{text} is no number"))
    }

    /// The definitions of the header.
    fn definitions() -> BTreeMap<&'static str, u64> {
        let definition = |line: &'static str| {
            let line = line.strip_prefix("#define ")?.split("//").next()?.trim();
            let (name, number) = line.split_once(' ')?;
            Some((name, value(number)))
        };
        HEADER.lines().filter_map(definition).collect()
    }

    #[test]
    fn kernels_know_the_same_numbers() {
        macro_rules! numbers {
            ($($name:literal: $value:expr),+ $(,)?) => { [$(($name, $value as u64)),+] };
        }
        let host = numbers![
            "BINS": pbt_tree::BINS,
            "BIN_MULTIPLIER_BITS": pbt_tree::BIN_MULTIPLIER_BITS,
            "ALPHA_BITS": pbt_tree::ALPHA_BITS,
            "MASS_BITS": pbt_tree::fixed::MASS_BITS,
            "LN_BITS": pbt_tree::fixed::LN_BITS,
            "LOG_ODDS_BITS": pbt_tree::LOG_ODDS_BITS,
            "MINOR_STEP_BITS": pbt_tree::fixed::MINOR_STEP_BITS,
            "MINOR_STEPS": pbt_tree::fixed::minor_table().len() - 1,
            "MAX_DEPTH": pbt_tree::MAX_DEPTH,
            "WEIGHT_TOTAL": pbt_tree::WEIGHT_TOTAL,
            "PANEL": pbt_linear::cholesky::PANEL,
            "STRETCH": pbt_linear::cholesky::STRETCH,
            "SUMS": pbt_linear::SUMS,
            "PRODUCTS": PRODUCTS,
            "PANEL_ROWS": PANEL_ROWS,
            "RIDGE_THREADS": RIDGE_THREADS,
            "FRAME_BITS": pbt_features::FRAME_BITS,
            "AXIS_BITS": pbt_features::AXIS_BITS,
            "SAMPLE_SCALE": pbt_features::SAMPLE_SCALE,
            "LEVEL_NUMBERS": LEVEL_NUMBERS,
            "AXIS_NUMBERS": AXIS_NUMBERS,
            "HISTOGRAM": HISTOGRAM,
            "TILE": TILE,
            "GROUP": GROUP,
            "FEATURE_BITS": FEATURE_BITS,
            "BOOST_THREADS": BOOST_THREADS,
            "SEGMENT": SEGMENT,
            "SEGMENT_ROWS": SEGMENT_ROWS,
            "INTEGRAL_THREADS": INTEGRAL_THREADS,
            "CHANNEL_ZERO": pbt_features::CHANNEL_ZERO,
            "MAX_CHANNEL": pbt_features::MAX_CHANNEL,
            "SMOOTH_BITS": pbt_features::SMOOTH_BITS,
            "COMPONENT_THREADS": COMPONENT_THREADS,
            "TILE_WORDS": TILE_WORDS,
            "WORD_RUNS": WORD_RUNS,
            "ROW_LINES": ROW_LINES,
            "LABEL_THREADS": LABEL_THREADS,
            "DISTRIBUTION_THREADS": DISTRIBUTION_THREADS,
            "DISTRIBUTION_CHUNK": DISTRIBUTION_CHUNK,
            "MISSING": pbt_features::MISSING,
            "MISSING_BIN": pbt_tree::MISSING_BIN,
            "LEAST_GAIN": pbt_tree::LEAST_GAIN,
            "SPLIT_THREADS": SPLIT_THREADS,
            "SPLIT_SLICE": SPLIT_SLICE,
            "FIRST_BITS": FIRST_BITS,
            "SLOPE_BITS": pbt_tree::SLOPE_BITS,
            "LEAF_ONE": pbt_tree::LEAF_ONE,
            "BOOSTED_THREADS": BOOSTED_THREADS,
            "CLASSES_AT_ONCE": CLASSES_AT_ONCE,
            "SLICE": SLICE,
            "PART_THREADS": PART_THREADS,
            "PART_EACH": PART_EACH,
            "TILE_ROW": TILE_ROW,
            "WALK_THREADS": WALK_THREADS,
            "WAVE_THREADS": WAVE_THREADS,
            "TILED_THREADS": TILED_THREADS,
            "POSE_THREADS": POSE_THREADS,
            "BOXES_BITS": BOXES_BITS,
            "PLANE_GAP": PLANE_GAP,
            "BEST_THREADS": BEST_THREADS,
            "DRAWN": DRAWN,
            "SORTED": SORTED,
        ];
        assert_eq!(definitions(), host.into());
    }

    /// The entries of an enumeration of the header, in order.
    fn entries(name: &str) -> Vec<&'static str> {
        let start = HEADER.find(&format!("enum {name} {{")).expect("the enumeration");
        let body = HEADER[start..].split(['{', '}']).nth(1).expect("its entries");
        body.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect()
    }

    #[test]
    fn kernels_know_the_same_channels_and_modifiers() {
        use Channel::*;
        let channels = [
            ("INTENSITY", Intensity),
            ("GRADIENT_I", GradientI),
            ("GRADIENT_J", GradientJ),
            ("GRADIENT_K", GradientK),
            ("ALONG_0", Along0),
            ("ALONG_1", Along1),
            ("ALONG_2", Along2),
            ("MAGNITUDE", Magnitude),
            ("ACROSS_0", Across0),
            ("ANGLE_0", Angle0),
            ("ANGLE_1", Angle1),
            ("ANGLE_2", Angle2),
        ];
        assert_eq!(entries("Channel"), channels.map(|(name, _)| name));
        assert!(channels.iter().enumerate().all(|(n, &(_, channel))| channel as usize == n));
        // Those from the root on are read from a table.
        let modifiers = [
            ("VALUE", Modifier::Value),
            ("ABSOLUTE", Modifier::Absolute),
            ("SQRT", Modifier::Sqrt),
        ];
        assert_eq!(entries("Modifier"), modifiers.map(|(name, _)| name));
        assert!(modifiers.iter().enumerate().all(|(n, &(_, modifier))| modifier as usize == n));
    }

    #[test]
    fn kernels_know_the_same_filters() {
        let kinds = [
            ("FILTER_VALUE", FilterKind::Value),
            ("FILTER_GRADIENT", FilterKind::Gradient),
            ("FILTER_MAGNITUDE", FilterKind::Magnitude),
            ("FILTER_GAUSSIAN", FilterKind::Gaussian),
            ("FILTER_LAPLACIAN", FilterKind::Laplacian),
            ("FILTER_LOCAL_MEAN", FilterKind::LocalMean),
            ("FILTER_PLACE", FilterKind::Place),
        ];
        assert_eq!(entries("FilterKind"), kinds.map(|(name, _)| name));
        assert!(kinds.iter().enumerate().all(|(n, &(_, kind))| kind as usize == n));
    }
}
