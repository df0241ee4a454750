//! Work whose parts do not need each other: trainings of parts of the cases, detections in held-out ones.

use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fewest threads to do parts side by side: each leaves many threads idle for much of its time.
const MANY_THREADS: usize = 8;

/// Threads a part.
const THREADS: usize = 2;

/// Most parts at a time, each of which takes memory of its own.
const AT_A_TIME: usize = 8;

/// How many of so many trainings, or detections in whole images, go on at a time.
pub fn at_a_time(parts: usize, threads: usize) -> usize {
    if threads >= MANY_THREADS { parts.min(threads / THREADS).min(AT_A_TIME) } else { parts.min(1) }
}

/// What `part` makes of each number below `count`, in their order: so many at a time.
pub(crate) fn each<T: Send, E: Send>(
    count: usize,
    at_a_time: usize,
    part: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    if at_a_time <= 1 {
        return (0..count).map(part).collect();
    }
    let next = AtomicUsize::new(0);
    let one_after_the_other = |_| {
        let mut own = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return own;
            }
            let made = part(n);
            if made.is_err() {
                next.store(count, Ordering::Relaxed);
            }
            own.push((n, made));
        }
    };
    let own: Vec<Vec<(usize, Result<T, E>)>> =
        (0..at_a_time.min(count)).into_par_iter().map(one_after_the_other).collect();
    let mut all: Vec<(usize, Result<T, E>)> = own.into_iter().flatten().collect();
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_errors_are_as_if_one_was_done_after_the_other() {
        for at_a_time in [0, 1, 2, 4, 100] {
            let of = |count| each(count, at_a_time, |n| if n < 5 { Ok(n * n) } else { Err(n) });
            assert_eq!(of(5), Ok(vec![0, 1, 4, 9, 16]));
            assert_eq!(of(0), Ok(vec![]));
            assert_eq!(of(6), Err(5));
        }
    }
}
