//! Whether an image has the channels that a model was trained on.

use crate::DetectError;
use crate::working::spec::ChannelSpec;
use pbt_volume::{Plane, RealVolume};

/// Refuses an image that has other channels than the model, or one of a plane whose channels lie on
/// different grids.
pub(crate) fn check_channels(
    wanted: &[ChannelSpec],
    channels: &[RealVolume],
) -> Result<(), DetectError> {
    let count = wanted.len().max(1);
    let names = || wanted.iter().map(|c| format!("`{}`", c.name)).collect::<Vec<_>>().join(", ");
    if let Some(lacking) = wanted.get(channels.len()) {
        let what = format!(
            "`{}` is missing: the image has {} of the model's {count} channels, {} (give all of them)",
            lacking.name,
            channels.len(),
            names()
        );
        return Err(DetectError::image("channel", what));
    }
    if channels.len() > count {
        let needs =
            if wanted.is_empty() { "one".to_owned() } else { format!("{count}, {}", names()) };
        let what = format!(
            "the image has {} channels, and the model needs {needs} (give no others)",
            channels.len()
        );
        return Err(DetectError::image("channel", what));
    }
    let Some(first) = channels.first() else {
        return Err(DetectError::image("channel", "the image has no channel"));
    };
    let other = channels.iter().position(|channel| channel.geometry() != first.geometry());
    match other {
        Some(n) if channels.iter().any(|channel| Plane::of(channel.geometry()).is_some()) => {
            let what = format!(
                "`{}` of a 2D image lies on another grid than the first (bring it to the same pixels)",
                wanted[n].name
            );
            Err(DetectError::image("channel", what))
        }
        _ => Ok(()),
    }
}
