//! How much memory the tables of all cases take together, and which are forgotten when that is too
//! much. What is forgotten is made again from the voxels where somebody looks again, so that a limit
//! costs time and changes no result.

use pbt_volume::{Meter, room_for_tables};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// Tables that can be forgotten.
pub(crate) trait Roomy: Send + Sync {
    /// When somebody looked last, by [`tick`].
    fn used(&self) -> u64;

    /// Forgets them, unless somebody looks just now.
    fn forget(&self);
}

static METER: LazyLock<Arc<Meter>> = LazyLock::new(Arc::default);
static CLOCK: AtomicU64 = AtomicU64::new(1);
static CASES: Mutex<Vec<Weak<dyn Roomy>>> = Mutex::new(Vec::new());

/// Counts what tables take that can be forgotten.
pub(crate) fn meter() -> Arc<Meter> {
    METER.clone()
}

/// Later than all before.
pub(crate) fn tick() -> u64 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

/// Most bytes.
pub(crate) fn most() -> usize {
    usize::try_from(room_for_tables()).unwrap_or(usize::MAX)
}

/// Makes a case known.
pub(crate) fn register(case: &Arc<impl Roomy + 'static>) {
    let case: Arc<dyn Roomy> = case.clone();
    let mut cases = CASES.lock().unwrap_or_else(PoisonError::into_inner);
    cases.retain(|other| other.strong_count() > 0);
    cases.push(Arc::downgrade(&case));
}

/// Forgets cases other than this one where all take too much. Stages pass over all cases in their
/// order, again and again, so that what was used just before this one is needed last. What other
/// threads work on stays.
pub(crate) fn make<T: Roomy>(case: &Arc<T>) {
    let most = most();
    if METER.bytes() <= most {
        return;
    }
    // Where another thread is at it, that is enough.
    let Ok(cases) = CASES.try_lock() else { return };
    let others: Vec<Arc<dyn Roomy>> = cases.iter().filter_map(Weak::upgrade).collect();
    drop(cases);
    for other in used_before(others, case.used()) {
        if METER.bytes() <= most {
            break;
        }
        other.forget();
    }
}

/// Those that were used before a time, the last of them first. Other threads go on using them, so each is
/// asked once: an order that changes while it is sorted is a panic.
fn used_before(cases: Vec<Arc<dyn Roomy>>, time: u64) -> Vec<Arc<dyn Roomy>> {
    let mut used: Vec<(u64, Arc<dyn Roomy>)> =
        cases.into_iter().map(|case| (case.used(), case)).filter(|(at, _)| *at < time).collect();
    used.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    used.into_iter().map(|(_, case)| case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In use by another thread: whoever looks again sees another time.
    struct Busy(AtomicU64);

    impl Roomy for Busy {
        fn used(&self) -> u64 {
            self.0.fetch_xor(0x5555, Ordering::Relaxed)
        }

        fn forget(&self) {}
    }

    #[test]
    fn the_last_used_come_first_while_they_are_in_use() {
        let busy = |n: u64| Arc::new(Busy(AtomicU64::new(n * 7919 % 1000))) as Arc<dyn Roomy>;
        let sorted = used_before((0..200).map(busy).collect(), 900);
        let times: Vec<u64> = sorted.iter().map(|case| case.used() ^ 0x5555).collect();
        assert!(times.len() < 200 && times.is_sorted_by(|a, b| a >= b), "{times:?}");
    }
}
