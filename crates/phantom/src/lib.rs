//! Phantoms: made volumes that look like CT, MR and ultrasound, with a structure whose pose is
//! known exactly.
//!
//! They serve the demo and every test that must run without data. Each case has its own shape (size
//! ±10 % an axis, bend, feature sizes), pose, position, neighbours of similar brightness, noise and
//! sampling grid; only the anatomy gives the pose away. No rotation maps a structure onto itself,
//! and each has a mark on one side, so that left and right differ too.
//!
//! Solids with signed distances are painted voxel by voxel. Shapes come from a ChaCha8 stream,
//! noise from a hash of the voxel's index, so that a phantom has the same bits with any number of
//! threads.
#![forbid(unsafe_code)]

mod ct;
mod frame;
mod image;
mod mr;
mod phantom;
mod random;
mod scene;
mod settings;
mod solid;
mod ultrasound;

use frame::Frame;
use pbt_volume::positive;
use random::Draws;

pub use phantom::Phantom;
pub use settings::{PhantomModality, PhantomSettings};

/// The phantom of one case; equal arguments give equal bits.
///
/// # Panics
/// When `settings` has no voxels or a spacing that is not positive: a programming error.
pub fn phantom(modality: PhantomModality, settings: &PhantomSettings, seed: u64) -> Phantom {
    assert!(
        settings.voxels > 0 && settings.spacing_mm > 0.0,
        "a phantom needs voxels and a positive spacing"
    );
    let mut draws = Draws::new(modality as u64, seed);
    let geometry = image::grid(settings, &mut draws);
    let orientation = if settings.any_orientation {
        draws.rotation()
    } else {
        draws.rotation_within(settings.max_tilt_deg.to_radians())
    };
    let frame = Frame {
        origin: geometry.center().0 + draws.in_ball(settings.max_shift_mm),
        orientation: positive(orientation),
    };
    match modality {
        PhantomModality::Ct => ct::make(geometry, frame, settings, &mut draws),
        PhantomModality::Mr => mr::make(geometry, frame, settings, &mut draws),
        PhantomModality::Ultrasound => ultrasound::make(geometry, frame, settings, &mut draws),
    }
}

#[cfg(test)]
mod tests;
