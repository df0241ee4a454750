//! What is on the device at a time: a bounded number of bytes. Where they are full, what was used
//! last and is not at work gives way: work passes over all cases in their order, again and again, so
//! that this is needed last. (What was used longest ago is needed next.)

use super::GpuError;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Values that can be made again, each with a number and a size in bytes.
pub(crate) struct Resident<T> {
    limit: usize,
    state: Mutex<State<T>>,
}

struct State<T> {
    values: BTreeMap<u64, Entry<T>>,
    bytes: usize,
    /// Numbers given so far.
    numbers: u64,
    /// Uses so far.
    uses: u64,
}

/// A value, and `None` before it is made: locked while a thread makes it, so that others that want
/// it wait, and those that want another do not.
type Slot<T> = Arc<Mutex<Option<Arc<T>>>>;

struct Entry<T> {
    slot: Slot<T>,
    bytes: usize,
    last_use: u64,
}

impl<T> Entry<T> {
    /// Whether a thread holds it or makes it, so that without it no memory would be free.
    fn at_work(&self) -> bool {
        Arc::strong_count(&self.slot) > 1
            || self
                .slot
                .try_lock()
                .is_ok_and(|value| value.as_ref().is_some_and(|value| Arc::strong_count(value) > 1))
    }
}

impl<T> State<T> {
    fn remove(&mut self, number: u64) -> bool {
        let removed = self.values.remove(&number);
        self.bytes -= removed.as_ref().map_or(0, |entry| entry.bytes);
        removed.is_some()
    }

    /// Whether there was one that could give way.
    fn give_way(&mut self) -> bool {
        let idle = self.values.iter().filter(|(_, entry)| !entry.at_work());
        let last = idle.max_by_key(|(_, entry)| entry.last_use).map(|(&number, _)| number);
        last.is_some_and(|number| self.remove(number))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Resident<T> {
    /// At most `limit` bytes, but for what is at work together or is larger.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            state: Mutex::new(State { values: BTreeMap::new(), bytes: 0, numbers: 0, uses: 0 }),
        }
    }

    /// A number for a value, never given before.
    pub(crate) fn number(&self) -> u64 {
        let mut state = lock(&self.state);
        state.numbers += 1;
        state.numbers
    }

    /// The value of this number, made if it is not there. Others give way to it, but whoever holds
    /// one keeps it.
    pub(crate) fn get(
        &self,
        number: u64,
        bytes: usize,
        make: impl Fn() -> Result<T, GpuError>,
    ) -> Result<Arc<T>, GpuError> {
        let slot = self.slot(number, bytes);
        let mut value = lock(&slot);
        if let Some(value) = &*value {
            return Ok(value.clone());
        }
        loop {
            match make() {
                // The memory serves others too, so that it may be full before the limit is reached.
                Err(GpuError::OutOfMemory { .. }) if lock(&self.state).give_way() => {}
                Err(error) => {
                    self.forget(number);
                    return Err(error);
                }
                Ok(made) => return Ok(value.insert(Arc::new(made)).clone()),
            }
        }
    }

    /// The place of the value of this number, which others have left if it is new.
    fn slot(&self, number: u64, bytes: usize) -> Slot<T> {
        let mut state = lock(&self.state);
        state.uses += 1;
        let last_use = state.uses;
        if let Some(entry) = state.values.get_mut(&number) {
            entry.last_use = last_use;
            return entry.slot.clone();
        }
        while state.bytes + bytes > self.limit && state.give_way() {}
        let slot = Slot::default();
        state.bytes += bytes;
        state.values.insert(number, Entry { slot: slot.clone(), bytes, last_use });
        slot
    }

    /// Bytes of what is there.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.state).bytes
    }

    /// Forgets a value for good.
    pub(crate) fn forget(&self, number: u64) {
        lock(&self.state).remove(number);
    }

    /// Places in a list of (number, bytes), in groups that fit together; what is there comes first,
    /// so that it is used before it gives way.
    pub(crate) fn groups(&self, values: &[(u64, usize)]) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        {
            let state = lock(&self.state);
            order.sort_by_key(|&n| !state.values.contains_key(&values[n].0));
        }
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut bytes = 0usize;
        for n in order {
            match groups.last_mut() {
                Some(group) if bytes + values[n].1 <= self.limit => group.push(n),
                _ => {
                    groups.push(vec![n]);
                    bytes = 0;
                }
            }
            bytes += values[n].1;
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::Condvar;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// Gets values, and returns the numbers of those that were made.
    fn made(resident: &Resident<u64>, wanted: &[(u64, usize)]) -> Vec<u64> {
        let made = RefCell::new(Vec::new());
        for &(number, bytes) in wanted {
            let make = || {
                made.borrow_mut().push(number);
                Ok(10 * number)
            };
            assert_eq!(resident.get(number, bytes, make).map(|value| *value), Ok(10 * number));
        }
        made.into_inner()
    }

    #[test]
    fn what_was_used_last_gives_way() {
        let resident = Resident::new(30);
        assert_eq!(made(&resident, &[(1, 10), (2, 10), (3, 10), (1, 10)]), [1, 2, 3]);
        assert_eq!(made(&resident, &[(4, 10), (1, 10), (3, 10), (2, 10)]), [4, 1]);
        // One that needs the place of two, and one that is larger than the limit.
        assert_eq!(made(&resident, &[(5, 20), (2, 10), (5, 20), (3, 10)]), [5, 2, 5, 3]);
        assert_eq!(made(&resident, &[(6, 31), (6, 31), (3, 10), (6, 31)]), [6, 3, 6]);
        resident.forget(6);
        resident.forget(6);
        assert_eq!(made(&resident, &[(7, 15), (8, 15), (7, 15), (8, 15)]), [7, 8]);
    }

    #[test]
    fn passes_over_all_values_make_few_again() {
        let resident = Resident::new(80);
        let all: Vec<(u64, usize)> = (0..10).map(|n| (n, 10)).collect();
        assert_eq!(made(&resident, &all).len(), 10);
        for _ in 0..5 {
            assert!(made(&resident, &all).len() <= 3);
        }
    }

    #[test]
    fn what_is_held_stays() {
        let resident = Resident::new(20);
        let held = resident.get(1, 10, || Ok(10)).expect("a value");
        assert_eq!(made(&resident, &[(2, 10), (1, 10), (3, 10), (1, 10), (2, 10)]), [2, 3, 2]);
        let other = resident.get(2, 10, || Ok(20)).expect("a value");
        assert_eq!(made(&resident, &[(3, 10), (1, 10), (2, 10)]), [3]);
        assert_eq!(resident.bytes(), 30);
        drop((held, other));
        assert_eq!(made(&resident, &[(4, 10), (3, 10)]), [4]);
        assert_eq!(resident.bytes(), 20);
    }

    #[test]
    fn threads_make_values_side_by_side_and_each_once() {
        let resident = Resident::new(100);
        let (met, makes) = ((Mutex::new(0), Condvar::new()), AtomicU32::new(0));
        // Waits until both are being made.
        let make = |value: u64| {
            makes.fetch_add(1, Ordering::SeqCst);
            let mut count = lock(&met.0);
            *count += 1;
            met.1.notify_all();
            let alone = |count: &mut u32| *count < 2;
            let (count, waited) =
                met.1.wait_timeout_while(count, Duration::from_secs(20), alone).expect("no panic");
            drop(count);
            assert!(!waited.timed_out(), "one after the other");
            Ok(value)
        };
        std::thread::scope(|scope| {
            for number in [1, 2, 1, 2, 2] {
                let (resident, make) = (&resident, &make);
                scope.spawn(move || {
                    assert_eq!(resident.get(number, 10, || make(number)).map(|v| *v), Ok(number));
                });
            }
        });
        assert_eq!(makes.into_inner(), 2);
    }

    #[test]
    fn all_give_way_before_the_memory_is_full() {
        let resident = Resident::new(100);
        made(&resident, &[(1, 10), (2, 10), (3, 10)]);
        let full = GpuError::OutOfMemory { asked: 1, free: 0 };
        let attempts = RefCell::new(0);
        let make = |succeeds_at: i32| {
            *attempts.borrow_mut() += 1;
            if *attempts.borrow() == succeeds_at { Ok(40) } else { Err(full.clone()) }
        };
        assert!(resident.get(4, 10, || make(3)).is_ok());
        assert_eq!(made(&resident, &[(3, 10), (4, 10), (1, 10), (2, 10)]), [3, 2]);
        attempts.replace(0);
        assert_eq!(resident.get(5, 10, || make(0)).err(), Some(full.clone()));
        assert_eq!(*attempts.borrow(), 5);
        assert_eq!(resident.bytes(), 0);
        let other = GpuError::NoDevice;
        assert_eq!(resident.get(5, 10, || Err(other.clone())).err(), Some(other.clone()));
    }

    #[test]
    fn groups_fit_and_begin_with_what_is_there() {
        let resident = Resident::new(30);
        let values = [(1, 10), (2, 10), (3, 20), (4, 40), (5, 5)];
        assert_eq!(resident.groups(&values), [vec![0, 1], vec![2], vec![3], vec![4]]);
        made(&resident, &[(5, 5), (3, 20)]);
        assert_eq!(resident.groups(&values), [vec![2, 4], vec![0, 1], vec![3]]);
        assert_eq!(resident.groups(&[]), Vec::<Vec<usize>>::new());
    }
}
