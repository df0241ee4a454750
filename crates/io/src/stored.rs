//! The last step of every reader: from the place of the voxels in their file to an image.

use crate::IoError;
use crate::loaded::Loaded;
use crate::raw::{RawImage, Scaling, VoxelType, swap_bytes};
use crate::source::{Compression, read_file, voxel_bytes};
use pbt_volume::Geometry;
use std::path::{Path, PathBuf};

/// A file and its content.
pub(crate) struct FileBytes {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl FileBytes {
    pub(crate) fn read(path: &Path) -> Result<Self, IoError> {
        Ok(Self { path: path.to_path_buf(), bytes: read_file(path)? })
    }
}

/// Where the voxels lie.
pub(crate) enum Start {
    /// `file_offset` bytes into the file starts the (compressed) stream, `stream_offset` bytes into
    /// the inflated stream the voxels.
    At { file_offset: usize, stream_offset: usize },
    /// The voxels are the last bytes of the file (MetaImage's `HeaderSize = -1`, NRRD's `byte skip:
    /// -1`).
    End,
}

/// Which of the volumes that lie one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frame {
    pub(crate) wanted: usize,
    pub(crate) of: usize,
}

impl Frame {
    /// The wanted one of `of` volumes; `field` says in the header how many there are.
    ///
    /// # Errors
    /// When there are several and none is named, or there is none of that number.
    pub(crate) fn choose(
        path: &Path,
        field: &str,
        of: usize,
        wanted: Option<usize>,
    ) -> Result<Self, IoError> {
        match wanted {
            None if of == 1 => Ok(Self { wanted: 0, of }),
            None => {
                let problem = format!("has {of} time points; one volume is needed");
                Err(IoError::input(
                    path,
                    field,
                    problem,
                    format!("choose one with --frame 0 to {}", of - 1),
                ))
            }
            Some(wanted) if wanted < of => Ok(Self { wanted, of }),
            Some(wanted) => {
                let problem = format!("there is no frame {wanted}");
                Err(IoError::input(
                    path,
                    field,
                    problem,
                    format!("there are the frames 0 to {}", of - 1),
                ))
            }
        }
    }
}

/// What a header says about the voxels' place and form.
pub(crate) struct Stored {
    pub(crate) header: FileBytes,
    /// The file of the voxels where it is not the header's.
    pub(crate) detached: Option<FileBytes>,
    pub(crate) start: Start,
    pub(crate) compression: Compression,
    pub(crate) big_endian: bool,
    pub(crate) frame: Frame,
}

impl Stored {
    /// Takes the voxels out. The geometry's size is from the header and has not been compared with
    /// the file yet: that is done here.
    pub(crate) fn load(
        self,
        geometry: Geometry,
        voxel_type: VoxelType,
        scaling: Option<Scaling>,
        warnings: Vec<String>,
    ) -> Result<Loaded, IoError> {
        let file = self.detached.as_ref().unwrap_or(&self.header);
        let size = geometry.len().saturating_mul(voxel_type.size());
        let (file_offset, stream_offset) = match self.start {
            Start::At { file_offset, stream_offset } => {
                (file_offset.min(file.bytes.len()), stream_offset)
            }
            Start::End => (file.bytes.len().saturating_sub(size.saturating_mul(self.frame.of)), 0),
        };
        let stream_offset = size.saturating_mul(self.frame.wanted).saturating_add(stream_offset);
        let parts =
            [&self.header.bytes[..], self.detached.as_ref().map_or(&[], |file| &file.bytes)];
        let (sha256, bytes) = rayon::join(
            || pbt_volume::sha256_hex(&parts),
            || {
                voxel_bytes(
                    &file.path,
                    &file.bytes[file_offset..],
                    self.compression,
                    stream_offset,
                    size,
                )
            },
        );
        let mut bytes = bytes?;
        if self.big_endian {
            swap_bytes(&mut bytes, voxel_type.size());
        }
        let raw = RawImage::new(geometry, voxel_type, bytes, scaling).ok_or_else(|| {
            IoError::input(
                &self.header.path,
                "header",
                "asks for more voxels than memory can hold",
                "crop or downsample the volume first",
            )
        })?;
        Ok(Loaded { raw, sha256, warnings })
    }
}
