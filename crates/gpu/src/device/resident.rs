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

    /// Whether there was one that could give way: what somebody holds frees no memory.
    fn give_way(&mut self) -> bool {
        let idle = self.values.iter().filter(|(_, entry)| Arc::strong_count(&entry.value) == 1);
        let last = idle.max_by_key(|(_, entry)| entry.last_use).map(|(&number, _)| number);
        last.is_some_and(|number| self.remove(number))
    }

    fn make_room(&mut self, bytes: usize, limit: usize) {
        while self.bytes + bytes > limit && self.give_way() {}
    }

    /// The value of this number, used now.
    fn find(&mut self, number: u64) -> Option<Arc<T>> {
        self.uses += 1;
        let entry = self.values.get_mut(&number)?;
        entry.last_use = self.uses;
        Some(entry.value.clone())
    }
}

impl<T> Resident<T> {
    /// At most `limit` bytes, but for what is at work together or is larger.
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
        {
            let mut state = self.lock();
            if let Some(value) = state.find(number) {
                return Ok(value);
            }
            state.make_room(bytes, self.limit);
        }
        // Nothing is locked meanwhile: values are made side by side, and a thread that makes one may
        // take up other tasks, which ask for values themselves.
        let made = loop {
            match make() {
                // The memory serves others too, so that it may be full before the limit is reached.
                Err(GpuError::OutOfMemory { .. }) if self.lock().give_way() => {}
                made => break Arc::new(made?),
            }
        };
        let mut state = self.lock();
        if let Some(value) = state.find(number) {
            return Ok(value);
        }
        state.make_room(bytes, self.limit);
        state.bytes += bytes;
        let last_use = state.uses;
        state.values.insert(number, Entry { value: made.clone(), bytes, last_use });
        Ok(made)
    }

    /// Whether so many bytes more would be within the limit.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.lock().bytes + bytes <= self.limit
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

    /// Places in a list of (numbers, bytes of all of these), in groups that fit together; what is there
    /// comes first, so that it is used before it gives way.
    pub(crate) fn groups(&self, values: &[(Vec<u64>, usize)]) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        {
            let state = self.lock();
            let is_there = |number: &u64| state.values.contains_key(number);
            order.sort_by_key(|&n| !values[n].0.iter().all(is_there));
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
    use std::sync::Barrier;

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
    fn threads_make_values_side_by_side_and_agree() {
        let resident = Resident::new(100);
        let all_make = Barrier::new(5);
        let make = |value: u64| {
            all_make.wait();
            Ok(value)
        };
        let found: Vec<Arc<u64>> = std::thread::scope(|scope| {
            let get = |number| {
                let (resident, make) = (&resident, &make);
                scope.spawn(move || resident.get(number, 10, || make(number)).expect("a value"))
            };
            let threads = [1, 2, 1, 2, 2].map(get);
            threads.map(|thread| thread.join().expect("no panic")).into()
        });
        assert_eq!(found.iter().map(|v| **v).collect::<Vec<_>>(), [1, 2, 1, 2, 2]);
        assert!(Arc::ptr_eq(&found[0], &found[2]) && Arc::ptr_eq(&found[1], &found[4]));
        assert_eq!(resident.bytes(), 20);
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
        let values = [(1, 10), (2, 10), (3, 20), (4, 40), (5, 5)].map(|(n, size)| (vec![n], size));
        assert_eq!(resident.groups(&values), [vec![0, 1], vec![2], vec![3], vec![4]]);
        made(&resident, &[(5, 5), (3, 20)]);
        assert_eq!(resident.groups(&values), [vec![2, 4], vec![0, 1], vec![3]]);
        assert_eq!(resident.groups(&[]), Vec::<Vec<usize>>::new());
        // One that is there in part comes after those that are there.
        let values = [(vec![3, 6], 20), (vec![3, 5], 20)];
        assert_eq!(resident.groups(&values), [vec![1], vec![0]]);
    }
}
