//! How much memory this process may take, and allocations that can fail.
//!
//! The need of an image follows from its header, so it is compared with one limit before anything
//! large is asked for: an allocation that fails later ends the process and, with it, a whole batch.

use crate::system_memory::{MemorySeen, available};
use std::path::Path;
use std::sync::OnceLock;

/// Bytes that are more than this process may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("needs {} of memory, {}", wanted(*.asked, *.limit), allowed(*.limit))]
pub struct NotEnoughMemory {
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes that may be taken; `None` where the system refused what the limit allows.
    pub limit: Option<u64>,
}

static LIMIT: OnceLock<u64> = OnceLock::new();

/// Sets the limit of this process, bytes. Only the first call counts, and only before
/// [`memory_limit`] was asked for.
pub fn set_memory_limit(bytes: u64) {
    let _ = LIMIT.set(bytes);
}

/// Bytes that this process may take: what was set, else what the machine, its control group and
/// the process's own limits had left at the first call; `u64::MAX` where none of them is known.
pub fn memory_limit() -> u64 {
    *LIMIT.get_or_init(|| available(Path::new("/")).unwrap_or(u64::MAX))
}

/// Tables that can be made again from voxels take about this much at most, and no more than this share
/// of the memory that may be taken.
const TABLES: u64 = 1 << 29;
const TABLES_SHARE: u64 = 8;

/// Bytes that tables of images which can be made again may take, all together.
pub fn room_for_tables() -> u64 {
    TABLES.min(memory_limit() / TABLES_SHARE)
}

/// What leaves how much of it at this moment.
pub fn memory_seen() -> MemorySeen {
    MemorySeen::at(Path::new("/"))
}

/// Whether so many bytes may be taken by themselves, whatever is in use.
///
/// # Errors
/// When they exceed [`memory_limit`].
pub fn check_memory_limit(bytes: u64) -> Result<(), NotEnoughMemory> {
    let limit = memory_limit();
    if bytes > limit { Err(NotEnoughMemory { asked: bytes, limit: Some(limit) }) } else { Ok(()) }
}

/// Whether so many bytes may be taken at this moment.
///
/// # Errors
/// When they exceed [`memory_limit`], or the system does not give them: they are asked for as a
/// whole and handed back untouched, which costs next to nothing.
pub fn check_memory(bytes: u64) -> Result<(), NotEnoughMemory> {
    check_memory_limit(bytes)?;
    reserved::<u8>(usize::try_from(bytes).unwrap_or(usize::MAX)).map(drop)
}

/// `count` values of zero, or an error where a `vec!` would end the process.
///
/// # Errors
/// When the system does not give the memory.
pub fn try_zeroed<T: Copy + Default>(count: usize) -> Result<Vec<T>, NotEnoughMemory> {
    reserved::<T>(count).map(drop)?;
    // Zeros that the system gives are not written: their pages come when they are used, on all
    // threads.
    Ok(vec![T::default(); count])
}

fn reserved<T>(count: usize) -> Result<Vec<T>, NotEnoughMemory> {
    let mut values = Vec::new();
    match values.try_reserve_exact(count) {
        Ok(()) => Ok(values),
        Err(_) => {
            let asked = (count as u64).saturating_mul(size_of::<T>() as u64);
            Err(NotEnoughMemory { asked, limit: None })
        }
    }
}

/// The bytes asked for; where they read like those that may be taken, that they are more.
fn wanted(asked: u64, limit: Option<u64>) -> String {
    let text = size(asked);
    let same = limit.is_some_and(|limit| size(limit) == text);
    format!("{} {text}", if same { "over" } else { "about" })
}

fn allowed(limit: Option<u64>) -> String {
    limit.map_or("which the system does not give".to_owned(), |limit| {
        format!("more than the {} that may be taken", size(limit))
    })
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.0} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kB", b / 1e3),
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_is_refused() {
        // No system gives an address space of 2⁶² bytes.
        assert!(check_memory(1 << 62).is_err());
        assert!(try_zeroed::<u64>(1 << 59).is_err());
        assert_eq!(check_memory(1000), Ok(()));
        assert_eq!(try_zeroed::<u16>(3), Ok(vec![0; 3]));
        let error = NotEnoughMemory { asked: 6_900_000_000, limit: Some(500_000_000) };
        assert_eq!(
            error.to_string(),
            "needs about 6.9 GB of memory, more than the 500 MB that may be taken"
        );
        let error = NotEnoughMemory { asked: 1_200_000, limit: Some(1_000_000) };
        assert_eq!(
            error.to_string(),
            "needs over 1 MB of memory, more than the 1 MB that may be taken"
        );
        assert_eq!([1, 999, 1000].map(size), ["1 B", "999 B", "1.0 kB"]);
    }
}
