//! What is wanted of the voxels of an image.

/// What is wanted of the voxels, beside the result. Of a model of regions there are always labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VoxelOutput {
    /// Nothing.
    None,
    /// Their labels.
    Labels,
    /// How probable each label is, too.
    Probabilities,
}

impl VoxelOutput {
    /// As options say it.
    pub fn new(labels: bool, probabilities: bool) -> Self {
        match (labels, probabilities) {
            (_, true) => Self::Probabilities,
            (true, false) => Self::Labels,
            (false, false) => Self::None,
        }
    }

    /// Whether labels are wanted.
    pub fn labels(self) -> bool {
        self >= Self::Labels
    }

    /// Whether probabilities are.
    pub fn probabilities(self) -> bool {
        self == Self::Probabilities
    }
}
