//! The pool of CPU threads.

use rayon::{ThreadBuilder, ThreadPoolBuilder};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Installs the pool of CPU threads, all cores where no number is given, and returns their number.
/// Where the system does not give that many (`ulimit -u`, a control group), the calling thread does
/// all the work; results do not depend on it. Later calls in one process keep the first pool.
pub fn install_threads(threads: Option<u16>) -> usize {
    static INSTALLED: OnceLock<usize> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.map_or_else(cores, usize::from);
        let installed = match workers(threads) {
            // Rayon tries once to make its pool, so that the threads must be there before.
            Some(workers) => {
                let mut workers = workers.into_iter();
                let hand_over = |work| {
                    let worker = workers.next().ok_or(std::io::ErrorKind::WouldBlock)?;
                    worker.send(work).map_err(|_| std::io::ErrorKind::BrokenPipe.into())
                };
                ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .spawn_handler(hand_over)
                    .build_global()
                    .map(|()| threads)
            }
            None => ThreadPoolBuilder::new()
                .num_threads(1)
                .use_current_thread()
                .build_global()
                .map(|()| 1),
        };
        // Who embeds the library may have a pool of its own.
        installed.unwrap_or_else(|_| rayon::current_num_threads())
    })
}

/// So many threads that wait for what they are to do, or none.
fn workers(threads: usize) -> Option<Vec<Sender<ThreadBuilder>>> {
    let mut workers: Vec<(Sender<ThreadBuilder>, JoinHandle<()>)> = Vec::with_capacity(threads);
    for n in 0..threads {
        let (sender, receiver) = channel::<ThreadBuilder>();
        let wait = move || receiver.into_iter().take(1).for_each(ThreadBuilder::run);
        match std::thread::Builder::new().name(format!("worker {n}")).spawn(wait) {
            Ok(thread) => workers.push((sender, thread)),
            Err(_) => {
                // Those that are there make room for the few that other things need.
                for (sender, thread) in workers {
                    drop(sender);
                    let _ = thread.join();
                }
                return None;
            }
        }
    }
    Some(workers.into_iter().map(|(sender, _)| sender).collect())
}
