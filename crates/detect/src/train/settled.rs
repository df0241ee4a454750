//! What is settled before a training, and what trainings that hold cases out take over.

use crate::model::Model;
use pbt_volume::IntensityPolicy;

/// What all cases of a group of structures say of it.
#[derive(Clone, Copy)]
pub(super) struct Settled<'a> {
    /// How intensities become 12 bits, by channel.
    pub(super) intensities: &'a [IntensityPolicy],
    /// By structure, the first that is about as large, or itself. Copies of cases have no say in it.
    pub(super) alike_in_size: &'a [usize],
    /// By structure, the first that it looks like, or itself; it is about as large.
    pub(super) look_alikes: &'a [usize],
    /// The model of all cases, where some are held out.
    pub(super) whole: Option<&'a Model>,
}
