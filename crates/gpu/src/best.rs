//! The best of many scores on the device: the twin of `pbt_tree::best_indices`.

use crate::constants::{BEST_THREADS, DRAWN, SORTED};
use crate::device::{Context, GpuError, launch, module};
use cudarc::driver::{CudaFunction, CudaSlice, DeviceRepr, LaunchConfig};
use pbt_tree::{Score, best_indices};

/// Scores that are drawn, at most; at most every second one.
const MOST_DRAWN: usize = 2 * (DRAWN * BEST_THREADS) as usize;
/// As many scores or fewer are not worth drawing from.
const FEW: usize = 1 << 14;
/// Most scores on the list from which the best are taken.
const LISTED: usize = 1 << 18;

/// The kernels of `best.cu`.
pub(crate) struct BestKernels {
    draw: CudaFunction,
    threshold: CudaFunction,
    filter: CudaFunction,
    select: CudaFunction,
}

impl BestKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "best")?;
        let load = |name| module.load_function(name);
        Ok(Self {
            draw: load("best_draw")?,
            threshold: load("best_threshold")?,
            filter: load("best_filter")?,
            select: load("best_select")?,
        })
    }
}

/// `Key` of `best.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Key {
    score: u64,
    order: u32,
    _unused: u32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for Key {}

/// The best of many scores, on the device.
pub struct BestScores {
    /// How many reached the threshold, then the scores, then their indices.
    words: CudaSlice<i64>,
    wanted: usize,
    listed: usize,
}

/// Scores, on the host.
pub(crate) fn read_scores(
    device: &Context,
    scores: &CudaSlice<i64>,
) -> Result<Vec<Score>, GpuError> {
    let mut words = vec![0; scores.len()];
    device.read(scores, &mut words)?;
    Ok(words.into_iter().map(Score).collect())
}

impl BestKernels {
    /// Looks for the `k` best scores without waiting for them; `None` where the kernels do not take
    /// so many: k 0 or above 2048, or 2³² scores.
    pub(crate) fn find_best(
        &self,
        device: &Context,
        scores: &CudaSlice<i64>,
        k: usize,
    ) -> Result<Option<BestScores>, GpuError> {
        self.find_best_listing(device, scores, k, LISTED)
    }

    fn find_best_listing(
        &self,
        device: &Context,
        scores: &CudaSlice<i64>,
        k: usize,
        listed: usize,
    ) -> Result<Option<BestScores>, GpuError> {
        let wanted = k.min(scores.len());
        let Ok(count) = u32::try_from(scores.len()) else { return Ok(None) };
        if wanted == 0 || wanted > SORTED {
            return Ok(None);
        }
        let listed = listed.min(scores.len());
        // SAFETY: what is read of them was written by the kernel before.
        let (mut drawn, mut threshold, mut reached, mut list, mut words) = unsafe {
            let drawn = device.alloc::<Key>(BEST_THREADS as usize)?;
            (
                drawn,
                device.alloc::<Key>(1)?,
                device.alloc::<u32>(1)?,
                device.alloc::<Key>(listed)?,
                device.alloc::<i64>(1 + 2 * wanted)?,
            )
        };
        let config = |blocks: u32, threads: u32| LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut rank = 0;
        if scores.len() > FEW {
            let parts = MOST_DRAWN.min(scores.len() / 2);
            // So many of the best are expected among the drawn; above them by far more than chance
            // explains.
            let expected = wanted * parts / scores.len();
            rank = (expected + 6 * expected.isqrt() + 6).min(BEST_THREADS as usize) as u32;
            launch!(
                device,
                &self.draw,
                config(DRAWN, BEST_THREADS),
                scores,
                &count,
                &(parts as u32),
                &mut drawn
            )?;
        }
        launch!(
            device,
            &self.threshold,
            config(1, BEST_THREADS),
            &drawn,
            &rank,
            &mut threshold,
            &mut reached
        )?;
        let filter = config(8 * device.multiprocessors as u32, 256);
        launch!(
            device,
            &self.filter,
            filter,
            scores,
            &count,
            &threshold,
            &(listed as u32),
            &mut list,
            &mut reached
        )?;
        let select = config(1, BEST_THREADS);
        launch!(
            device,
            &self.select,
            select,
            &list,
            &(listed as u32),
            &reached,
            &(wanted as u32),
            &mut words
        )?;
        Ok(Some(BestScores { words, wanted, listed }))
    }

    /// The indices of the best scores with the scores, the best first; `None` where the device
    /// could not tell: too many reached the threshold or too few.
    fn read_best(
        device: &Context,
        best: &BestScores,
    ) -> Result<Option<Vec<(usize, Score)>>, GpuError> {
        let mut words = vec![0; best.words.len()];
        device.read(&best.words, &mut words)?;
        let reached = words[0] as usize;
        if reached < best.wanted || reached > best.listed {
            return Ok(None);
        }
        let (scores, indices) = words[1..1 + 2 * best.wanted].split_at(best.wanted);
        Ok(Some(
            indices.iter().zip(scores).map(|(&n, &score)| (n as usize, Score(score))).collect(),
        ))
    }

    /// The indices of the `k` best of the scores with the scores, the best first, the lower index
    /// first where scores tie.
    pub(crate) fn best_scores(
        &self,
        device: &Context,
        scores: &CudaSlice<i64>,
        k: usize,
    ) -> Result<Vec<(usize, Score)>, GpuError> {
        self.best_scores_listing(device, scores, k, LISTED)
    }

    fn best_scores_listing(
        &self,
        device: &Context,
        scores: &CudaSlice<i64>,
        k: usize,
        listed: usize,
    ) -> Result<Vec<(usize, Score)>, GpuError> {
        if let Some(best) = self.find_best_listing(device, scores, k, listed)?
            && let Some(best) = Self::read_best(device, &best)?
        {
            return Ok(best);
        }
        let scores = read_scores(device, scores)?;
        Ok(best_indices(&scores, k).into_iter().map(|n| (n, scores[n])).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list that is too short: the host chooses.
    #[test]
    fn too_short_a_list_changes_nothing_cuda() {
        let Some(gpu) = crate::gpu::test_device() else { return };
        let scores: Vec<Score> =
            (0..100_000i64).map(|n| Score(n.wrapping_mul(0x1e37_79b9_7f4a_7c15) >> 40)).collect();
        let on_device = gpu.upload_scores(&scores).expect("scores");
        let best = gpu
            .best
            .find_best_listing(&gpu.device, &on_device, 100, 50)
            .expect("launches")
            .expect("few are wanted");
        assert_eq!(BestKernels::read_best(&gpu.device, &best), Ok(None));
        let found =
            gpu.best.best_scores_listing(&gpu.device, &on_device, 100, 50).expect("the best");
        assert_eq!(found, gpu.best_scores(&on_device, 100).expect("the best"));
        assert_eq!(found.iter().map(|&(n, _)| n).collect::<Vec<_>>(), best_indices(&scores, 100));
    }
}
