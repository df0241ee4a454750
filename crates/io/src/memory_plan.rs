//! What reading takes, before it begins.

/// What reading an image takes, bytes, told from its header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryPlan {
    pub(crate) voxels: u64,
    /// The voxels as they are stored.
    pub(crate) stored: u64,
    /// What is held while they are taken out: files, other time points.
    pub(crate) beside: u64,
}

impl MemoryPlan {
    /// Of so many volumes in one file, one after the other.
    pub(crate) fn times(self, volumes: u64) -> Self {
        Self {
            voxels: self.voxels.saturating_mul(volumes),
            // As they come out of the file, and then by volume.
            stored: self.stored.saturating_mul(volumes),
            beside: self.beside.saturating_add(self.stored.saturating_mul(volumes)),
        }
    }

    /// Stored voxels alone.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.stored.saturating_add(self.beside)
    }

    /// And then 32 bits a voxel made of them.
    pub(crate) fn wide_bytes(&self) -> u64 {
        self.raw_bytes().max(self.stored.saturating_add(self.voxels.saturating_mul(4)))
    }

    /// The same for an image, whose voxels of one or two bytes stay as they are.
    pub(crate) fn image_bytes(&self) -> u64 {
        if self.voxel_bytes() > 2 { self.wide_bytes() } else { self.raw_bytes() }
    }

    /// Bytes a voxel of the image, once it is read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.voxel_bytes().min(4)
    }

    fn voxel_bytes(&self) -> u64 {
        self.stored / self.voxels.max(1)
    }
}
