//! A case as the CPU backend keeps it.

use pbt_features::ChannelVolume;
use pbt_tree::ImageLayout;
use pbt_volume::{Geometry, IntegralVolume, Level};

/// The tables of one case.
#[derive(Debug)]
pub struct CpuImage {
    pub(crate) geometries: Vec<Geometry>,
    pub(crate) integral: Option<IntegralVolume>,
    /// By level; `None` where the layout did not ask for channels.
    pub(crate) channels: Vec<Option<ChannelVolume>>,
}

impl CpuImage {
    pub(crate) fn new(levels: &[Level], layout: &ImageLayout) -> Self {
        Self {
            geometries: levels.iter().map(|l| l.geometry().clone()).collect(),
            integral: layout.haar.map(|(level, pad)| {
                IntegralVolume::new(&levels[level].volume(), pad, layout.padding)
            }),
            channels: levels
                .iter()
                .enumerate()
                .map(|(n, level)| {
                    layout.channels.contains(&n).then(|| ChannelVolume::new(level, layout.padding))
                })
                .collect(),
        }
    }

    /// The integral volume.
    ///
    /// # Panics
    /// When the layout had none: a programming error of the caller.
    pub(crate) fn integral(&self) -> &IntegralVolume {
        self.integral.as_ref().expect("the case was uploaded without an integral volume")
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
