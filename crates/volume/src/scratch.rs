//! Voxels in a temporary file, of which blocks are read when somebody looks at them: a training
//! looks at small parts of many images. They lie there in packed bricks.

use crate::packed::{EDGE, pack, unpack};
use crate::{Geometry, Volume};
use rayon::prelude::*;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::ops::Range;
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
        let layers: Vec<usize> = (0..volume.shape()[2].div_ceil(EDGE)).collect();
        let mut index = Index::default();
        // A few at a time: all of them would be as much as half of the volume.
        for some in layers.chunks(LAYERS) {
            let packed: Vec<(Vec<u8>, Vec<u32>)> =
                some.par_iter().map(|&k| packed_layer(volume, k)).collect();
            let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
            (&self.file).seek(io::SeekFrom::Start(*end))?;
            for (bytes, ends) in packed {
                (&self.file).write_all(&bytes)?;
                index.begins.push(*end);
                index.ends.extend(ends);
                *end += bytes.len() as u64;
            }
        }
        let (geometry, scratch) = (volume.geometry().clone(), self.clone());
        Ok(StoredVolume { geometry, index: Arc::new(index), scratch })
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

/// Layers of bricks that are packed at a time.
const LAYERS: usize = 4;

/// The bricks of a layer, and where in it each ends.
fn packed_layer(volume: &Volume<u16>, k: usize) -> (Vec<u8>, Vec<u32>) {
    let shape = volume.shape();
    let [ni, nj, _] = shape.map(|n| n.div_ceil(EDGE));
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(ni * nj));
    let mut brick = Vec::with_capacity(EDGE * EDGE * EDGE);
    for (j, i) in (0..nj).flat_map(|j| (0..ni).map(move |i| (j, i))) {
        let [i, j, k] = extent(shape, [i, j, k]);
        brick.clear();
        for (k, j) in k.flat_map(|k| j.clone().map(move |j| (k, j))) {
            brick.extend_from_slice(&volume.data()[volume.offset(i.start, j, k)..][..i.len()]);
        }
        pack(&brick, &mut bytes);
        ends.push(bytes.len() as u32);
    }
    (bytes, ends)
}

/// The voxels of a brick along i, j, k.
fn extent(shape: [usize; 3], brick: [usize; 3]) -> [Range<usize>; 3] {
    [0, 1, 2].map(|a| EDGE * brick[a]..(EDGE * (brick[a] + 1)).min(shape[a]))
}

/// A volume in a [`Scratch`].
#[derive(Debug, Clone)]
pub struct StoredVolume {
    geometry: Geometry,
    index: Arc<Index>,
    scratch: Arc<Scratch>,
}

/// Where the bricks of a volume lie.
#[derive(Debug, Default)]
struct Index {
    /// By layer, the place of its first byte.
    begins: Vec<u64>,
    /// By brick, i fastest, where it ends in its layer.
    ends: Vec<u32>,
}

impl StoredVolume {
    /// Shape and placement.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// All of it.
    pub fn load(&self) -> Volume<u16> {
        let [nx, ny, nz] = self.geometry.shape();
        let mut data = vec![0; self.geometry.len()];
        data.par_chunks_mut(nx * ny * EDGE).enumerate().for_each(|(layer, data)| {
            let first = [0, 0, layer * EDGE];
            self.read_into(first, [nx, ny, EDGE.min(nz - first[2])], data);
        });
        Volume::new(self.geometry.clone(), data)
    }

    /// The voxels of a box in it, i fastest.
    pub(crate) fn block(&self, first: [usize; 3], shape: [usize; 3]) -> Vec<u16> {
        let mut block = vec![0; shape.iter().product()];
        self.read_into(first, shape, &mut block);
        block
    }

    fn read_into(&self, first: [usize; 3], shape: [usize; 3], block: &mut [u16]) {
        if shape.contains(&0) {
            return;
        }
        let bricks = [0, 1, 2].map(|a| first[a] / EDGE..(first[a] + shape[a] - 1) / EDGE + 1);
        let [ni, nj, _] = self.geometry.shape().map(|n| n.div_ceil(EDGE));
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        for k in bricks[2].clone() {
            for j in bricks[1].clone() {
                // Those of a row lie one after the other.
                let ends = &self.index.ends[k * nj * ni..];
                let end = |i: usize| match j * ni + i {
                    0 => 0,
                    n => ends[n - 1] as usize,
                };
                let begin = end(bricks[0].start);
                bytes.resize(end(bricks[0].end) - begin, 0);
                self.scratch.read(self.index.begins[k] + begin as u64, &mut bytes);
                for i in bricks[0].clone() {
                    let brick = extent(self.geometry.shape(), [i, j, k]);
                    let across = brick.each_ref().map(ExactSizeIterator::len);
                    values.resize(across.iter().product(), 0);
                    unpack(&bytes[end(i) - begin..end(i + 1) - begin], &mut values);
                    copy_overlap((&values, brick), (block, first, shape));
                }
            }
        }
    }
}

/// Copies what a brick has of a block.
fn copy_overlap(
    (values, brick): (&[u16], [Range<usize>; 3]),
    (block, first, shape): (&mut [u16], [usize; 3], [usize; 3]),
) {
    let across = brick.each_ref().map(ExactSizeIterator::len);
    let both =
        [0, 1, 2].map(|a| brick[a].start.max(first[a])..brick[a].end.min(first[a] + shape[a]));
    for k in both[2].clone() {
        for j in both[1].clone() {
            let row = |at: [usize; 3], across: [usize; 3]| {
                let [i, j, k] = [0, 1, 2].map(|a| [both[0].start, j, k][a] - at[a]);
                (k * across[1] + j) * across[0] + i
            };
            let from = row(brick.each_ref().map(|range| range.start), across);
            let to = row(first, shape);
            block[to..to + both[0].len()].copy_from_slice(&values[from..from + both[0].len()]);
        }
    }
}
