//! The cases of a batch side by side: loading, detection, results.

use super::cases::BatchCase;
use super::state::{FailedCase, State};
use crate::Failure;
use crate::progress::CaseProgress;
use crate::session::{
    Crops, Device, LoadedModel, VoxelOutput, Watcher, admit, label_image, mark_unfinished,
    write_results,
};
use pbt_detect::DetectError;
use pbt_io::Image;
use pbt_volume::{MemoryShare, MemoryShares, memory_limit};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// An image on its way from loading to detection, with the memory that is its own until its result
/// is written.
struct LoadedImage<'a> {
    place: usize,
    image: Result<(Image, MemoryShare<'a>), Failure>,
    seconds: f64,
}

/// What [`detect_all`] goes through.
pub(super) struct Work<'a> {
    pub(super) cases: &'a [BatchCase],
    pub(super) to_do: &'a [usize],
    pub(super) model: &'a LoadedModel,
    pub(super) device: &'a Device,
    pub(super) output: &'a Path,
    pub(super) voxels: VoxelOutput,
    pub(super) no_paths: bool,
    pub(super) crops: &'a Crops,
}

/// How a case went.
pub(super) struct Done {
    pub(super) place: usize,
    pub(super) state: State,
    pub(super) load_seconds: f64,
    pub(super) detect_seconds: f64,
}

/// Cases in detection at a time on a CPU with several threads: while one is at work that does not
/// divide, the other has the cores.
const AT_A_TIME: usize = 2;

/// Detects in the cases and writes their results, while the next image is being loaded: at most
/// four are in memory, two in detection, one waiting, one being read; fewer where the memory is not
/// enough for all. With a single thread, or on a
/// GPU, they are detected one by one; with a single thread loading waits, too.
///
/// # Errors
/// What ends the whole batch: a full disk, an interruption. An image that cannot be used, or a
/// result that cannot be written, is a failed case.
pub(super) fn detect_all(
    work: &Work<'_>,
    progress: &CaseProgress,
    mut report: impl FnMut(Done),
) -> Result<(), Failure> {
    let memory = MemoryShares::new(memory_limit());
    let mut images = work.to_do.iter().map(|&place| load(work, &memory, place));
    let mut note = |done: Result<Done, Failure>| -> Result<(), Failure> {
        report(done?);
        progress.done();
        Ok(())
    };
    if work.device.record.threads == 1 {
        return images.try_for_each(|loaded| note(detect_one(work, progress, loaded)));
    }
    let ended = AtomicBool::new(false);
    let (loader, loaded) = sync_channel::<LoadedImage>(1);
    let (reporter, done) = sync_channel(1);
    let at_a_time = if work.device.is_gpu() { 1 } else { AT_A_TIME };
    let no_thread = |e: std::io::Error| {
        Failure::other(format!("threads: cannot be made: {e} (use --threads 1)"))
    };
    std::thread::scope(|scope| {
        let ended = &ended;
        let loading = move || {
            images.all(|loaded| !ended.load(Ordering::Relaxed) && loader.send(loaded).is_ok())
        };
        std::thread::Builder::new().spawn_scoped(scope, loading).map_err(no_thread)?;
        let loaded = Arc::new(Mutex::new(loaded));
        for reporter in vec![reporter; at_a_time] {
            let loaded = Arc::clone(&loaded);
            let detecting = move || {
                let next = || loaded.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
                let mut done =
                    std::iter::from_fn(next).map(|loaded| detect_one(work, progress, loaded));
                done.all(|done| reporter.send(done).is_ok() && !ended.load(Ordering::Relaxed))
            };
            if let Err(e) = std::thread::Builder::new().spawn_scoped(scope, detecting) {
                ended.store(true, Ordering::Relaxed);
                return Err(no_thread(e));
            }
        }
        drop(loaded);
        // After a failure, what the other thread has at hand is still written and noted.
        let mut outcome = Ok(());
        for done in done {
            let noted = note(done);
            outcome = outcome.and(noted);
            ended.fetch_or(outcome.is_err(), Ordering::Relaxed);
        }
        outcome
    })
}

fn load<'a>(work: &Work<'_>, memory: &'a MemoryShares, place: usize) -> LoadedImage<'a> {
    let case = &work.cases[place];
    let started = Instant::now();
    let mut waited = 0.0;
    let image = admit(work.model, case.input()).and_then(|admitted| {
        let waiting = Instant::now();
        let share = memory.take(admitted.memory_bytes);
        waited = waiting.elapsed().as_secs_f64();
        Ok((admitted.read()?, share))
    });
    LoadedImage { place, image, seconds: started.elapsed().as_secs_f64() - waited }
}

fn detect_one(
    work: &Work<'_>,
    progress: &CaseProgress,
    loaded: LoadedImage<'_>,
) -> Result<Done, Failure> {
    if progress.interrupted() {
        return Err(DetectError::Interrupted.into());
    }
    let LoadedImage { place, image, seconds: load_seconds } = loaded;
    let case = &work.cases[place];
    progress.case(&case.id);
    let begun = Instant::now();
    let result = image.and_then(|(image, _share)| {
        let input = case.input();
        let mut found =
            label_image(work.model, input, &image, load_seconds * 1e3, (work.device, work.voxels))?;
        if work.no_paths {
            found.result = found.result.without_paths();
        }
        work.crops.check_places(work.output, input.case_id)?;
        let cut = work.crops.cut(work.output, input, &found)?;
        write_results(work.output, &found, work.voxels)?;
        let written = cut.write();
        for note in written.inspect_err(|_| mark_unfinished(work.output, input.case_id))? {
            progress.warn(&format!("{}: --crop: {note}", case.id));
        }
        Ok(found.result)
    });
    let state = match result {
        Ok(result) => State::of_result(&result),
        Err(failure) if failure.is_disk() => return Err(failure),
        Err(failure) => {
            progress.failed(&case.id, &failure);
            let (path, reason) = match work.no_paths {
                true => (String::new(), failure.without_file()),
                false => (case.path.display().to_string(), failure.to_string()),
            };
            State::Failed(FailedCase { case_id: case.id.clone(), path, reason })
        }
    };
    Ok(Done { place, state, load_seconds, detect_seconds: begun.elapsed().as_secs_f64() })
}
