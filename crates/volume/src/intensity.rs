//! From scanner intensities to the 12 bits that everything after works on.

use crate::real_volume::Row;
use crate::resample::Source;
use crate::{Geometry, RealVolume, Volume};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Range;

/// Largest quantised intensity: 12 bits, so that box sums of a million voxels stay exact in 32
/// bits.
pub const MAX_INTENSITY: u16 = 4095;

/// Non-zero voxels count as the image proper, and zeros as background or padding, from this share
/// of the voxels on.
const MIN_NON_ZERO_PERCENT: u64 = 5;

/// How the range of intensities that is kept is chosen. A part of the model.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(tag = "policy", rename_all = "kebab-case", deny_unknown_fields)]
pub enum IntensityPolicy {
    /// A fixed window in the image's own units, for calibrated modalities (CT: Hounsfield units).
    Window {
        /// Becomes 0.
        low: f64,
        /// Becomes [`MAX_INTENSITY`].
        high: f64,
    },
    /// Percentiles of the image, for modalities without a scale (MR, ultrasound): of its non-zero
    /// finite voxels where these are at least 5 % of all voxels, otherwise of all finite voxels.
    Percentiles {
        /// This percentile becomes 0.
        low_percent: f64,
        /// This percentile becomes [`MAX_INTENSITY`].
        high_percent: f64,
    },
}

/// The intensities of one image that become 0 and [`MAX_INTENSITY`], in the image's own units; `low
/// < high`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct IntensityRange {
    /// Becomes 0, as does everything below.
    pub low: f64,
    /// Becomes [`MAX_INTENSITY`], as does everything above.
    pub high: f64,
}

/// Why an image or a policy gives no range of intensities.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum IntensityError {
    /// Every voxel is NaN or infinite.
    #[error("the image has no finite voxel (export it anew)")]
    NoFiniteVoxel,
    /// All finite voxels have one value.
    #[error("the image is constant: all its finite voxels are {0} (export it anew)")]
    Constant(f32),
    /// The percentiles fall on one value although the image is not constant.
    #[error(
        "the intensity percentiles {low_percent} and {high_percent} of the image are both {value}: nothing lies between them"
    )]
    NoContrast {
        /// The policy's lower percentile.
        low_percent: f64,
        /// The policy's upper percentile.
        high_percent: f64,
        /// The intensity at both.
        value: f64,
    },
    /// The window is empty or not finite.
    #[error("intensity window: low {low} must be below high {high}, and both finite")]
    Window {
        /// The policy's lower end.
        low: f64,
        /// The policy's upper end.
        high: f64,
    },
    /// The percentiles are not increasing or not within 0 to 100.
    #[error(
        "intensity percentiles: low_percent {low_percent} must be below high_percent {high_percent}, and both within 0 to 100"
    )]
    Percentiles {
        /// The policy's lower percentile.
        low_percent: f64,
        /// The policy's upper percentile.
        high_percent: f64,
    },
}

impl IntensityPolicy {
    /// The range of intensities of an image under this policy. A percentile `p` of `n` voxels is
    /// the order statistic `⌊p/100·(n−1) + ½⌋` counted from 0, exact whatever the number of
    /// threads.
    ///
    /// # Errors
    /// [`IntensityError`] when the policy's numbers are not in order, or the image has no finite
    /// voxel, or no contrast.
    pub fn range(&self, image: &RealVolume) -> Result<IntensityRange, IntensityError> {
        self.check()?;
        let counts = Counts::of(image);
        if counts.finite() == 0 {
            return Err(IntensityError::NoFiniteVoxel);
        }
        if let Some(value) = counts.constant() {
            return Err(IntensityError::Constant(value));
        }
        match *self {
            Self::Window { low, high } => Ok(IntensityRange { low, high }),
            Self::Percentiles { low_percent, high_percent } => {
                let [low, high] = counts.percentiles([low_percent, high_percent]);
                if low < high {
                    Ok(IntensityRange { low, high })
                } else {
                    Err(IntensityError::NoContrast { low_percent, high_percent, value: low })
                }
            }
        }
    }

    /// Whether the policy's own numbers make sense, without an image.
    ///
    /// # Errors
    /// [`IntensityError::Window`] or [`IntensityError::Percentiles`].
    pub fn check(&self) -> Result<(), IntensityError> {
        match *self {
            // The width too must be finite, or the scale would be zero.
            Self::Window { low, high } if low < high && (high - low).is_finite() => Ok(()),
            Self::Window { low, high } => Err(IntensityError::Window { low, high }),
            Self::Percentiles { low_percent, high_percent }
                if 0.0 <= low_percent && low_percent < high_percent && high_percent <= 100.0 =>
            {
                Ok(())
            }
            Self::Percentiles { low_percent, high_percent } => {
                Err(IntensityError::Percentiles { low_percent, high_percent })
            }
        }
    }
}

impl IntensityRange {
    /// Intensities brought to 0..=[`MAX_INTENSITY`], linear between the ends of the range, halves
    /// rounded up. NaN becomes 0, infinities the end of their side.
    pub fn quantise(&self, image: &RealVolume) -> Volume<u16> {
        let all = image.shape().map(|n| 0..n);
        Volume::new(image.geometry().clone(), self.of(image).block(all).into_owned())
    }

    /// An image in these 12 bits, of which no voxel is made before it is asked for.
    pub fn of<'a>(&self, image: &'a RealVolume) -> Quantised<'a> {
        let scale = f64::from(MAX_INTENSITY) / (self.high - self.low);
        let low = self.low;
        let of_code = |&v: &f32| to_12_bits(v, low, scale);
        let table = image.table().map(|table| table.iter().map(of_code).collect());
        Quantised { image, low, scale, table }
    }
}

/// An image in 12 bits whose voxels are made when they are asked for.
#[derive(Debug, Clone)]
pub struct Quantised<'a> {
    image: &'a RealVolume,
    low: f64,
    scale: f64,
    /// By code.
    table: Option<Vec<u16>>,
}

impl Quantised<'_> {
    fn row(&self, row: Row<'_>, to: &mut [u16]) {
        match (row, &self.table) {
            (Row::Numbers(numbers), _) => {
                for (q, &v) in to.iter_mut().zip(numbers) {
                    *q = to_12_bits(v, self.low, self.scale);
                }
            }
            (row, Some(table)) => {
                let mut to = to.iter_mut();
                row.codes(|code| {
                    if let Some(q) = to.next() {
                        *q = table[code];
                    }
                });
            }
            (_, None) => unreachable!("codes have a table"),
        }
    }
}

impl Source for Quantised<'_> {
    fn geometry(&self) -> &Geometry {
        self.image.geometry()
    }

    fn block(&self, [i, j, k]: [Range<usize>; 3]) -> Cow<'_, [u16]> {
        let plane = i.len() * j.len();
        let mut data = vec![0u16; plane * k.len()];
        data.par_chunks_mut(plane.max(1)).zip(k).for_each(|(to, k)| {
            for (to, j) in to.chunks_mut(i.len()).zip(j.clone()) {
                self.row(self.image.part_of_row(i.clone(), j, k), to);
            }
        });
        data.into()
    }
}

/// `as` truncates towards zero, saturates, and turns NaN into 0, so that only the upper end is left to
/// clamp.
fn to_12_bits(v: f32, low: f64, scale: f64) -> u16 {
    (((f64::from(v) - low) * scale + 0.5) as u16).min(MAX_INTENSITY)
}

/// Voxels a parallel task takes at a time.
const CHUNK: usize = 1 << 16;

/// A 32-bit key in the order of the floats. Both zeros get the same key.
fn key(v: f32) -> u32 {
    let bits = (v + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// The float of a [`key`].
fn value(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key & !(1 << 31) } else { !key })
}

/// A table of counts by 16 bits of a [`key`].
type Table = Vec<u64>;

/// Upper halves of the keys of numbers: below lie −∞ and negative NaNs, above +∞ and positive NaNs,
/// because an exponent of all ones fills these bins and no others.
const FINITE: std::ops::Range<usize> = 0x0080..0xff80;

/// Order statistics of the finite voxels by two rounds of counting, 16 bits of the key each: exact,
/// in parallel, without a copy of the image, and as sums of integers independent of the order of
/// the threads.
struct Counts<'a> {
    image: &'a RealVolume,
    /// How many voxels have each code, where voxels are codes.
    codes: Option<Vec<u64>>,
    /// Finite voxels by the upper half of their key.
    upper: Table,
    zeros: u64,
    /// So many of the zeros are not counted.
    left_out: u64,
}

impl<'a> Counts<'a> {
    fn of(image: &'a RealVolume) -> Self {
        let codes = image.table().map(|table| {
            let [counts, _] = by_row(image, table.len(), |[counts, _], row| {
                row.codes(|code| counts[code] += 1);
            });
            counts
        });
        let mut counts = Self { image, codes, upper: Table::new(), zeros: 0, left_out: 0 };
        let [mut upper, zeros] = counts.tables(|[upper, zeros], v, count| {
            upper[(key(v) >> 16) as usize] += count;
            zeros[0] += if v == 0.0 { count } else { 0 };
        });
        upper[..FINITE.start].fill(0);
        upper[FINITE.end..].fill(0);
        (counts.upper, counts.zeros) = (upper, zeros[0]);
        counts
    }

    /// Two tables that every number is counted in, with how often it occurs.
    fn tables(&self, count: impl Fn(&mut [Table; 2], f32, u64) + Sync) -> [Table; 2] {
        match (&self.codes, self.image.table()) {
            (Some(counts), Some(table)) => {
                let mut tables = [vec![0; 1 << 16], vec![0; 1 << 16]];
                let occurring = table.iter().zip(counts).filter(|(_, count)| **count > 0);
                occurring.for_each(|(&v, &often)| count(&mut tables, v, often));
                tables
            }
            _ => by_row(self.image, 1 << 16, |tables, row| {
                if let Row::Numbers(numbers) = row {
                    numbers.iter().for_each(|&v| count(tables, v, 1));
                }
            }),
        }
    }

    fn finite(&self) -> u64 {
        self.upper.iter().sum()
    }

    /// The value of all finite voxels, where they have but one.
    fn constant(&self) -> Option<f32> {
        // Voxels in two bins differ; only within one is it worth to look closer.
        let bins = self.upper.iter().filter(|&&count| count > 0).count();
        let [first, last] =
            if bins == 1 { self.ordered([0, self.finite() - 1]) } else { return None };
        (first == last).then_some(first)
    }

    /// Leaves zeros out where there is enough beside them.
    fn leave_out_background(&mut self) {
        let non_zeros = self.finite() - self.zeros;
        if non_zeros > 0
            && non_zeros * 100 >= self.image.geometry().len() as u64 * MIN_NON_ZERO_PERCENT
        {
            self.upper[(key(0.0) >> 16) as usize] -= self.zeros;
            self.left_out = self.zeros;
        }
    }

    fn percentiles(mut self, percent: [f64; 2]) -> [f64; 2] {
        self.leave_out_background();
        let last = (self.finite() - 1) as f64;
        self.ordered(percent.map(|p| (p / 100.0 * last + 0.5) as u64)).map(f64::from)
    }

    /// The voxels of two ranks, counted from 0 in increasing order.
    fn ordered(&self, ranks: [u64; 2]) -> [f32; 2] {
        let found = ranks.map(|rank| position(&self.upper, rank));
        let wanted = found.map(|(upper, _)| upper as u32);
        let mut lower = self.tables(|lower, v, count| {
            let key = key(v);
            for (lower, upper) in lower.iter_mut().zip(wanted) {
                if key >> 16 == upper {
                    lower[(key & 0xffff) as usize] += count;
                }
            }
        });
        for lower in lower
            .iter_mut()
            .zip(wanted)
            .filter(|(_, upper)| *upper == key(0.0) >> 16)
            .map(|(lower, _)| lower)
        {
            lower[0] -= self.left_out;
        }
        [0, 1].map(|n| {
            let (upper, rank) = found[n];
            value((upper << 16 | position(&lower[n], rank).0) as u32)
        })
    }
}

/// Two tables of this length that the voxels of every row are counted in.
fn by_row(
    image: &RealVolume,
    length: usize,
    count: impl Fn(&mut [Table; 2], Row<'_>) + Sync,
) -> [Table; 2] {
    let empty = || [vec![0; length], vec![0; length]];
    let [nx, ny, nz] = image.shape();
    // As few tasks as keep every thread busy, for each has tables of its own to clear and to add up.
    let rows = (ny * nz).div_ceil(2 * rayon::current_num_threads()).max(CHUNK.div_ceil(nx));
    let parts = (0..ny * nz).into_par_iter().step_by(rows).map(|first| {
        let mut tables = empty();
        for row in first..(first + rows).min(ny * nz) {
            count(&mut tables, image.row(row % ny, row / ny));
        }
        tables
    });
    parts.reduce(empty, |mut a, b| {
        a.iter_mut().flatten().zip(b.iter().flatten()).for_each(|(a, b)| *a += b);
        a
    })
}

/// The bin that holds the element of a rank (from 0), and the element's rank within the bin.
fn position(counts: &[u64], rank: u64) -> (usize, u64) {
    let mut rest = rank;
    for (bin, &count) in counts.iter().enumerate() {
        if rest < count {
            return (bin, rest);
        }
        rest -= count;
    }
    unreachable!("the rank is below the total of the counts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real_volume::tests::as_codes;
    use proptest::prelude::*;

    const PERCENTILES: IntensityPolicy =
        IntensityPolicy::Percentiles { low_percent: 1.0, high_percent: 99.0 };

    fn line(data: Vec<f32>) -> RealVolume {
        Volume::new(Geometry::isotropic([data.len(), 1, 1], 1.0).unwrap(), data).into()
    }

    /// By sorting, as the documentation has it.
    fn sorted_percentile(data: &[f32], percent: f64) -> f64 {
        let finite: Vec<f32> = data.iter().copied().filter(|v| v.is_finite()).collect();
        let non_zero: Vec<f32> = finite.iter().copied().filter(|&v| v != 0.0).collect();
        let mut used = if !non_zero.is_empty() && non_zero.len() * 20 >= data.len() {
            non_zero
        } else {
            finite
        };
        used.sort_by(f32::total_cmp);
        f64::from(used[(percent / 100.0 * (used.len() - 1) as f64 + 0.5) as usize])
    }

    /// Floats of every kind, with zeros, repeats and neighbours that differ in the last bits only.
    fn floats() -> impl Strategy<Value = f32> {
        prop_oneof![
            4 => (0u32..4096).prop_map(|n| f32::from_bits(0x4479_f800 + n)),
            2 => -50.0f32..50.0,
            2 => Just(0.0f32),
            1 => Just(-0.0f32),
            1 => any::<u32>().prop_map(f32::from_bits),
            1 => prop_oneof![Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY), Just(-f32::NAN), Just(f32::MIN), Just(f32::MAX)],
        ]
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_sorting(
            data in prop::collection::vec(floats(), 1..400),
            zeros in 0usize..9000,
            low_percent in 0.0f64..60.0,
            width in 0.1f64..40.0,
        ) {
            let mut data = data;
            data.resize(data.len() + zeros, 0.0);
            let policy = IntensityPolicy::Percentiles { low_percent, high_percent: low_percent + width };
            let image = line(data);
            let numbers = image.numbers();
            let finite: Vec<f32> = numbers.data().iter().copied().filter(|v| v.is_finite()).collect();
            let expected = if finite.is_empty() {
                Err(IntensityError::NoFiniteVoxel)
            } else if finite.iter().all(|&v| v == finite[0]) {
                Err(IntensityError::Constant(finite[0] + 0.0))
            } else {
                let [low, high] = [low_percent, low_percent + width].map(|p| sorted_percentile(numbers.data(), p));
                if low < high {
                    Ok(IntensityRange { low, high })
                } else {
                    Err(IntensityError::NoContrast { low_percent, high_percent: low_percent + width, value: low })
                }
            };
            prop_assert_eq!(policy.range(&as_codes(&numbers)), expected.clone());
            prop_assert_eq!(policy.range(&image), expected);
        }

        #[test]
        fn quantising_rounds_half_up_and_clamps(
            data in prop::collection::vec(floats(), 1..200),
            low in -100.0f64..100.0,
            width in 0.01f64..500.0,
        ) {
            let range = IntensityRange { low, high: low + width };
            let numbers = line(data).numbers();
            let quantised = range.quantise(&numbers.clone().into());
            prop_assert_eq!(&range.quantise(&as_codes(&numbers)), &quantised);
            for (&v, &q) in numbers.data().iter().zip(quantised.data()) {
                let exact = (f64::from(v) - range.low) * (4095.0 / (range.high - range.low));
                let expected = if exact.is_nan() { 0.0 } else { (exact + 0.5).floor().clamp(0.0, 4095.0) };
                prop_assert_eq!(f64::from(q), expected, "{}", v);
            }
        }
    }

    #[test]
    fn ends_of_the_window() {
        let range = IntensityPolicy::Window { low: -1000.0, high: 3095.0 }
            .range(&line(vec![0.0, 1.0]))
            .unwrap();
        let q = range.quantise(&line(vec![
            -1000.0,
            -999.6,
            -999.5,
            3094.5,
            3095.0,
            9e9,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
        ]));
        assert_eq!(q.data(), [0, 0, 1, 4095, 4095, 4095, 0, 4095, 0]);
    }

    #[test]
    fn ranks_do_not_depend_on_the_threads() {
        let mut state = 1u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from_bits(state)
        });
        let image = line(noise.take(5 * CHUNK + 3).collect());
        let range = |threads| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
                .install(|| PERCENTILES.range(&image))
        };
        assert_eq!(range(1).unwrap().low, sorted_percentile(image.numbers().data(), 1.0));
        assert_eq!(range(1), range(2));
        assert_eq!(range(1), range(7));
    }

    #[test]
    fn refuses_what_has_no_range() {
        let image = line(vec![1.0, 2.0, 3.0]);
        for (low, high) in
            [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (-f64::MAX, f64::MAX)]
        {
            assert!(
                matches!(
                    IntensityPolicy::Window { low, high }.range(&image),
                    Err(IntensityError::Window { .. })
                ),
                "{low} {high}"
            );
        }
        for (low_percent, high_percent) in
            [(-1.0, 99.0), (1.0, 100.5), (50.0, 50.0), (f64::NAN, 99.0)]
        {
            let policy = IntensityPolicy::Percentiles { low_percent, high_percent };
            assert!(
                matches!(policy.range(&image), Err(IntensityError::Percentiles { .. })),
                "{low_percent} {high_percent}"
            );
        }
        assert_eq!(PERCENTILES.range(&line(vec![f32::NAN; 3])), Err(IntensityError::NoFiniteVoxel));
        assert_eq!(
            PERCENTILES.range(&line(vec![7.0, f32::NAN, 7.0])),
            Err(IntensityError::Constant(7.0))
        );
        assert_eq!(
            IntensityPolicy::Window { low: 0.0, high: 1.0 }.range(&line(vec![-0.0, 0.0])),
            Err(IntensityError::Constant(0.0))
        );
    }

    #[test]
    fn is_written_as_a_tagged_table() {
        let json = r#"{"policy":"percentiles","low_percent":1.0,"high_percent":99.0}"#;
        assert_eq!(serde_json::to_string(&PERCENTILES).unwrap(), json);
        assert_eq!(serde_json::from_str::<IntensityPolicy>(json).unwrap(), PERCENTILES);
        assert!(
            serde_json::from_str::<IntensityPolicy>(
                r#"{"policy":"window","low":0,"high":1,"hihg":2}"#
            )
            .is_err()
        );
    }
}
