//! The working grid of an image: 12 bits, cubes as far as slices are not thick, a pyramid.

use crate::DetectError;
use pbt_volume::{
    Geometry, IntensityPolicy, Padding, Plane, Pose, Pyramid, Quantised, RealVolume, SLAB,
    VoxelIndex, check_memory, next_level, resample, working_geometry,
};
use serde::{Deserialize, Serialize};

/// How an image becomes a working pyramid. Part of the model: training and detection use the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkingSpec {
    /// Spacing of the finest level, mm. Across slices that have six times this thickness or more it is
    /// larger ([`working_geometry`]), at most that of the coarsest level, whose voxels are cubes.
    pub spacing_mm: f64,
    /// Number of levels; each has twice the spacing of the one before, except across thick slices.
    pub levels: usize,
    /// What lies outside the image.
    pub padding: Padding,
    /// How intensities become 12 bits; of an image of several channels those of the first.
    pub intensity: IntensityPolicy,
    /// The channels of an image in their order, where there are several; else none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub channels: Vec<ChannelSpec>,
}

/// A channel of an image of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelSpec {
    /// Its name in the data set.
    pub name: String,
    /// How its intensities become 12 bits.
    pub intensity: IntensityPolicy,
}

/// The largest working volume, voxels, whatever the memory: an image larger than this at the working
/// spacing has a wrong header.
const MOST_VOXELS: f64 = 512.0 * 1024.0 * 1024.0;

/// Most voxels along an axis.
const MOST_ACROSS: usize = 65_000;

impl WorkingSpec {
    /// Whether patches must be brought to one mean and deviation: intensities have no absolute
    /// scale, in one channel at least.
    pub(crate) fn is_relative(&self) -> bool {
        let relative = |policy| !matches!(policy, &IntensityPolicy::Window { .. });
        relative(&self.intensity) || self.channels.iter().any(|c| relative(&c.intensity))
    }

    /// How the intensities of each channel become 12 bits.
    pub(crate) fn intensities(&self) -> Vec<IntensityPolicy> {
        match &self.channels[..] {
            [] => vec![self.intensity],
            several => several.iter().map(|channel| channel.intensity).collect(),
        }
    }

    /// Number of channels of an image.
    pub fn channel_count(&self) -> usize {
        self.channels.len().max(1)
    }

    /// Place of a channel of a level in [`Pyramid::volumes`], which is how features and patches
    /// number what they see.
    pub(crate) fn volume(&self, level: usize, channel: usize) -> usize {
        level * self.channel_count() + channel
    }

    /// Level and channel of a place in [`Pyramid::volumes`].
    pub fn level_and_channel(&self, volume: u8) -> (usize, usize) {
        let count = self.channel_count();
        (usize::from(volume) / count, usize::from(volume) % count)
    }

    /// Places of all channels of all levels.
    pub(crate) fn volumes(&self) -> Vec<usize> {
        (0..self.levels * self.channel_count()).collect()
    }

    /// Places of all channels of these levels, level after level.
    pub(crate) fn volumes_of(&self, levels: &[u8]) -> Vec<u8> {
        let count = self.channel_count() as u8;
        levels.iter().flat_map(|&level| (0..count).map(move |c| level * count + c)).collect()
    }

    /// The working pyramid of an image, from its channels. Those after the first are brought to the
    /// working grid of the first, whatever their own.
    ///
    /// # Errors
    /// [`DetectError::Image`] when a channel is constant or without finite voxels, or when the
    /// working grid would be absurdly large.
    ///
    /// # Panics
    /// When there are not as many channels as the model has: a programming error, callers check
    /// before.
    pub fn pyramid(&self, channels: &[RealVolume]) -> Result<Pyramid, DetectError> {
        self.pyramid_on(channels, &self.grids(channels[0].geometry())?[0])
    }

    /// Whether a volume is the same on the finest level of both, unless slices are very thick
    /// ([`WorkingSpec::has_finest`]).
    pub(crate) fn is_same_grid(&self, other: &Self) -> bool {
        Self { levels: other.levels, ..self.clone() } == *other
    }

    /// Whether the finest level of a pyramid of this image is what it is here: where slices are thicker
    /// than the coarsest level of one of two specs, the finest grids of both differ.
    pub(crate) fn has_finest(&self, image: &Geometry, pyramid: &Pyramid) -> bool {
        let Ok(grids) = self.grids(image) else { return false };
        let (one, other) = (grids[0].spacing_mm(), pyramid.geometry(0).spacing_mm());
        (0..3).all(|a| (one[a] / other[a] - 1.0).abs() < 0.1)
    }

    /// Whether intensities become the same 12 bits by both.
    pub(crate) fn has_same_intensities(&self, other: &Self) -> bool {
        self.intensity == other.intensity && self.channels == other.channels
    }

    /// The working grids over all of an image, finest level first.
    ///
    /// # Errors
    /// [`DetectError::Image`] where the spacing is absurd.
    pub(crate) fn grids(&self, image: &Geometry) -> Result<Vec<Geometry>, DetectError> {
        working_grids(image, self.spacing_mm, self.levels)
    }

    /// The part of the working pyramid that holds these boxes, or the nearest voxels where they lie
    /// outside; its voxels are those of the whole.
    ///
    /// # Errors
    /// Those of [`WorkingSpec::pyramid`].
    pub(crate) fn pyramid_of(
        &self,
        channels: &[RealVolume],
        boxes: &[Pose],
    ) -> Result<Pyramid, DetectError> {
        let levels = self.grids(channels[0].geometry())?;
        let (whole, coarsest) = (&levels[0], &levels[self.levels - 1]);
        // Blocks of voxels that are one on the coarsest level.
        let block: [usize; 3] = std::array::from_fn(|a| {
            libm::round(coarsest.spacing_mm()[a] / whole.spacing_mm()[a]) as usize
        });
        let corners: Vec<VoxelIndex> =
            boxes.iter().flat_map(Pose::corners).map(|corner| whole.to_index(corner)).collect();
        let ends = [0, 1, 2].map(|a| {
            let last = (whole.shape()[a] - 1) as f64;
            let places = || corners.iter().map(|corner| corner.0[a].clamp(0.0, last));
            let low = places().fold(last, f64::min) as usize / block[a] * block[a];
            let high = (places().fold(0.0, f64::max).ceil() as usize / block[a] + 1) * block[a];
            (low, high.min(whole.shape()[a]) - low)
        });
        let part = whole.part(ends.map(|(low, _)| low), ends.map(|(_, count)| count));
        self.pyramid_on(channels, &part)
    }

    fn pyramid_on(&self, channels: &[RealVolume], grid: &Geometry) -> Result<Pyramid, DetectError> {
        assert_eq!(channels.len(), self.channel_count(), "channels that the model does not have");
        check_size(grid.shape(), self.spacing_mm)?;
        let largest = channels.iter().map(RealVolume::geometry).max_by_key(|grid| grid.len());
        let bytes =
            largest.map_or(0, |largest| working_bytes(largest, grid.shape(), channels.len()));
        check_memory(bytes)
            .map_err(|e| DetectError::image("memory", format!("{e} ({MORE_MEMORY})")))?;
        let on_grid = |(n, channel): (usize, &RealVolume)| {
            Ok(resample(&self.quantised(n, channel)?, grid, self.padding))
        };
        let finest =
            channels.iter().enumerate().map(on_grid).collect::<Result<_, DetectError>>()?;
        Ok(Pyramid::of_channels(finest, self.levels))
    }

    /// A channel in 12 bits, on its own grid.
    ///
    /// # Errors
    /// [`DetectError::Image`] when it is constant or without finite voxels.
    pub(crate) fn quantised<'a>(
        &self,
        number: usize,
        channel: &'a RealVolume,
    ) -> Result<Quantised<'a>, DetectError> {
        let own = self.channels.get(number);
        let policy = own.map_or(&self.intensity, |own| &own.intensity);
        let range = policy.range(channel).map_err(|e| match own {
            Some(own) => DetectError::image("voxels", format!("channel `{}`: {e}", own.name)),
            None => DetectError::image("voxels", e.to_string()),
        })?;
        Ok(range.of(channel))
    }
}

/// What helps where memory is short.
pub(crate) const MORE_MEMORY: &str = "crop or downsample the image, or allow more with --memory";

/// The most bytes that [`WorkingSpec::pyramid`] holds at a time, for channels of so many voxels and
/// a finest level of this shape: a slab in 12 bits (a sheared image is one), and two steps of its
/// resampling of which each is as large as the slab or the result, then the result and the coarser levels;
/// of further channels the result.
pub(crate) fn working_bytes(image: &Geometry, finest: [usize; 3], channels: usize) -> u64 {
    let slab = if is_sheared(image) { image.len() } else { image.len().min(SLAB) } as u64;
    let image = image.len().max(1) as u64;
    let finest = finest.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64));
    let further = finest.saturating_mul(2 * (channels as u64 - 1));
    // Where the working grid is finer, a slab grows.
    let grown = slab.max(finest.saturating_mul(slab) / image);
    let slab = grown.saturating_mul(6);
    // The coarser levels are a seventh. Across thick slices they are more, and take what the slab has
    // given back.
    let result = finest.saturating_mul(2).saturating_add(finest / 3);
    slab.saturating_add(result).saturating_add(further)
}

/// Whether the working grid, whose axes are at right angles, is not parallel to the image's: then the
/// image is resampled as a whole.
fn is_sheared(image: &Geometry) -> bool {
    let [i, j, k] = [0, 1, 2].map(|a| image.matrix().column(a).normalize());
    [i.dot(&j), j.dot(&k), k.dot(&i)].iter().any(|cosine| cosine.abs() > 1e-7)
}

/// The working grids over all of an image, finest level first; on the coarsest voxels are cubes. A
/// model file may say anything of the spacing; there is one level at least.
pub(crate) fn working_grids(
    image: &Geometry,
    spacing_mm: f64,
    levels: usize,
) -> Result<Vec<Geometry>, DetectError> {
    if !(1e-6..=1e6).contains(&spacing_mm) {
        return Err(DetectError::image(
            "spacing",
            format!("the model's working spacing of {} mm is absurd", spacing_mm as f32),
        ));
    }
    let finest = working_geometry(image, spacing_mm, levels - 1);
    Ok(std::iter::successors(Some(finest), |grid| Some(next_level(grid))).take(levels).collect())
}

/// Refuses a working grid that only a wrong header can ask for.
pub(crate) fn check_size(shape: [usize; 3], spacing_mm: f64) -> Result<(), DetectError> {
    if shape.iter().map(|&n| n as f64).product::<f64>() > MOST_VOXELS
        || shape.iter().any(|&n| n > MOST_ACROSS)
    {
        return Err(DetectError::image(
            "spacing",
            format!(
                "the image covers {} x {} x {} voxels of the model's {} mm (check the spacing in the header)",
                shape[0], shape[1], shape[2], spacing_mm as f32
            ),
        ));
    }
    Ok(())
}

/// All that can be wrong with the grid of an image, told without its voxels: its working pyramid
/// would be too large, or a level of it narrower than the reach of the features, in voxels. Else the
/// grids of the levels, finest first.
pub(crate) fn check_grid(
    image: &Geometry,
    (spacing_mm, levels): (f64, usize),
    level: usize,
    (radius, flat): (usize, bool),
) -> Result<Vec<Geometry>, DetectError> {
    let plane = check_slices(image, flat)?;
    let image = plane.as_ref().map_or(image, Plane::geometry);
    let levels = working_grids(image, spacing_mm, levels)?;
    check_size(levels[0].shape(), spacing_mm)?;
    check_window(levels[level].shape(), (radius, flat), levels[level].spacing_mm()[0])?;
    Ok(levels)
}

/// The plane of an image of one slice, where the model is of such images; a volume where it is of
/// volumes.
pub(crate) fn check_slices(image: &Geometry, flat: bool) -> Result<Option<Plane>, DetectError> {
    let [i, j, k] = image.shape();
    match (Plane::of(image), flat) {
        (Some(plane), true) => Ok(Some(plane)),
        (None, false) => Ok(None),
        (Some(_), false) => {
            let what = format!(
                "the image is 2D ({i} x {j} x {k} voxels), and the model is of volumes (give a volume)"
            );
            Err(DetectError::image("shape", what))
        }
        (None, true) => {
            let what = format!(
                "the image has {i} x {j} x {k} voxels, and the model is of 2D images (give a single slice)"
            );
            Err(DetectError::image("shape", what))
        }
    }
}

/// The features reach about as far as the structure is long. An image that is narrower than a quarter of
/// that, or smaller than a cube of half of it, holds little of it, and shows them mostly padding; across an
/// image of one slice they see the same everywhere.
pub(crate) fn check_window(
    shape: [usize; 3],
    (radius, flat): (usize, bool),
    spacing_mm: f64,
) -> Result<(), DetectError> {
    let axes = if flat { 2 } else { 3 };
    let shape = &shape[..axes as usize];
    let is_narrow = shape.iter().any(|&s| 4 * s < radius);
    let voxels = shape.iter().map(|&s| 2 * s as u64).fold(1, u64::saturating_mul);
    let is_small = voxels < (radius as u64).pow(axes);
    if is_narrow || is_small {
        let across = shape.iter().map(|&s| format!("{:.0}", s as f64 * spacing_mm));
        let across = across.collect::<Vec<String>>().join(" x ");
        // Of a 2D image without a scale these are pixels.
        let unit = if flat { "mm or pixels" } else { "mm" };
        let reach = radius as f64 * spacing_mm;
        let what = format!(
            "the image is {across} {unit} without plain borders, and features reach {reach:.0} about a place (give an image with more about the structure)"
        );
        return Err(DetectError::image("shape", what));
    }
    Ok(())
}

/// A level of a pyramid, by the number of voxels that the structure should have across there.
pub(crate) fn level_for(scale_mm: f64, finest_mm: f64, voxels_across: f64) -> usize {
    libm::round(libm::log2(scale_mm / voxels_across / finest_mm)).clamp(0.0, 6.0) as usize
}
