//! A steerable feature: a transform of intensity or gradient at one grid point of a posed box.

use crate::channels::{ChannelVolume, SAMPLE_SCALE};
use crate::frame::{BoxGrid, PoseFrame};
use crate::tables::Tables;
use serde::{Deserialize, Serialize};

/// What is taken from a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Channel {
    /// I
    Intensity,
    /// Ix, Iy, Iz: gradient along the working grid's own axes, as in the patent's table.
    GradientI,
    /// Second component.
    GradientJ,
    /// Third component.
    GradientK,
    /// f = ⟨∇I, d⟩ with d the box's first axis, the patent's only direction.
    Along0,
    /// The same for the second axis.
    Along1,
    /// The same for the third axis.
    Along2,
    /// |∇I|
    Magnitude,
    /// √(|∇I|² − f²), f along the first axis.
    Across0,
    /// θ, the angle between ∇I and the first axis, 0 to π.
    Angle0,
    /// The same for the second axis.
    Angle1,
    /// The same for the third axis.
    Angle2,
}

/// How the value is transformed; the sign of signed channels is kept, except by `Square` of the
/// patent's f².
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Modifier {
    /// v
    Value,
    /// |v|
    Absolute,
    /// √|v|
    Sqrt,
    /// ∛|v|
    Cbrt,
    /// v²
    Square,
    /// |v|³
    Cube,
    /// log |v|
    Log,
}

impl Channel {
    /// The channel with this number in a model file.
    pub fn from_u8(number: u8) -> Option<Self> {
        use Channel::{
            Across0, Along0, Along1, Along2, Angle0, Angle1, Angle2, GradientI, GradientJ,
            GradientK, Intensity, Magnitude,
        };
        [
            Intensity, GradientI, GradientJ, GradientK, Along0, Along1, Along2, Magnitude, Across0,
            Angle0, Angle1, Angle2,
        ]
        .into_iter()
        .find(|&c| c as u8 == number)
    }
}

impl Modifier {
    /// The modifier with this number in a model file.
    pub fn from_u8(number: u8) -> Option<Self> {
        use Modifier::{Absolute, Cbrt, Cube, Log, Sqrt, Square, Value};
        [Value, Absolute, Sqrt, Cbrt, Square, Cube, Log].into_iter().find(|&m| m as u8 == number)
    }
}

/// One value at one point: trees hold it by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SteerableFeature {
    /// Grid point along the box's axes.
    pub point: [u8; 3],
    /// Pyramid level, 0 the finest; of an image of C channels C·level + channel.
    pub level: u8,
    /// What is taken from the sample.
    pub channel: Channel,
    /// How it is transformed.
    pub modifier: Modifier,
}

/// Which types a pool has at every point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SteerableSet {
    /// I, |∇I| and the three projections: all that a threshold on quantile-like bins can tell
    /// apart.
    Compact,
    /// The 21 types of the patent's printed table.
    Patent,
    /// {v, √v, ∛v, v², v³, log v} of I, |∇I|, the projections and angles of all three axes, and the
    /// signed components (Zheng et al. 2008, with every axis of the box as direction).
    Complete,
}

impl SteerableSet {
    /// Channel and modifier of every type.
    pub fn types(self) -> Vec<(Channel, Modifier)> {
        use Channel::{
            Across0, Along0, Along1, Along2, Angle0, Angle1, Angle2, GradientI, GradientJ,
            GradientK, Intensity, Magnitude,
        };
        use Modifier::{Absolute, Cbrt, Cube, Log, Sqrt, Square, Value};
        let plain = |channels: &[Channel]| channels.iter().map(|&c| (c, Value)).collect::<Vec<_>>();
        let positive = |channel| [Value, Sqrt, Cbrt, Square, Cube, Log].map(|m| (channel, m));
        match self {
            Self::Compact => plain(&[Intensity, Magnitude, Along0, Along1, Along2]),
            Self::Patent => {
                let mut types = positive(Intensity).to_vec();
                types.extend(plain(&[GradientI, GradientJ, GradientK]));
                types.push((Magnitude, Square));
                types.extend([Value, Absolute, Sqrt, Square, Cube, Log].map(|m| (Along0, m)));
                types.push((Across0, Value));
                types.extend([Value, Square, Cube, Log].map(|m| (Angle0, m)));
                types
            }
            Self::Complete => {
                let mut types = Vec::new();
                for channel in [Intensity, Magnitude, Angle0, Angle1, Angle2] {
                    types.extend(positive(channel));
                }
                for channel in [Along0, Along1, Along2] {
                    types.extend(
                        [Value, Absolute, Sqrt, Cbrt, Square, Cube, Log].map(|m| (channel, m)),
                    );
                }
                types.extend(plain(&[GradientI, GradientJ, GradientK, Across0]));
                types
            }
        }
    }
}

/// Grid × type × level: every point of the grid with every type of the set on each of the pyramid
/// levels.
pub fn steerable_pool(grid: &BoxGrid, set: SteerableSet, levels: &[u8]) -> Vec<SteerableFeature> {
    let types = set.types();
    let mut pool = Vec::with_capacity(grid.len() * types.len() * levels.len());
    for &level in levels {
        for point in grid.iter() {
            // Types of one point follow each other, so that it is sampled once for all of them.
            pool.extend(types.iter().map(|&(channel, modifier)| SteerableFeature {
                point,
                level,
                channel,
                modifier,
            }));
        }
    }
    pool
}

impl SteerableFeature {
    /// The response under a pose on a case's levels.
    pub fn response(&self, levels: &[ChannelVolume], frame: &PoseFrame) -> i32 {
        let level = usize::from(self.level);
        self.of_sample(levels[level].sample(frame.point(level, self.point)), frame)
    }

    /// The response from a sample already taken at the feature's point and level.
    pub fn of_sample(&self, sample: [i32; 4], frame: &PoseFrame) -> i32 {
        let steps = [sample[1], sample[2], sample[3]];
        let value = match self.channel {
            Channel::Intensity => sample[0],
            Channel::GradientI => steps[0],
            Channel::GradientJ => steps[1],
            Channel::GradientK => steps[2],
            Channel::Along0 => frame.project(steps, 0),
            Channel::Along1 => frame.project(steps, 1),
            Channel::Along2 => frame.project(steps, 2),
            Channel::Magnitude => magnitude(steps),
            Channel::Across0 => {
                let (all, f) = (i64::from(magnitude(steps)), i64::from(frame.project(steps, 0)));
                root((all * all - f * f).max(0)) as i32
            }
            Channel::Angle0 => angle(steps, frame, 0),
            Channel::Angle1 => angle(steps, frame, 1),
            Channel::Angle2 => angle(steps, frame, 2),
        };
        modify(value, self.modifier)
    }
}

/// Edge strength of a sample, 64·√|∇I| with ∇I the central difference per voxel; at most 4,095.
pub fn edge_strength(sample: [i32; 4]) -> i16 {
    // A sample is SAMPLE_SCALE times twice the central difference: 64·√(m/16) = √(256·m).
    root(i64::from(magnitude([sample[1], sample[2], sample[3]])) << 8).min(4095) as i16
}

fn magnitude(v: [i32; 3]) -> i32 {
    root(v.iter().map(|&c| i64::from(c) * i64::from(c)).sum()) as i32
}

/// ⌊√n⌋ of 0 ≤ n < 2⁵², where the machine's square root, which is rounded to the nearest, is never
/// rounded up to an integer: that of k² − 1 is 1/(2k) below k, and numbers there are closer
/// together.
fn root(n: i64) -> i64 {
    (n as f64).sqrt() as i64
}

/// Angle between the gradient and a box axis, π = 4095 · [`SAMPLE_SCALE`]; where there is no
/// gradient, a right angle.
fn angle(steps: [i32; 3], frame: &PoseFrame, axis: usize) -> i32 {
    let length = magnitude(steps);
    let cosine = if length == 0 {
        0
    } else {
        (frame.project(steps, axis) * 1024 / length).clamp(-1024, 1024)
    };
    Tables::get().angle[(cosine + 1024) as usize] * SAMPLE_SCALE
}

fn modify(value: i32, modifier: Modifier) -> i32 {
    let tables = Tables::get();
    let table = match modifier {
        Modifier::Value => return value,
        Modifier::Absolute => return value.abs(),
        Modifier::Sqrt => &tables.sqrt,
        Modifier::Cbrt => &tables.cbrt,
        Modifier::Square => &tables.square,
        Modifier::Cube => &tables.cube,
        Modifier::Log => &tables.log,
    };
    table[((value.unsigned_abs() as i32) / SAMPLE_SCALE).clamp(0, 4095) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Vector3;
    use pbt_volume::{Geometry, Padding, PointLps, Pose, Volume, rotation_from_vector};

    #[test]
    fn roots_are_those_of_integers() {
        let near = |k: i64| [k * k - 1, k * k, k * k + 1, k * k + 2 * k];
        for n in (1..2000)
            .chain(66_000_000..66_000_500)
            .chain((0..25).map(|bit| (1 << bit) + 1))
            .flat_map(near)
        {
            assert_eq!(root(n), n.isqrt());
        }
    }

    #[test]
    fn the_patents_table_has_21_types_and_no_type_twice() {
        assert_eq!(SteerableSet::Patent.types().len(), 21);
        for set in [SteerableSet::Compact, SteerableSet::Patent, SteerableSet::Complete] {
            let types = set.types();
            assert_eq!(types.iter().collect::<std::collections::BTreeSet<_>>().len(), types.len());
        }
        let grid = BoxGrid { points: [5, 5, 5], extent: [1.0; 3] };
        assert_eq!(steerable_pool(&grid, SteerableSet::Patent, &[0, 1, 2]).len(), 125 * 21 * 3);
    }

    /// A ramp has the same gradient everywhere, so every type has a value that can be worked out by
    /// hand.
    #[test]
    fn types_of_a_ramp() {
        let geometry = Geometry::isotropic([40, 40, 40], 1.0).unwrap();
        let level = Volume::from_fn(geometry, |i, j, _| (20 * i + 10 * j) as u16);
        let levels = [ChannelVolume::new(&level.clone().into(), Padding::Edge)];
        let pose = Pose {
            center: PointLps::new(20.0, 20.0, 20.0),
            orientation: rotation_from_vector(Vector3::new(0.0, 0.0, std::f64::consts::FRAC_PI_2)),
            size_mm: [10.0; 3],
        };
        let grid = BoxGrid { points: [3, 3, 3], extent: [1.0; 3] };
        let frame = PoseFrame::new(&pose, &grid, &[level.geometry()]);
        let response = |channel, modifier| {
            f64::from(
                SteerableFeature { point: [1, 1, 1], level: 0, channel, modifier }
                    .response(&levels, &frame),
            )
        };
        let scale = f64::from(SAMPLE_SCALE);
        let close = |found: f64, expected: f64, by: f64| {
            assert!((found - expected).abs() <= by, "{found} against {expected}")
        };
        // Intensity at (20, 20, 20) is 600; the stored gradient is twice (20, 10, 0).
        close(response(Channel::Intensity, Modifier::Value), 600.0 * scale, 1.0);
        close(response(Channel::Intensity, Modifier::Square), 360_000.0, 1.0);
        close(response(Channel::Intensity, Modifier::Log), 2048.0 * 601f64.ln(), 1.0);
        close(response(Channel::GradientI, Modifier::Value), 40.0 * scale, 1.0);
        // The first box axis is +y, the second −x.
        close(response(Channel::Along0, Modifier::Value), 20.0 * scale, 1.0);
        close(response(Channel::Along1, Modifier::Value), -40.0 * scale, 1.0);
        close(response(Channel::Along1, Modifier::Absolute), 40.0 * scale, 1.0);
        close(response(Channel::Magnitude, Modifier::Value), 2000f64.sqrt() * scale, 1.0);
        close(response(Channel::Across0, Modifier::Value), 40.0 * scale, 2.0);
        close(
            response(Channel::Angle0, Modifier::Value),
            (20.0 / 2000f64.sqrt()).acos() / std::f64::consts::PI * 4095.0 * scale,
            20.0,
        );
        close(response(Channel::Angle2, Modifier::Value), 0.5 * 4095.0 * scale, 10.0);
    }
}
