//! What is wanted of the voxels of an image.

/// What is wanted of the voxels, beside the result. Of a model of regions there are always labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VoxelOutput {
    labels: bool,
    probabilities: bool,
    leaves: bool,
    first_tree_leaf: bool,
}

/// One of the files that [`VoxelOutput`] may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoxelFile {
    /// Labels.
    Labels,
    /// How probable each label is, and labels.
    Probabilities,
    /// The leaf of each tree that a voxel arrives at.
    Leaves,
    /// That of the first tree.
    FirstTreeLeaf,
}

impl VoxelOutput {
    /// As options say it.
    pub fn new(labels: bool, probabilities: bool) -> Self {
        Self { labels, probabilities, ..Self::default() }
    }

    /// With these files, too.
    pub fn with(mut self, files: impl IntoIterator<Item = VoxelFile>) -> Self {
        for file in files {
            match file {
                VoxelFile::Labels => self.labels = true,
                VoxelFile::Probabilities => self.probabilities = true,
                VoxelFile::Leaves => self.leaves = true,
                VoxelFile::FirstTreeLeaf => self.first_tree_leaf = true,
            }
        }
        self
    }

    /// Whether labels are wanted.
    pub fn labels(self) -> bool {
        self.labels || self.probabilities
    }

    /// Whether probabilities are.
    pub fn probabilities(self) -> bool {
        self.probabilities
    }

    /// Whether the leaves of all trees are.
    pub fn leaves(self) -> bool {
        self.leaves
    }

    /// Whether the leaves of the first tree are.
    pub fn first_tree_leaf(self) -> bool {
        self.first_tree_leaf
    }

    /// Of so many trees, the first ones, leaves are needed.
    pub(crate) fn trees(self) -> usize {
        if self.leaves { usize::MAX } else { usize::from(self.first_tree_leaf) }
    }
}
