//! The last steps of every reader: from the place of the voxels in their file to an image.

use crate::IoError;
use crate::loaded::Loaded;
use crate::memory_plan::MemoryPlan;
use crate::raw::{RawImage, Scaling, VoxelType, swap_bytes};
use crate::regular_file::{FileKind, read_file, read_start};
use crate::source::{Compression, check_capacity, voxel_bytes};
use pbt_volume::Geometry;
use std::path::{Path, PathBuf};

/// A file and its content.
pub(crate) struct FileBytes {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// Headers of images are shorter than this, bytes.
const START: u64 = 2 << 20;

impl FileBytes {
    /// Reads a file that begins with a header, which `check` sees before the rest is read: a huge file
    /// that is no image is not read to say so.
    pub(crate) fn read_checked(
        path: &Path,
        check: impl FnOnce(&[u8]) -> Result<(), IoError>,
    ) -> Result<Self, IoError> {
        if let Some(start) = read_start(path, START).filter(|start| start.len() as u64 == START) {
            check(&start)?;
        }
        Self::read(path)
    }

    pub(crate) fn read(path: &Path) -> Result<Self, IoError> {
        Ok(Self { path: path.to_path_buf(), bytes: read_file(path, FileKind::Image)? })
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

/// Which of the volumes that lie one after the other are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Volumes {
    /// One, by its number; the only one where there is no number.
    One(Option<usize>),
    /// All of them: channels.
    All,
}

/// Which of the volumes that lie one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frame {
    pub(crate) wanted: usize,
    pub(crate) of: usize,
}

impl Frame {
    /// The wanted one of `of` volumes, the last where all are wanted; `field` says in the header how
    /// many there are.
    ///
    /// # Errors
    /// When there are several and none is named, or there is none of that number.
    pub(crate) fn choose(
        path: &Path,
        field: &str,
        of: usize,
        wanted: Volumes,
    ) -> Result<Self, IoError> {
        let wanted = match wanted {
            Volumes::One(wanted) => wanted,
            Volumes::All => Some(of.saturating_sub(1)),
        };
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
                    match of {
                        1 => "it has one, 0; leave --frame out".to_owned(),
                        _ => format!("there are the frames 0 to {}", of - 1),
                    },
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
    /// Puts it together with what the header says of the image. The geometry's size has not been
    /// compared with the file yet: that is done here.
    pub(crate) fn described(
        self,
        geometry: Geometry,
        voxel_type: VoxelType,
        scaling: Option<Scaling>,
        warnings: Vec<String>,
    ) -> Result<StoredImage, IoError> {
        let file = self.detached.as_ref().unwrap_or(&self.header);
        let size = geometry.len().saturating_mul(voxel_type.size());
        let (file_offset, stream_offset) = match self.start {
            Start::At { file_offset, stream_offset } => {
                (file_offset.min(file.bytes.len()), stream_offset)
            }
            Start::End => (file.bytes.len().saturating_sub(size.saturating_mul(self.frame.of)), 0),
        };
        let stream_offset = size.saturating_mul(self.frame.wanted).saturating_add(stream_offset);
        let stream = &file.bytes[file_offset..];
        check_capacity(&file.path, stream.len(), self.compression, stream_offset, size)?;
        let place = Place { file_offset, stream_offset, size };
        Ok(StoredImage { stored: self, place, geometry, voxel_type, scaling, warnings })
    }

    /// Of header and data file, one after the other.
    fn sha256(&self) -> String {
        let data = self.detached.as_ref().map_or(&[][..], |file| &file.bytes);
        pbt_volume::sha256_hex(&[&self.header.bytes, data])
    }
}

/// Where the bytes of the voxels are.
struct Place {
    /// In the file.
    file_offset: usize,
    /// In the inflated stream that starts there.
    stream_offset: usize,
    size: usize,
}

/// An image whose header was read and whose voxels were not.
pub(crate) struct StoredImage {
    stored: Stored,
    place: Place,
    geometry: Geometry,
    voxel_type: VoxelType,
    scaling: Option<Scaling>,
    warnings: Vec<String>,
}

impl StoredImage {
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn plan(&self) -> MemoryPlan {
        let Stored { header, detached, compression, .. } = &self.stored;
        let files = header.bytes.len() + detached.as_ref().map_or(0, |file| file.bytes.len());
        // What lies before the wanted voxels is inflated, too.
        let before =
            if *compression == Compression::None { 0 } else { self.place.stream_offset as u64 };
        MemoryPlan {
            voxels: self.geometry.len() as u64,
            stored: self.place.size as u64,
            beside: files as u64 + before,
        }
    }

    pub(crate) fn sha256(&self) -> String {
        self.stored.sha256()
    }

    /// Number of volumes in the file.
    pub(crate) fn volumes(&self) -> usize {
        self.stored.frame.of
    }

    /// Takes the voxels of the wanted volume out.
    pub(crate) fn load(self) -> Result<Loaded, IoError> {
        let (bytes, sha256) = self.bytes(0)?;
        let raw = self.volume(bytes)?;
        Ok(Loaded { raw, sha256, warnings: self.warnings })
    }

    /// Takes the voxels of the wanted volume and of all before it out, and gives the warnings.
    pub(crate) fn load_all(self) -> Result<(Vec<RawImage>, Vec<String>), IoError> {
        let before = self.stored.frame.wanted;
        let (bytes, _) = self.bytes(before)?;
        let all = bytes.chunks(self.place.size).map(|bytes| self.volume(bytes.to_vec()));
        Ok((all.collect::<Result<_, _>>()?, self.warnings))
    }

    fn volume(&self, bytes: Vec<u8>) -> Result<RawImage, IoError> {
        let of = (self.geometry.clone(), self.voxel_type, bytes, self.scaling);
        RawImage::new(of.0, of.1, of.2, of.3).ok_or_else(|| {
            IoError::input(
                &self.stored.header.path,
                "header",
                "asks for more voxels than memory can hold",
                "crop or downsample the volume first",
            )
        })
    }

    /// The bytes of the wanted volume and of so many before it, little-endian, and the file's hash.
    fn bytes(&self, before: usize) -> Result<(Vec<u8>, String), IoError> {
        let Self { stored, place, voxel_type, .. } = self;
        let file = stored.detached.as_ref().unwrap_or(&stored.header);
        let before = before * place.size;
        let (sha256, bytes) = rayon::join(
            || stored.sha256(),
            || {
                voxel_bytes(
                    &file.path,
                    &file.bytes[place.file_offset..],
                    stored.compression,
                    place.stream_offset - before,
                    place.size + before,
                )
            },
        );
        let mut bytes = bytes?;
        if stored.big_endian {
            swap_bytes(&mut bytes, voxel_type.size());
        }
        Ok((bytes, sha256))
    }
}
