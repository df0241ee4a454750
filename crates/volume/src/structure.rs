//! What is to be found: boxes, landmarks and regions by name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is to be found of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StructureKind {
    /// Centre, orientation and size.
    Box,
    /// A point.
    Landmark,
    /// Voxels, without a pose.
    Region,
}

impl StructureKind {
    /// Those with a place, in the order of reports.
    pub const ALL: [Self; 2] = [Self::Box, Self::Landmark];

    /// The word in files: `box`, `landmark` or `region`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Box => "box",
            Self::Landmark => "landmark",
            Self::Region => "region",
        }
    }

    /// The word for several: `boxes`, `landmarks` or `regions`.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Box => "boxes",
            Self::Landmark => "landmarks",
            Self::Region => "regions",
        }
    }
}

impl fmt::Display for StructureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How often a structure occurs in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Instances {
    /// At most once.
    #[default]
    One,
    /// Any number of times.
    Many,
}

/// Most structures of a data set or model, and most names in a file of annotations: what compares each
/// with each other still takes no time.
pub const MOST_STRUCTURES: usize = 5000;

/// Most channels of an image: what the tables of a device are made for.
pub const MOST_CHANNELS: usize = 4;

/// The box that stands for all landmarks of a data set without boxes. It is found as any other box and
/// is not among the results; no structure of a data set may have its name.
pub const LANDMARKS_BOX: &str = "(box of the landmarks)";

/// The same where the data set has one landmark: the box is a part of the image about it, and tells nothing
/// of its size.
pub const LANDMARK_BOX: &str = "(box of the landmark)";

/// The name of the box that stands for all landmarks of these structures, none of which is a box.
pub fn box_of_landmarks(structures: &[StructureSpec]) -> &'static str {
    let landmarks = structures.iter().filter(|s| s.kind == StructureKind::Landmark).count();
    if landmarks == 1 { LANDMARK_BOX } else { LANDMARKS_BOX }
}

/// Whether a box stands for landmarks ([`LANDMARKS_BOX`], [`LANDMARK_BOX`]).
pub fn is_box_of_landmarks(name: &str) -> bool {
    [LANDMARKS_BOX, LANDMARK_BOX].contains(&name)
}

/// A structure of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructureSpec {
    /// Unique name.
    pub name: String,
    /// Box, landmark or region.
    pub kind: StructureKind,
    /// The structure in whose frame it is found.
    pub parent: Option<String>,
    /// Its mirror twin.
    pub partner: Option<String>,
    /// How often it occurs in an image.
    pub instances: Instances,
}
