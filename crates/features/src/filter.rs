//! The channels of a voxel: the image and what filters make of it.

use serde::{Deserialize, Serialize};

/// Values of channels are 12 bits, as intensities are, so that sums over boxes stay exact.
pub const MAX_CHANNEL: u16 = 4095;

/// The value of a signed channel where there is nothing: differences of means do not see it.
pub const CHANNEL_ZERO: u16 = 2048;

/// Fractional bits that a Gaussian keeps beyond the 12 of an intensity, from pass to pass.
pub const SMOOTH_BITS: u32 = 4;

/// A channel of the working image. A new one is a variant here and its formula in the backends; forests
/// know channels by number only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "filter", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Filter {
    /// The intensity itself.
    Intensity,
    /// Half the difference of the neighbours along an axis of the grid (0, 1, 2), plus
    /// [`CHANNEL_ZERO`].
    Gradient {
        /// The axis.
        axis: u8,
    },
    /// Half the length of the vector of differences of neighbours.
    GradientMagnitude,
    /// A Gaussian, cut off at three standard deviations.
    Gaussian {
        /// Its standard deviation, mm.
        sigma_mm: f64,
    },
    /// The Laplacian of a Gaussian, times twice its variance in voxels, plus [`CHANNEL_ZERO`].
    Laplacian {
        /// The standard deviation, mm.
        sigma_mm: f64,
    },
    /// The mean over a cube about the voxel, as far as it lies in the image.
    LocalMean {
        /// Half the cube's edge, mm, rounded up to voxels.
        radius_mm: f64,
    },
    /// Where the voxel lies between the two ends of the image along an axis of the grid (0, 1, 2).
    /// For images that are cut out about a structure.
    Place {
        /// The axis.
        axis: u8,
    },
    /// A volume of 12 bits on the image's grid that is known beforehand, as it is.
    Layer {
        /// Its number among those that come with the image.
        layer: u8,
    },
}

/// Most voxels that a filter may reach.
pub const MOST_FILTER_VOXELS: usize = 100;

impl Filter {
    /// The channels of every voxel forest unless the configuration says otherwise: intensity, local
    /// mean, gradient, and Gaussians and Laplacians at these scales, mm.
    pub fn bank(scales_mm: &[f64]) -> Vec<Self> {
        let mut bank = vec![Self::Intensity, Self::GradientMagnitude];
        bank.extend((0..3).map(|axis| Self::Gradient { axis }));
        if let Some(&radius_mm) = scales_mm.get(1).or(scales_mm.first()) {
            bank.push(Self::LocalMean { radius_mm });
        }
        bank.extend(scales_mm.iter().map(|&sigma_mm| Self::Gaussian { sigma_mm }));
        bank.extend(scales_mm.iter().map(|&sigma_mm| Self::Laplacian { sigma_mm }));
        bank
    }

    /// How many voxels of a grid of this spacing it looks away from its own.
    pub fn support(&self, spacing_mm: f64) -> usize {
        let voxels = |mm: f64| libm::ceil(mm / spacing_mm).clamp(1.0, f64::from(u16::MAX)) as usize;
        match *self {
            Self::Intensity | Self::Place { .. } | Self::Layer { .. } => 0,
            Self::Gradient { .. } | Self::GradientMagnitude => 1,
            Self::Gaussian { sigma_mm } => voxels(3.0 * sigma_mm),
            Self::Laplacian { sigma_mm } => voxels(3.0 * sigma_mm) + 1,
            Self::LocalMean { radius_mm } => voxels(radius_mm),
        }
    }

    /// Whether backends can compute it on a grid of this spacing.
    pub fn is_valid(&self, spacing_mm: f64) -> bool {
        match *self {
            Self::Gradient { axis } | Self::Place { axis } => axis < 3,
            Self::Gaussian { sigma_mm: mm }
            | Self::Laplacian { sigma_mm: mm }
            | Self::LocalMean { radius_mm: mm } => {
                mm.is_finite() && mm > 0.0 && self.support(spacing_mm) <= MOST_FILTER_VOXELS
            }
            Self::Intensity | Self::GradientMagnitude | Self::Layer { .. } => true,
        }
    }
}

/// Weights of a Gaussian with this standard deviation in voxels, in units of 2⁻¹⁶, from the middle
/// outwards; with both sides they sum to 2¹⁶.
pub fn gaussian_weights(sigma: f64) -> Vec<u32> {
    let radius = libm::ceil(3.0 * sigma).max(1.0) as usize;
    let shape = |n: usize| libm::exp(-0.5 * (n as f64 / sigma) * (n as f64 / sigma));
    let all = 1.0 + 2.0 * (1..=radius).map(shape).sum::<f64>();
    let mut weights: Vec<u32> =
        (0..=radius).map(|n| libm::round(shape(n) / all * 65536.0) as u32).collect();
    let sides: u32 = weights[1..].iter().sum();
    weights[0] = 65536 - 2 * sides;
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bank_is_that_of_the_documentation() {
        let bank = Filter::bank(&[1.0, 2.0, 4.0]);
        assert_eq!(bank.len(), 12);
        assert!(bank.contains(&Filter::LocalMean { radius_mm: 2.0 }));
        assert_eq!(bank.iter().map(|f| f.support(1.0)).max(), Some(13));
        assert_eq!(Filter::bank(&[]).len(), 5);
        let json = serde_json::to_string(&bank[6]).unwrap();
        assert_eq!(json, r#"{"filter":"gaussian","sigma_mm":1.0}"#);
    }

    #[test]
    fn weights_sum_to_one() {
        for sigma in [0.3, 0.5, 1.0, 2.7, 30.0] {
            let weights = gaussian_weights(sigma);
            assert_eq!(weights[0] + 2 * weights[1..].iter().sum::<u32>(), 1 << 16);
            assert!(weights.is_sorted_by(|a, b| a >= b), "{sigma}");
        }
    }

    #[test]
    fn what_nobody_can_compute_is_not_valid() {
        assert!(Filter::bank(&[1.0, 2.0, 4.0]).iter().all(|f| f.is_valid(1.0)));
        for filter in [
            Filter::Gradient { axis: 3 },
            Filter::Gaussian { sigma_mm: f64::NAN },
            Filter::Gaussian { sigma_mm: 0.0 },
            Filter::Laplacian { sigma_mm: 1e9 },
            Filter::LocalMean { radius_mm: -1.0 },
        ] {
            assert!(!filter.is_valid(1.0), "{filter:?}");
        }
    }
}
