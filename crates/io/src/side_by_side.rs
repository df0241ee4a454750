//! Images that are read side by side: as many at a time as there are threads, and memory for.

use crate::{IoError, OpenImage};
use pbt_volume::{MemoryShares, memory_limit};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What images that are read side by side may hold together, as a part of the memory that may be taken.
const PART: u64 = 4;

/// Bytes a voxel of what is made of an image while it is looked at, or of the label map beside it.
const BESIDE: u64 = 4;

/// What `read` makes of the image of each item, in the order of the items. `open` reads no more than the
/// header, which says how much memory the voxels need; `read` waits until that is free. An image that
/// needs more than there is for all of them is read alone.
///
/// The threads are new ones, and what they ask of Rayon is done by pools of their own: a thread of the
/// caller's pool that waits, for memory or for something that the others wait for too, could take up a
/// task that waits for itself.
pub fn read_side_by_side<I: Sync, T: Send>(
    items: &[I],
    open: impl Fn(&I) -> Result<OpenImage, IoError> + Sync,
    read: impl Fn(&I, Result<OpenImage, IoError>) -> T + Sync,
) -> Vec<T> {
    let threads = rayon::current_num_threads();
    let readers = threads.min(items.len());
    let one_by_one = || items.iter().map(|item| read(item, open(item))).collect();
    if readers <= 1 {
        return one_by_one();
    }
    let (memory, next) = (MemoryShares::new(memory_limit() / PART), AtomicUsize::new(0));
    let reader = || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads / readers).build().ok()?;
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let own = numbers.map_while(|n| items.get(n).map(|item| (n, item))).map(|(n, item)| {
            let image = pool.install(|| open(item));
            let _share = memory.take(image.as_ref().map_or(0, bytes));
            (n, pool.install(|| read(item, image)))
        });
        Some(own.collect::<Vec<_>>())
    };
    let mut all = std::thread::scope(|scope| {
        let started: Vec<_> = (0..readers)
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, reader).ok())
            .collect();
        let ended = started
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.flatten().flatten().collect::<Vec<_>>()
    });
    // No threads to be had.
    if all.len() < items.len() {
        return one_by_one();
    }
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, made)| made).collect()
}

/// The most bytes that are held while an image is read and looked at.
fn bytes(image: &OpenImage) -> u64 {
    let beside = (image.geometry().len() as u64).saturating_mul(BESIDE);
    image.memory_bytes().saturating_add(beside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RawImage, ReadOptions, VoxelType, write_image};
    use pbt_volume::Geometry;
    use std::path::PathBuf;

    #[test]
    fn threads_do_not_show_and_an_image_that_cannot_be_read_stops_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> =
            (0..9).map(|n| folder.path().join(format!("{n}.nii.gz"))).collect();
        for (n, path) in paths.iter().enumerate().filter(|(n, _)| *n != 4) {
            let geometry = Geometry::isotropic([30, 20, 10], 1.0).unwrap();
            let bytes = vec![n as u8; geometry.len()];
            let image = RawImage::new(geometry, VoxelType::U8, bytes, None).unwrap();
            write_image(path, &image).unwrap();
        }
        let open = |path: &PathBuf| OpenImage::open(path, &ReadOptions::default());
        let first = |path: &PathBuf, image: Result<OpenImage, IoError>| {
            let (image, mut row) = (image.and_then(OpenImage::read).ok()?, Vec::new());
            image.volume.extend_with_row(&mut row, 0, 0);
            Some((path.clone(), row[0]))
        };
        let numbered = paths.iter().enumerate();
        let expected: Vec<Option<(PathBuf, f32)>> =
            numbered.map(|(n, path)| (n != 4).then(|| (path.clone(), n as f32))).collect();
        for threads in [1, 2, 5, 16] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| read_side_by_side(&paths, open, first)), expected);
        }
    }
}
