//! What can go wrong in training and detection.

use pbt_tree::{DeviceError, TrainError};

/// An error of this crate; the shells add the file's name.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// The image cannot be used.
    #[error("{field}: {what}")]
    Image {
        /// Which property of the image.
        field: &'static str,
        /// What is wrong and what to do.
        what: String,
    },
    /// The training data cannot be used.
    #[error("{field}: {what}")]
    Training {
        /// Which property of the data set.
        field: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// The configuration cannot be used.
    #[error("{field}: {what}")]
    Config {
        /// Which key.
        field: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// The model file cannot be used.
    #[error("{field}: {what}")]
    Model {
        /// Which part of the file.
        field: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// A checkpoint or a temporary file could not be kept.
    #[error("{0}")]
    Output(String),
    /// The device failed at work.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl DetectError {
    pub(crate) fn image(field: &'static str, what: impl Into<String>) -> Self {
        Self::Image { field, what: what.into() }
    }

    pub(crate) fn training(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Training { field: field.into(), what: what.into() }
    }

    /// Why trees cannot be trained; a device that fails is no fault of `field`.
    pub(crate) fn of_trees(field: &str, error: TrainError) -> Self {
        match error {
            TrainError::Device(error) => error.into(),
            error => Self::training(field, error.to_string()),
        }
    }

    pub(crate) fn config(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Config { field: field.into(), what: what.into() }
    }

    pub(crate) fn model(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Model { field: field.into(), what: what.into() }
    }
}
