//! What features say at the voxels that are learned from.

use crate::DetectError;
use crate::segment::blocks::blocks;
use pbt_features::BoxMeanFeature;
use pbt_tree::{
    Block, ChannelBank, DeviceError, Edges, LabelBackend, LabelMatrix, Layered, MISSING_BIN,
};
use pbt_volume::check_memory;
use rayon::prelude::*;
use std::ops::Range;

/// Images and voxels whose responses the thresholds are drawn from.
const EDGE_IMAGES: usize = 32;
const EDGE_SAMPLES: usize = 4096;

/// Bytes of responses or bins of a sample that are in memory at a time, beside the matrix.
const BYTES_A_SAMPLE: usize = 512;

/// Voxels of an image that are learned from, and their classes.
#[derive(Clone, Copy)]
pub(crate) struct Sampled<'a> {
    pub(crate) voxels: &'a [[usize; 3]],
    pub(crate) classes: &'a [u8],
}

/// What is done with an image.
pub(crate) type Use<'a> = dyn FnMut(Layered<'_>) -> Result<(), DetectError> + 'a;

/// Lends images one at a time, by number: those that do not fit in memory come when they are asked
/// for.
pub(crate) trait Images {
    /// What can go wrong on reading.
    type Error: From<DetectError>;

    /// Lends an image.
    ///
    /// # Errors
    /// Whatever the reader says, and what was done with the image.
    fn lend(&self, image: usize, then: &mut Use<'_>) -> Result<(), Self::Error>;
}

/// Images that are all in memory.
pub(crate) struct InMemory<'a>(pub(crate) &'a [Layered<'a>]);

impl Images for InMemory<'_> {
    type Error = DetectError;

    fn lend(&self, image: usize, then: &mut Use<'_>) -> Result<(), DetectError> {
        then(self.0[image])
    }
}

/// Bins of all features at the samples of all images, image after image. `tick` is told the share
/// that is done, and may end it.
///
/// # Errors
/// [`DetectError`] where the memory does not suffice, the device fails, or `tick` ends it; and what
/// comes of an image that is read.
pub(crate) fn matrix<B: LabelBackend, I: Images>(
    backend: &B,
    (images, lent): (&[Sampled<'_>], &I),
    bank: &ChannelBank,
    features: &[BoxMeanFeature],
    classes: usize,
    mut tick: impl FnMut(f64) -> Result<(), DetectError>,
) -> Result<LabelMatrix, I::Error> {
    let labels: Vec<u8> = images.iter().flat_map(|image| image.classes.iter().copied()).collect();
    let bytes = labels.len() as u64 * features.len() as u64;
    check_memory(bytes).map_err(|e| {
        let what = format!("{e} (lower the number of samples or features)");
        DetectError::training("memory", what)
    })?;
    let edges = edges(backend, (images, lent), bank, features)?;
    let mut bins = vec![MISSING_BIN; labels.len() * features.len()];
    let mut first = 0;
    for (n, image) in images.iter().enumerate() {
        tick(n as f64 / images.len() as f64)?;
        let all: Vec<usize> = (0..image.voxels.len()).collect();
        let evaluate =
            |channels: &B::Channels, part: Range<usize>, at: &[[usize; 3]], out: &mut [u8]| {
                backend.bins(channels, &features[part.clone()], &edges[part], at, out)
            };
        let mut take = |from: usize, places: &[usize], found: &[u8]| {
            let rows = bins[from * labels.len()..].par_chunks_mut(labels.len());
            rows.zip(found.par_chunks(places.len())).for_each(|(row, found)| {
                for (&place, &bin) in places.iter().zip(found) {
                    row[first + place] = bin;
                }
            });
        };
        lent.lend(n, &mut |layered| {
            let of = (layered, image.voxels);
            by_block(backend, of, &all, bank, features.len(), evaluate, &mut take)
        })?;
        first += image.voxels.len();
    }
    Ok(LabelMatrix::new(classes, labels, edges, bins))
}

/// Thresholds of all features, from responses at some samples of some images.
fn edges<B: LabelBackend, I: Images>(
    backend: &B,
    (images, lent): (&[Sampled<'_>], &I),
    bank: &ChannelBank,
    features: &[BoxMeanFeature],
) -> Result<Vec<Edges>, I::Error> {
    let used: Vec<(usize, &Sampled<'_>)> =
        images.iter().enumerate().step_by(images.len().div_ceil(EDGE_IMAGES)).collect();
    let each = EDGE_SAMPLES.div_ceil(used.len());
    let mut all: Vec<Vec<i64>> = vec![Vec::new(); features.len()];
    for (n, image) in used {
        let count = image.voxels.len();
        let step = count.div_ceil(each).max(1);
        let some: Vec<usize> = (0..count).step_by(step).collect();
        let evaluate =
            |channels: &B::Channels, part: Range<usize>, at: &[[usize; 3]], out: &mut [i64]| {
                backend.respond(channels, &features[part], at, out)
            };
        let mut take = |from: usize, places: &[usize], responses: &[i64]| {
            for (all, responses) in all[from..].iter_mut().zip(responses.chunks(places.len())) {
                all.extend(responses);
            }
        };
        lent.lend(n, &mut |layered| {
            let of = (layered, image.voxels);
            by_block(backend, of, &some, bank, features.len(), evaluate, &mut take)
        })?;
    }
    Ok(all.into_par_iter().map(Edges::of_responses).collect())
}

/// Hands out what features are at some samples of an image: the first feature of a part, the samples
/// of a block, and `[feature][sample]` as `evaluate` writes it.
fn by_block<B: LabelBackend, T: Copy + Default>(
    backend: &B,
    (image, voxels): (Layered<'_>, &[[usize; 3]]),
    samples: &[usize],
    bank: &ChannelBank,
    features: usize,
    evaluate: impl Fn(&B::Channels, Range<usize>, &[[usize; 3]], &mut [T]) -> Result<(), DeviceError>,
    take: &mut impl FnMut(usize, &[usize], &[T]),
) -> Result<(), DetectError> {
    let at_a_time = BYTES_A_SAMPLE / size_of::<T>();
    for block in blocks(image.image.shape(), backend.block_edge(bank, 2)) {
        let inside =
            |b: &Block, v: [usize; 3]| (0..3).all(|a| (b.min[a]..b.max[a]).contains(&v[a]));
        let places: Vec<usize> =
            samples.iter().copied().filter(|&s| inside(&block, voxels[s])).collect();
        if places.is_empty() {
            continue;
        }
        let channels = backend.channels(image, bank, &block)?;
        let at: Vec<[usize; 3]> = places.iter().map(|&s| voxels[s]).collect();
        let mut found = vec![T::default(); at_a_time.min(features) * at.len()];
        for first in (0..features).step_by(at_a_time) {
            let part = first..(first + at_a_time).min(features);
            let found = &mut found[..part.len() * at.len()];
            evaluate(&channels, part, &at, found)?;
            take(first, &places, found);
        }
    }
    Ok(())
}
