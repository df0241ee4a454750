//! What is on the device at a time: a bounded number of bytes, of which the least recently used
//! gives way.

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

struct Entry<T> {
    value: Arc<T>,
    bytes: usize,
    last_use: u64,
}

impl<T> State<T> {
    fn remove(&mut self, number: u64) -> bool {
        let removed = self.values.remove(&number);
        self.bytes -= removed.as_ref().map_or(0, |entry| entry.bytes);
        removed.is_some()
    }

    /// Whether there was one that could give way.
    fn give_way(&mut self) -> bool {
        let oldest =
            self.values.iter().min_by_key(|(_, entry)| entry.last_use).map(|(&number, _)| number);
        oldest.is_some_and(|number| self.remove(number))
    }
}

impl<T> Resident<T> {
    /// At most `limit` bytes, but for a single value that is larger.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            state: Mutex::new(State { values: BTreeMap::new(), bytes: 0, numbers: 0, uses: 0 }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a value, never given before.
    pub(crate) fn number(&self) -> u64 {
        let mut state = self.lock();
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
        let mut state = self.lock();
        state.uses += 1;
        let last_use = state.uses;
        if let Some(entry) = state.values.get_mut(&number) {
            entry.last_use = last_use;
            return Ok(entry.value.clone());
        }
        while state.bytes + bytes > self.limit && state.give_way() {}
        let value = loop {
            match make() {
                // The memory serves others too, so that it may be full before the limit is reached.
                Err(GpuError::OutOfMemory { .. }) if state.give_way() => {}
                made => break Arc::new(made?),
            }
        };
        state.bytes += bytes;
        state.values.insert(number, Entry { value: value.clone(), bytes, last_use });
        Ok(value)
    }

    /// Bytes of what is there.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Forgets a value for good.
    pub(crate) fn forget(&self, number: u64) {
        self.lock().remove(number);
    }

    /// Places in a list of (number, bytes), in groups that fit together; what is there comes first,
    /// so that it is used before it gives way.
    pub(crate) fn groups(&self, values: &[(u64, usize)]) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        {
            let state = self.lock();
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
    fn the_least_recently_used_gives_way() {
        let resident = Resident::new(30);
        assert_eq!(made(&resident, &[(1, 10), (2, 10), (3, 10), (1, 10)]), [1, 2, 3]);
        assert_eq!(made(&resident, &[(4, 10), (1, 10), (3, 10), (2, 10)]), [4, 2]);
        // One that needs the place of two, and one that is larger than the limit.
        assert_eq!(made(&resident, &[(5, 20), (2, 10), (5, 20), (3, 10)]), [5, 3]);
        assert_eq!(made(&resident, &[(6, 31), (6, 31), (3, 10), (6, 31)]), [6, 3, 6]);
        resident.forget(6);
        resident.forget(6);
        assert_eq!(made(&resident, &[(7, 15), (8, 15), (7, 15), (8, 15)]), [7, 8]);
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
        assert_eq!(made(&resident, &[(3, 10), (4, 10), (1, 10), (2, 10)]), [1, 2]);
        attempts.replace(0);
        assert_eq!(resident.get(5, 10, || make(0)).err(), Some(full.clone()));
        assert_eq!(*attempts.borrow(), 5);
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
