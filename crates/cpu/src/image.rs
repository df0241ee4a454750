//! A case as the CPU backend keeps it.

use crate::room::{self, Roomy};
use pbt_features::ChannelVolume;
use pbt_tree::ImageLayout;
use pbt_volume::{Geometry, IntegralVolume, Level, Padding};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The tables of one case. They are made where somebody looks, and forgotten where those of all
/// cases together take too much memory (`room.rs`): whoever looks again makes them again.
#[derive(Debug)]
pub struct CpuImage {
    pub(crate) geometries: Vec<Geometry>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// By level, what its channels are made of.
    sampled: Vec<Option<Level>>,
    integral: Integral,
    padding: Padding,
    tables: RwLock<Arc<Tables>>,
    /// When somebody looked last.
    used: AtomicU64,
}

/// Where the integral volume comes from.
#[derive(Debug, Clone)]
enum Integral {
    /// The layout asks for none.
    None,
    /// Of a level in memory: made at once, since its voxels are not kept for it.
    Made(Arc<IntegralVolume>),
    /// Of a level in a file, with so much padding: made where it is wanted.
    Of(Box<Level>, usize),
}

/// What was made of a case so far.
#[derive(Debug)]
pub(crate) struct Tables {
    integral: OnceLock<Arc<IntegralVolume>>,
    /// Where to make it, and what to count.
    source: Integral,
    padding: Padding,
    counted: AtomicU64,
    /// By level; `None` where the layout did not ask for channels.
    channels: Vec<Option<ChannelVolume>>,
}

impl CpuImage {
    pub(crate) fn new(levels: &[Level], layout: &ImageLayout) -> Self {
        let sampled =
            |(n, level): (usize, &Level)| layout.channels.contains(&n).then(|| level.clone());
        let integral = match layout.haar {
            None => Integral::None,
            Some((level, pad)) => match &levels[level] {
                Level::Held(volume) => {
                    Integral::Made(Arc::new(IntegralVolume::new(volume, pad, layout.padding)))
                }
                stored @ Level::Stored(_) => Integral::Of(Box::new(stored.clone()), pad),
            },
        };
        let sampled: Vec<Option<Level>> = levels.iter().enumerate().map(sampled).collect();
        let tables = RwLock::new(Arc::new(Tables::new(&sampled, &integral, layout.padding)));
        let used = AtomicU64::new(0);
        let shared = Shared { sampled, integral, padding: layout.padding, tables, used };
        let shared = Arc::new(shared);
        room::register(&shared);
        Self { geometries: levels.iter().map(|l| l.geometry().clone()).collect(), shared }
    }

    /// The tables, which stay while somebody has them.
    pub(crate) fn tables(&self) -> Arc<Tables> {
        let tables = self.shared.now();
        self.shared.used.store(room::tick(), Ordering::Relaxed);
        room::make(&self.shared);
        tables
    }

    /// Bytes that [`Tables::integral`] takes, where it is made when it is wanted.
    pub(crate) fn integral_bytes(&self) -> usize {
        match &self.shared.integral {
            Integral::Of(level, pad) => integral_bytes(level, *pad),
            Integral::None | Integral::Made(_) => 0,
        }
    }
}

fn integral_bytes(level: &Level, pad: usize) -> usize {
    4 * level.shape().iter().map(|n| n + 2 * pad + 1).product::<usize>()
}

impl Shared {
    fn now(&self) -> Arc<Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Roomy for Shared {
    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        // Who looks just now goes on with what is there, and would make the same again.
        if Arc::strong_count(&tables) == 1 {
            *tables = Arc::new(Tables::new(&self.sampled, &self.integral, self.padding));
        }
    }
}

impl Tables {
    fn new(sampled: &[Option<Level>], source: &Integral, padding: Padding) -> Self {
        let channels = |level: &Option<Level>| {
            Some(ChannelVolume::metered(level.as_ref()?, padding, room::meter()))
        };
        let integral = match source {
            Integral::Made(made) => OnceLock::from(made.clone()),
            Integral::None | Integral::Of(..) => OnceLock::new(),
        };
        Self {
            integral,
            source: source.clone(),
            padding,
            counted: AtomicU64::new(0),
            channels: sampled.iter().map(channels).collect(),
        }
    }

    /// The integral volume. Threads are put to work to make it, so that it must not be asked for first
    /// by several of them.
    ///
    /// # Panics
    /// When the layout had none: a programming error of the caller.
    pub(crate) fn integral(&self) -> &IntegralVolume {
        if let (None, Integral::Of(level, pad)) = (self.integral.get(), &self.source) {
            // Not within `get_or_init`: a thread that waits for others there may take up work that
            // asks for the same.
            let made = IntegralVolume::new(&level.volume(), *pad, self.padding);
            if self.integral.set(Arc::new(made)).is_ok() {
                let bytes = integral_bytes(level, *pad);
                room::meter().add(bytes);
                self.counted.store(bytes as u64, Ordering::Relaxed);
            }
        }
        self.integral.get().expect("the case was uploaded without an integral volume")
    }

    /// The channels of a level.
    ///
    /// # Panics
    /// When the layout did not ask for that level: a programming error of the caller.
    pub(crate) fn channels(&self, level: u8) -> &ChannelVolume {
        self.channels[usize::from(level)]
            .as_ref()
            .expect("the case was uploaded without the channels of this level")
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        room::meter().remove(self.counted.load(Ordering::Relaxed) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{Scratch, Volume};

    fn levels() -> [Level; 2] {
        let volume = Volume::from_fn(Geometry::isotropic([37, 20, 18], 1.0).unwrap(), |i, j, k| {
            ((i * 7919 + j * 104_729 + k * 1_299_709).wrapping_mul(2_654_435_761) >> 7 & 4095)
                as u16
        });
        let scratch = Arc::new(Scratch::new(&std::env::temp_dir()).unwrap());
        let held = Level::from(volume);
        let stored = held.stored(&scratch).unwrap();
        [held, stored]
    }

    #[test]
    fn what_is_forgotten_is_made_again() {
        let layout = ImageLayout { padding: Padding::Edge, haar: Some((0, 3)), channels: vec![0] };
        let images = levels().map(|level| CpuImage::new(&[level], &layout));
        assert!(images[0].integral_bytes() == 0 && images[1].integral_bytes() == 44 * 27 * 25 * 4);
        let [held, stored] = images.each_ref().map(CpuImage::tables);
        let same = |stored: &Tables| {
            assert_eq!(held.integral(), stored.integral());
            for n in 0..400i32 {
                let at = [n * 6007 - 9000, n * 3001, n * 2900];
                assert_eq!(held.channels(0).sample(at), stored.channels(0).sample(at));
            }
        };
        same(&stored);
        // Not while somebody looks.
        images[1].shared.forget();
        assert!(Arc::ptr_eq(&stored, &images[1].shared.now()));
        let dropped = Arc::downgrade(&stored);
        drop(stored);
        images[1].shared.forget();
        assert!(dropped.upgrade().is_none());
        same(&images[1].tables());
    }
}
