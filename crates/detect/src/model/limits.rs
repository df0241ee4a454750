//! Bounds on the numbers of a model file: nothing that a training can produce lies outside. A file
//! beyond them is damaged or hostile, and could ask for absurd amounts of time or memory, or say
//! that something was found far outside the image.

use crate::DetectError;
use crate::pose::prior::Prior;
use crate::pose::step::Reach;
use crate::stages::platt_scaling::Calibration;
use crate::working::spec::{ChannelSpec, WorkingSpec};
use nalgebra::Matrix3;
use pbt_features::BoxGrid;
use pbt_tree::Patch;
use pbt_volume::{IntensityPolicy, LARGEST_EDGE_MM, LabelShape, MOST_CHANNELS, SMALLEST_EDGE_MM};

/// Most levels of a pyramid.
pub(super) const MOST_LEVELS: usize = 8;

/// Most training cases.
pub(super) const MOST_CASES: usize = 10_000_000;

/// Log-odds and intercepts stay within this: ±50 is certainty to 21 digits, which no training
/// yields.
pub(super) const MOST_LOG_ODDS: f64 = 50.0;

/// Steepest slope of a calibration, or weight of evidence.
const STEEPEST: f64 = 1e4;

/// The whole extent of a mask, in extents without its tails.
const MOST_EXTENTS: f64 = 1e4;

/// Intensities in an image's own units.
const MOST_INTENSITY: f64 = 1e12;

/// Refuses a number of the part `name` that lies outside its range.
pub(super) fn within(
    name: &str,
    key: &str,
    value: f64,
    (low, high): (f64, f64),
) -> Result<(), DetectError> {
    // Written so that NaN is refused, too.
    if value >= low && value <= high {
        return Ok(());
    }
    let what = format!(
        "{key}: {value} is not between {low} and {high}; the model is damaged (train or copy it again)"
    );
    Err(DetectError::model(name, what))
}

/// Names are shown on terminals and become parts of file names.
pub(super) fn check_name(part: &str, name: &str) -> Result<(), DetectError> {
    if name.contains(char::is_control) {
        return Err(DetectError::model(part, "a name has control characters"));
    }
    Ok(())
}

/// Checks an edge length, or D, mm.
pub(super) fn check_edge(name: &str, key: &str, mm: f64) -> Result<(), DetectError> {
    within(name, key, mm, (SMALLEST_EDGE_MM, LARGEST_EDGE_MM))
}

/// Checks the mean shape of a structure's label maps.
pub(super) fn check_label_shape(structure: &str, shape: &LabelShape) -> Result<(), DetectError> {
    let name = format!("label_shapes: {structure}");
    for &value in shape.covariance.as_flattened() {
        within(&name, "covariance", value, (-1.0, 1.0))?;
    }
    let axes = Matrix3::from(shape.axes);
    let off = (axes.transpose() * axes - Matrix3::identity()).norm();
    within(&name, "axes: distance from a rotation", off, (0.0, 1e-6))?;
    within(&name, "axes: determinant", axes.determinant(), (0.0, 2.0))?;
    for a in 0..3 {
        within(&name, "reach", shape.reach[a], (0.0, MOST_EXTENTS))?;
        within(&name, "shift", shape.shift[a], (-MOST_EXTENTS, MOST_EXTENTS))?;
    }
    Ok(())
}

/// Checks how far poses may lie from each other.
pub(super) fn check_reach(name: &str, reach: &Reach) -> Result<(), DetectError> {
    let Reach { angle_rad, center_mm, log_size } = *reach;
    within(name, "angle_rad", angle_rad, (0.0, 10.0))?;
    within(name, "center_mm", center_mm, (0.0, LARGEST_EDGE_MM))?;
    within(name, "log_size", log_size, (0.0, 10.0))
}

/// Checks the curve from a classifier's output to log-odds.
pub(super) fn check_calibration(name: &str, found: &Calibration) -> Result<(), DetectError> {
    within(name, "slope", found.slope, (0.0, STEEPEST))?;
    within(name, "intercept", found.intercept, (-MOST_LOG_ODDS, MOST_LOG_ODDS))
}

/// Checks logistic weights and their intercept.
pub(super) fn check_weights(
    name: &str,
    weights: &[f64],
    intercept: f64,
) -> Result<(), DetectError> {
    for &weight in weights {
        within(name, "weights", weight, (-STEEPEST, STEEPEST))?;
    }
    within(name, "intercept", intercept, (-MOST_LOG_ODDS, MOST_LOG_ODDS))
}

/// Checks how images are prepared.
pub(super) fn check_working(name: &str, working: &WorkingSpec) -> Result<(), DetectError> {
    // The range of `working.spacing_mm`, widened by the doublings of the automatic choice.
    within(name, "spacing_mm", working.spacing_mm, (1e-4, LARGEST_EDGE_MM))?;
    within(name, "levels", working.levels as f64, (1.0, MOST_LEVELS as f64))?;
    check_intensity(name, &working.intensity)?;
    check_channels(name, &working.channels, &working.intensity)
}

/// Checks the channels of images, of which there are none where there is only one; `first` is how
/// intensities of the first become 12 bits.
pub(super) fn check_channels(
    name: &str,
    channels: &[ChannelSpec],
    first: &IntensityPolicy,
) -> Result<(), DetectError> {
    let wrong = |what: &str| Err(DetectError::model(name, format!("channels: {what}")));
    if channels.len() == 1 || channels.len() > MOST_CHANNELS {
        return wrong(&format!("there are not 2 to {MOST_CHANNELS} of them"));
    }
    for (n, channel) in channels.iter().enumerate() {
        check_name(name, &channel.name)?;
        check_intensity(name, &channel.intensity)?;
        if channels[..n].iter().any(|other| other.name == channel.name) {
            return wrong("two have one name");
        }
    }
    match channels.first() {
        Some(channel) if channel.intensity != *first => {
            wrong("the first has two intensity policies")
        }
        _ => Ok(()),
    }
}

/// How intensities become 12 bits.
pub(super) fn check_intensity(name: &str, policy: &IntensityPolicy) -> Result<(), DetectError> {
    let (low, high) = match *policy {
        IntensityPolicy::Window { low, high } => {
            within(name, "low", low, (-MOST_INTENSITY, MOST_INTENSITY))?;
            within(name, "high", high, (-MOST_INTENSITY, MOST_INTENSITY))?;
            (low, high)
        }
        IntensityPolicy::Percentiles { low_percent, high_percent } => {
            within(name, "low_percent", low_percent, (0.0, 100.0))?;
            within(name, "high_percent", high_percent, (0.0, 100.0))?;
            (low_percent, high_percent)
        }
    };
    if low < high {
        return Ok(());
    }
    Err(DetectError::model(name, "intensity: the upper end lies below the lower one"))
}

/// Checks what training poses say.
pub(super) fn check_prior(name: &str, prior: &Prior) -> Result<(), DetectError> {
    for edge in prior.mean_size_mm {
        check_edge(name, "mean_size_mm", edge)?;
    }
    let scale_mm = libm::cbrt(prior.mean_size_mm.iter().product());
    within(name, "scale_mm", prior.scale_mm, (0.999 * scale_mm, 1.001 * scale_mm))?;
    within(name, "spread_rad", prior.spread_rad, (0.0, 4.0))?;
    within(name, "log_size_spread", prior.log_size_spread, (0.0, 20.0))?;
    for offset in prior.center_offset_mm {
        within(name, "center_offset_mm", offset, (-1e6, 1e6))?;
    }
    Ok(())
}

pub(super) fn check_grid(name: &str, grid: &BoxGrid) -> Result<(), DetectError> {
    let points = grid.points.iter().all(|p| (1..=32).contains(p));
    if points && grid.extent.iter().all(|e| (0.01..=100.0).contains(e)) {
        return Ok(());
    }
    Err(DetectError::model(name, "the grid has no points, too many, or no extent"))
}

/// Checks what regression samples: its grid, and which of so many volumes of a pyramid.
pub(super) fn check_patch(name: &str, patch: &Patch, volumes: usize) -> Result<(), DetectError> {
    check_grid(name, &patch.grid)?;
    if patch.levels.is_empty()
        || patch.levels.len() > MOST_LEVELS * MOST_CHANNELS
        || patch.levels.iter().any(|&l| usize::from(l) >= volumes)
    {
        return Err(DetectError::model(name, "a pyramid level is out of range"));
    }
    Ok(())
}
