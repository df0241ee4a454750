//! Voxels in a temporary file, of which blocks are read when somebody looks at them: a training
//! looks at small parts of many images.

use crate::{Geometry, Volume};
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A temporary file of volumes. It has no name where the system allows that, so that nothing stays
/// behind however the program ends.
#[derive(Debug)]
pub struct Scratch {
    file: File,
    /// Whoever writes holds it: the place of the first byte behind all volumes.
    end: Mutex<u64>,
    /// The first thing that went wrong in reading.
    failed: OnceLock<String>,
}

impl Scratch {
    /// An empty file in a folder.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder)?;
        Ok(Self { file, end: Mutex::new(0), failed: OnceLock::new() })
    }

    /// Writes a volume.
    ///
    /// # Errors
    /// When it cannot be written, because the disk is full for example.
    pub fn store(self: &Arc<Self>, volume: &Volume<u16>) -> io::Result<StoredVolume> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = *end;
        (&self.file).seek(io::SeekFrom::Start(begin))?;
        let mut to = BufWriter::with_capacity(1 << 20, &self.file);
        for value in volume.data() {
            to.write_all(&value.to_le_bytes())?;
        }
        to.flush()?;
        *end = begin + 2 * volume.data().len() as u64;
        Ok(StoredVolume { geometry: volume.geometry().clone(), begin, scratch: self.clone() })
    }

    /// Whether everything that was read could be read. Who finds out late is no worse off: voxels
    /// that could not be read are 0, and what was made of them is thrown away.
    ///
    /// # Errors
    /// What went wrong.
    pub fn check(&self) -> Result<(), String> {
        self.failed.get().map_or(Ok(()), |failed| Err(failed.clone()))
    }

    /// Loses what was written.
    #[cfg(test)]
    pub(crate) fn truncate(&self) {
        self.file.set_len(0).expect("a file of our own");
    }

    fn read(&self, from: u64, bytes: &mut [u8]) {
        if let Err(error) = read_at(&self.file, from, bytes) {
            bytes.fill(0);
            // One reason is enough.
            let _ = self.failed.set(error.to_string());
        }
    }
}

#[cfg(unix)]
fn read_at(file: &File, from: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, from)
}

#[cfg(windows)]
fn read_at(file: &File, mut from: u64, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let read = std::os::windows::fs::FileExt::seek_read(file, bytes, from)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        from += read as u64;
        bytes = &mut bytes[read..];
    }
    Ok(())
}

/// A volume in a [`Scratch`].
#[derive(Debug, Clone)]
pub struct StoredVolume {
    geometry: Geometry,
    /// Place of its first byte.
    begin: u64,
    scratch: Arc<Scratch>,
}

impl StoredVolume {
    /// Shape and placement.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// All of it.
    pub fn load(&self) -> Volume<u16> {
        let mut data = Vec::with_capacity(self.geometry.len());
        let mut bytes = vec![0; 1 << 20];
        let mut from = self.begin;
        while data.len() < self.geometry.len() {
            let count = bytes.len().min(2 * (self.geometry.len() - data.len()));
            self.scratch.read(from, &mut bytes[..count]);
            data.extend(bytes[..count].chunks_exact(2).map(value));
            from += count as u64;
        }
        Volume::new(self.geometry.clone(), data)
    }

    /// The voxels of a box in it, i fastest.
    pub(crate) fn block(&self, first: [usize; 3], shape: [usize; 3]) -> Vec<u16> {
        let [nx, ny, _] = self.geometry.shape();
        let [across, rows, planes] = shape;
        let mut block = Vec::with_capacity(across * rows * planes);
        // Rows of a plane with what lies between them: fewer and longer readings.
        let mut bytes = vec![0; 2 * ((rows.max(1) - 1) * nx + across)];
        for k in first[2]..first[2] + planes {
            let voxel = (k * ny + first[1]) * nx + first[0];
            self.scratch.read(self.begin + 2 * voxel as u64, &mut bytes);
            for row in bytes.chunks(2 * nx) {
                block.extend(row[..2 * across].chunks_exact(2).map(value));
            }
        }
        block
    }
}

fn value(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}
