//! Differences of two box means: what voxel forests ask of a voxel (Sharp 2008; Schulz et al. 2015,
//! CURFIL).

use crate::filter::MAX_CHANNEL;
use pbt_volume::Random;

/// The response where a box reaches outside the image: every test is false there.
pub const MISSING: i64 = i64::MIN;

/// No box reaches farther from its voxel, in voxels.
pub const MOST_BOX_REACH: i16 = 255;

/// No edge of a box is longer, in voxels: sums of 2¹⁸ voxels of 12 bits stay below 2³⁰.
pub const MOST_BOX_EDGE: u16 = 64;

/// A cuboid about a voxel, in one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeanBox {
    /// Lower corner relative to the voxel, voxels of the working grid.
    pub min: [i16; 3],
    /// Voxels along i, j, k, at least 1.
    pub size: [u16; 3],
    /// Number of the channel.
    pub channel: u8,
}

impl MeanBox {
    /// Number of voxels.
    pub fn voxels(&self) -> i64 {
        self.size.iter().map(|&n| i64::from(n)).product()
    }

    /// Voxels from the own voxel to the farthest one, along each axis towards either end: at most
    /// `[below, above]`, both ≥ 0.
    fn reach(&self, axis: usize) -> [i32; 2] {
        let min = i32::from(self.min[axis]);
        let last = min + i32::from(self.size[axis]) - 1;
        [(-min).max(0), last.max(0)]
    }

    fn is_valid(&self, channels: usize) -> bool {
        let most = i32::from(MOST_BOX_REACH);
        usize::from(self.channel) < channels
            && self.size.iter().all(|n| (1..=MOST_BOX_EDGE).contains(n))
            && (0..3).all(|a| self.min[a] >= -MOST_BOX_REACH && self.reach(a)[1] <= most)
            && (0..3).all(|a| self.min[a] <= MOST_BOX_REACH)
    }
}

/// The mean of a box less that of another, or the mean of one box. The response is exact:
/// S₁·n₂ − S₂·n₁ of the boxes' sums and numbers of voxels, which orders as the difference of means
/// does; S₁ where there is no second box. [`MISSING`] where a box reaches outside the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoxMeanFeature {
    /// The first box.
    pub first: MeanBox,
    /// What is subtracted.
    pub second: Option<MeanBox>,
}

impl BoxMeanFeature {
    /// The largest value that a response can have, and minus the smallest: below 2⁴⁹.
    pub fn most_response(&self) -> i64 {
        let all = self.first.voxels() * self.second.map_or(1, |second| second.voxels());
        all * i64::from(MAX_CHANNEL)
    }

    /// Voxels that it looks away from its own.
    pub fn reach(&self) -> usize {
        let boxes = [Some(self.first), self.second].into_iter().flatten();
        let reaches = boxes.flat_map(|b| (0..3).flat_map(move |axis| b.reach(axis)));
        reaches.max().unwrap_or(0) as usize
    }

    /// Whether its boxes and channels are within what backends compute exactly.
    pub fn is_valid(&self, channels: usize) -> bool {
        self.first.is_valid(channels) && self.second.is_none_or(|second| second.is_valid(channels))
    }
}

/// How features are drawn; lengths in voxels of the working grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxMeanPool {
    /// Boxes' middles lie up to so far from the voxel.
    pub radius: f64,
    /// Longest edge of a box.
    pub edge: f64,
    /// Number of channels.
    pub channels: usize,
}

/// Of all features, those of one box.
const ONE_BOX: f64 = 0.25;
/// Of all, those whose first box lies about the voxel itself.
const CENTRED: f64 = 0.4;
/// Of two boxes, those in one channel: values of different channels have different units.
const SAME_CHANNEL: f64 = 0.75;
/// Edges of one box differ by this factor at most, up or down, natural logarithm.
const UNEVEN: f64 = 0.4;

impl BoxMeanPool {
    /// So many features: first the voxel itself in each channel, then random ones.
    pub fn features(&self, count: usize, random: &mut Random) -> Vec<BoxMeanFeature> {
        let own = (0..self.channels.min(count)).map(|channel| {
            let first = MeanBox { min: [0; 3], size: [1; 3], channel: channel as u8 };
            BoxMeanFeature { first, second: None }
        });
        let mut features: Vec<BoxMeanFeature> = own.collect();
        features.resize_with(count, || self.draw(random));
        features
    }

    /// A random feature. Distances are uniform between 0 and the radius, so that boxes are dense
    /// about the voxel; edges are uniform in the logarithm. In a plane all boxes lie in it.
    fn draw(&self, random: &mut Random) -> BoxMeanFeature {
        let one = random.uniform() < ONE_BOX;
        let centred = random.uniform() < CENTRED;
        let first = self.draw_box(random, centred);
        let second = (!one).then(|| {
            let second = self.draw_box(random, false);
            let same = random.uniform() < SAME_CHANNEL;
            MeanBox { channel: if same { first.channel } else { second.channel }, ..second }
        });
        BoxMeanFeature { first, second: second.filter(|second| *second != first) }
    }

    fn draw_box(&self, random: &mut Random, centred: bool) -> MeanBox {
        let channel = random.below(self.channels) as u8;
        let distance = if centred { 0.0 } else { self.radius * random.uniform() };
        let middle = random.direction() * distance;
        let longest = self.edge.clamp(1.0, f64::from(MOST_BOX_EDGE));
        let log_edge = random.between(0.0, libm::log(longest + 0.49));
        let (mut min, mut size) = ([0; 3], [1; 3]);
        for a in 0..3 {
            let edge = libm::round(libm::exp(log_edge + random.between(-UNEVEN, UNEVEN)));
            let edge = edge.clamp(1.0, f64::from(MOST_BOX_EDGE));
            let most = f64::from(MOST_BOX_REACH);
            let low = libm::round(middle[a] - (edge - 1.0) / 2.0);
            min[a] = low.clamp(-most, most - edge) as i16;
            size[a] = edge as u16;
        }
        if random.is_in_plane() {
            (min[2], size[2]) = (0, 1);
        }
        MeanBox { min, size, channel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_drawn_can_be_computed(
            seed in any::<u64>(), radius in 0.0f64..400.0, edge in 0.5f64..200.0, channels in 1usize..20,
        ) {
            let mut random = Random::from_seed(seed);
            let pool = BoxMeanPool { radius, edge, channels };
            let features = pool.features(50, &mut random);
            prop_assert_eq!(features.len(), 50);
            for feature in features {
                prop_assert!(feature.is_valid(channels), "{feature:?}");
                prop_assert!(feature.reach() <= MOST_BOX_REACH as usize);
                prop_assert!(feature.most_response() < 1 << 49);
            }
        }
    }

    #[test]
    fn reach_is_that_of_the_farthest_voxel() {
        let near = MeanBox { min: [-1; 3], size: [3; 3], channel: 0 };
        let far = MeanBox { min: [-7, 2, 0], size: [2, 5, 1], channel: 0 };
        let feature = |second| BoxMeanFeature { first: near, second };
        assert_eq!(feature(None).reach(), 1);
        assert_eq!(feature(Some(far)).reach(), 7);
        assert!(feature(Some(far)).is_valid(1));
        for wrong in [
            MeanBox { channel: 1, ..far },
            MeanBox { size: [0, 1, 1], ..far },
            MeanBox { size: [65, 1, 1], ..far },
            MeanBox { min: [-256, 0, 0], ..far },
            MeanBox { min: [250, 0, 0], size: [7, 1, 1], ..far },
        ] {
            assert!(!feature(Some(wrong)).is_valid(1), "{wrong:?}");
        }
    }
}
