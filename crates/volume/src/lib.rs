//! Volumes and where they lie in the patient.
//!
//! Everything inside `pbt` is LPS millimetres in `f64` (x towards the patient's left, y posterior,
//! z superior), voxel centres at integer indices, index order `(i, j, k)` with `i` fastest in
//! memory. Other conventions exist only in the crate `pbt-io`.
#![forbid(unsafe_code)]

mod canonical;
mod components;
mod detection;
mod digest;
mod geometry;
mod integral;
mod intensity;
mod label_shape;
mod large_pages;
mod length_unit;
mod level;
mod memory;
mod memory_shares;
mod meter;
mod nearest;
mod packed;
mod plane;
mod pose;
mod pyramid;
mod random;
mod real_volume;
mod resample;
mod scratch;
mod structure;
mod system_memory;
mod taps;
mod trimmed;
mod volume;
mod working;

pub use canonical::canonical_geometry;
pub use components::{
    Component, Components, ComponentsError, Connectivity, Joining, Plausibility,
    PlausibilityLimits, TOO_MANY_VOXELS,
};
pub use detection::{Detection, Location, Precision, Status};
pub use digest::{hex, sha256, sha256_hex};
pub use geometry::{Geometry, GeometryError, PointLps, VoxelIndex};
pub use integral::IntegralVolume;
pub use intensity::{IntensityError, IntensityPolicy, IntensityRange, MAX_INTENSITY, Quantised};
pub use label_shape::LabelShape;
pub use large_pages::LargePages;
pub use length_unit::LengthUnit;
pub use level::Level;
pub use memory::{
    NotEnoughMemory, check_memory, check_memory_limit, memory_limit, memory_seen, room_for_tables,
    set_memory_limit, try_zeroed,
};
pub use memory_shares::{MemoryShare, MemoryShares};
pub use meter::Meter;
pub use nearest::{did_you_mean, nearest};
pub use plane::Plane;
pub use pose::{
    LARGEST_EDGE_MM, Pose, SMALLEST_EDGE_MM, angle_between, positive, rotation_from_vector,
    rotation_to_vector,
};
pub use pyramid::{Pyramid, downsample2, next_level};
pub use random::Random;
pub use real_volume::RealVolume;
pub use resample::{Padding, SLAB, Source, resample};
pub use scratch::{Scratch, StoredVolume};
pub use structure::{
    Instances, LANDMARK_BOX, LANDMARKS_BOX, MOST_CHANNELS, MOST_STRUCTURES, StructureKind,
    StructureSpec, box_of_landmarks, is_box_of_landmarks,
};
pub use system_memory::MemorySeen;
pub use trimmed::{trimmed, trimmed_channels};
pub use volume::Volume;
pub use working::working_geometry;
