//! The working images of a training: in memory as far as they fit, else read again.

use crate::DetectError;
use crate::segment::data::RegionData;
use crate::segment::matrix::{Images, Use};
use crate::segment::region_forest::working_image;
use pbt_volume::{IntensityPolicy, Volume};

/// Images by number: those of all cases, then their mirrored copies.
pub(super) struct CaseImages<'a, D> {
    data: &'a D,
    intensity: &'a IntensityPolicy,
    spacing_mm: f64,
    kept: Vec<Option<Volume<u16>>>,
    bytes_left: u64,
}

impl<'a, D: RegionData> CaseImages<'a, D> {
    /// No image yet; at most so many bytes of them will be kept.
    ///
    /// Every image is wanted in turn, and then again: whatever is dropped for the next one would be
    /// read again, so the first ones stay.
    pub(super) fn new(
        data: &'a D,
        intensity: &'a IntensityPolicy,
        spacing_mm: f64,
        bytes: u64,
    ) -> Self {
        Self { data, intensity, spacing_mm, kept: Vec::new(), bytes_left: bytes }
    }

    /// The working image of the next case.
    pub(super) fn push(&mut self, image: Volume<u16>) {
        let bytes = 2 * image.data().len() as u64;
        let fits = bytes <= self.bytes_left;
        self.bytes_left -= if fits { bytes } else { 0 };
        self.kept.push(fits.then_some(image));
    }
}

impl<D: RegionData> Images for CaseImages<'_, D> {
    type Error = D::Error;

    fn lend(&self, image: usize, then: &mut Use<'_>) -> Result<(), D::Error> {
        let (case, is_mirrored) = (image % self.kept.len(), image >= self.kept.len());
        let read;
        let image = match &self.kept[case] {
            Some(kept) => kept,
            None => {
                let image = self.data.load(case)?.image;
                read = working_image(&image, self.intensity, self.spacing_mm).map_err(|e| {
                    DetectError::training(
                        format!("case {}", self.data.list().id(case)),
                        e.to_string(),
                    )
                })?;
                &read
            }
        };
        Ok(if is_mirrored { then((&mirrored(image)).into()) } else { then(image.into()) }?)
    }
}

/// The same image with its first axis, which runs to the left, the other way round.
fn mirrored(image: &Volume<u16>) -> Volume<u16> {
    let last = image.shape()[0] - 1;
    Volume::from_fn(image.geometry().clone(), |i, j, k| image.at(last - i, j, k))
}
