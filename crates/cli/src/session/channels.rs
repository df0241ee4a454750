//! The channels that a model needs, and those that an image has.

use crate::session::{Failure, Input, LoadedModel};
use pbt_io::ReadOptions;

/// How an image is read for a model.
pub(crate) struct Reading {
    /// With the names of the channels of the image.
    pub(crate) options: ReadOptions,
    /// Which of them the model takes, in its order.
    pub(crate) taken: Vec<usize>,
}

impl Reading {
    /// How the image of a case is read for a model: a data set names its channels, of which the model
    /// takes those of its names; other images have the model's channels in the model's order.
    ///
    /// # Errors
    /// Exit code 4 that names the first channel that the model needs and the data set does not have,
    /// or where the image has several and the model one.
    pub(crate) fn new(model: &LoadedModel, input: Input<'_>) -> Result<Self, Failure> {
        let given = &input.options.channels;
        let wanted: Vec<&String> = model.model.channels().iter().map(|c| &c.name).collect();
        let names = |all: &[&String]| {
            all.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        };
        if wanted.is_empty() {
            if let (true, Some(extra)) = (given.len() < 2, input.options.further.first()) {
                let what = "channel: is one image too many: the model has one channel (give one image; `pbt batch` takes many)";
                return Err(Failure::input(extra, what));
            }
            // Regions are labelled by the first channel.
            if given.len() > 1 && model.model.regions.is_none() {
                let what = format!(
                    "channels: the image has {}, {}, and the model has one (train a model on these channels, or list one file a case)",
                    given.len(),
                    names(&given.iter().collect::<Vec<_>>())
                );
                return Err(Failure::input(input.path, what));
            }
            return Ok(Self { options: input.options.clone(), taken: vec![0] });
        }
        if given.len() < 2 {
            let channels = wanted.iter().map(|&name| name.clone()).collect();
            let options = ReadOptions { channels, ..input.options.clone() };
            return Ok(Self { options, taken: (0..wanted.len()).collect() });
        }
        let place = |name: &&String| {
            given.iter().position(|other| other == *name).ok_or_else(|| {
                let what = format!(
                    "channel `{name}`: is missing: the data set has {} (the model needs {})",
                    names(&given.iter().collect::<Vec<_>>()),
                    names(&wanted)
                );
                Failure::input(input.path, what)
            })
        };
        let taken = wanted.iter().map(place).collect::<Result<_, Failure>>()?;
        Ok(Self { options: input.options.clone(), taken })
    }
}
