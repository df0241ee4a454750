//! Small requests that threads make at the same time, served together: each call of the driver costs
//! microseconds in which no other thread can call it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Requests that wait to be served.
pub(crate) struct Gathered<Q, A> {
    waiting: Mutex<Vec<Waiting<Q, A>>>,
    turn: Mutex<()>,
}

/// A request, and where its answer goes.
type Waiting<Q, A> = (Q, Arc<Mutex<Option<A>>>);

impl<Q, A> Default for Gathered<Q, A> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), turn: Mutex::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<Q, A> Gathered<Q, A> {
    /// The answer to a request. `serve` answers several in their order; while one thread is at it, what
    /// others ask gathers.
    ///
    /// # Panics
    /// Where `serve` does, in all threads that wait for it.
    pub(crate) fn ask(&self, request: Q, serve: impl Fn(Vec<Q>) -> Vec<A>) -> A {
        let answer = Arc::default();
        lock(&self.waiting).push((request, Arc::clone(&answer)));
        loop {
            let turn = match self.turn.try_lock() {
                Ok(turn) => Some(turn),
                Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            // Another thread may have served it meanwhile.
            if let Some(answer) = lock(&answer).take() {
                return answer;
            }
            if turn.is_some() {
                let all = std::mem::take(&mut *lock(&self.waiting));
                assert!(!all.is_empty(), "the thread that served this request failed");
                let (requests, answers): (Vec<Q>, Vec<_>) = all.into_iter().unzip();
                for (to, answer) in answers.iter().zip(serve(requests)) {
                    *lock(to) = Some(answer);
                }
            } else {
                // As the driver does while it waits for the device.
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_request_has_its_own_answer_and_some_are_served_together() {
        let gathered = Gathered::default();
        let most = AtomicUsize::new(0);
        let serve = |requests: Vec<usize>| {
            most.fetch_max(requests.len(), Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(2));
            requests.iter().map(|n| n * n).collect()
        };
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (gathered, serve) = (&gathered, &serve);
                scope.spawn(move || {
                    for n in 0..20 {
                        let n = 1000 * thread + n;
                        assert_eq!(gathered.ask(n, serve), n * n);
                    }
                });
            }
        });
        assert!(most.into_inner() > 1);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_failed() {
        let gathered = Gathered::<u8, u8>::default();
        std::thread::scope(|scope| {
            let fails = || {
                scope.spawn(|| {
                    gathered.ask(1, |_| {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        panic!("on purpose")
                    })
                })
            };
            let threads = [fails(), fails(), fails()];
            assert!(threads.map(|thread| thread.join().is_err()).into_iter().all(|failed| failed));
        });
        assert_eq!(gathered.ask(1, |requests| vec![7; requests.len()]), 7);
    }
}
