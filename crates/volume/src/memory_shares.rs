//! Memory that threads share: each waits until there is enough for what it does.

use std::sync::{Condvar, Mutex, PoisonError};

/// Memory to be shared.
#[derive(Debug)]
pub struct MemoryShares {
    bytes: u64,
    taken: Mutex<u64>,
    given_back: Condvar,
}

/// A part of it, given back when it is dropped.
#[derive(Debug)]
pub struct MemoryShare<'a> {
    of: &'a MemoryShares,
    bytes: u64,
}

impl MemoryShares {
    /// So many bytes, none taken yet.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, taken: Mutex::new(0), given_back: Condvar::new() }
    }

    /// Waits until so many bytes are free, or all: what is more than all is for the caller to
    /// refuse.
    pub fn take(&self, bytes: u64) -> MemoryShare<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let too_much = |taken: &mut u64| *taken > 0 && taken.saturating_add(bytes) > self.bytes;
        let mut taken =
            self.given_back.wait_while(taken, too_much).unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_add(bytes);
        MemoryShare { of: self, bytes }
    }
}

impl Drop for MemoryShare<'_> {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(self.bytes);
        self.of.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn nobody_has_more_than_there_is_unless_alone() {
        let shares = MemoryShares::new(10);
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for bytes in [3, 7, 6, 4, 10, 1, 9, 25, 2] {
                let (shares, now, most) = (&shares, &now, &most);
                scope.spawn(move || {
                    let _share = shares.take(bytes);
                    let together = now.fetch_add(bytes, Ordering::SeqCst) + bytes;
                    assert!(together <= 10 || together == bytes, "{together}");
                    most.fetch_max(together, Ordering::SeqCst);
                    now.fetch_sub(bytes, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 25);
    }
}
