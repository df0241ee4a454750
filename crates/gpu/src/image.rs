//! A case on the device: the twin of `pbt_cpu::CpuImage`.

use crate::channels::{Channels, ChannelsKernels, DeviceChannels, bordered};
use crate::device::{Context, GpuError, Resident};
use crate::integral::{Integral, IntegralKernels};
use pbt_tree::ImageLayout;
use pbt_volume::{Geometry, Level, Volume};
use std::sync::Arc;

/// A case: its voxels on the host, and a claim to tables on the device. These are made when it is
/// uploaded; where memory is short they give way to those of other cases, and are made again when
/// they are needed.
pub struct GpuImage {
    number: u64,
    resident: Arc<Resident<Tables>>,
    pub(crate) geometries: Vec<Geometry>,
    /// Finest first; they share their voxels with the caller's.
    levels: Vec<Level>,
    layout: ImageLayout,
}

/// The tables of a case on the device.
pub(crate) struct Tables {
    integral: Option<Integral>,
    /// By level; `None` where the layout did not ask for channels.
    channels: Vec<Option<Channels>>,
}

impl GpuImage {
    /// Shape of the level with the integral volume, and how many voxels Haar features reach there.
    ///
    /// # Panics
    /// When the layout had none: a programming error of the caller.
    pub(crate) fn haar(&self) -> ([usize; 3], usize) {
        let (level, pad) =
            self.layout.haar.expect("the case was uploaded without an integral volume");
        (self.levels[level].shape(), pad)
    }

    /// # Panics
    /// When the layout did not ask for the channels of a level of `used`: a programming error of
    /// the caller.
    pub(crate) fn assert_channels(&self, used: impl Fn(usize) -> bool) {
        let lacking =
            (0..self.levels.len()).find(|n| used(*n) && !self.layout.channels.contains(n));
        assert!(
            lacking.is_none(),
            "the case was uploaded without the channels of level {lacking:?}"
        );
    }

    /// Bytes of its tables.
    fn bytes(&self) -> usize {
        let integral = self.layout.haar.map_or(0, |(level, pad)| {
            4 * self.levels[level].shape().map(|n| n + 2 * pad + 1).iter().product::<usize>()
        });
        let channels = |(_, level): (usize, &Level)| {
            8 * bordered(level.shape(), self.layout.padding).iter().product::<usize>()
        };
        integral
            + self
                .levels
                .iter()
                .enumerate()
                .filter(|(n, _)| self.layout.channels.contains(n))
                .map(channels)
                .sum::<usize>()
    }
}

impl Drop for GpuImage {
    fn drop(&mut self) {
        self.resident.forget(self.number);
    }
}

impl Tables {
    /// The integral volume.
    ///
    /// # Panics
    /// When the layout had none: a programming error of the caller.
    pub(crate) fn integral(&self) -> &Integral {
        self.integral.as_ref().expect("the case was uploaded without an integral volume")
    }

    /// The channels of all levels; those that the layout did not ask for are empty.
    pub(crate) fn device_channels(&self, device: &Context) -> Vec<DeviceChannels> {
        let of_level = |channels: &Option<Channels>| {
            channels.as_ref().map_or_else(DeviceChannels::default, |c| c.argument(device))
        };
        self.channels.iter().map(of_level).collect()
    }
}

/// The kernels that make the tables of cases, and the tables of the cases that were used last.
pub(crate) struct Images {
    pub(crate) integral: IntegralKernels,
    channels: ChannelsKernels,
    resident: Arc<Resident<Tables>>,
}

impl Images {
    /// Tables may fill at most so many bytes, or be those of a single case.
    pub(crate) fn load(device: &Context, bytes: usize) -> Result<Self, GpuError> {
        Ok(Self {
            integral: IntegralKernels::load(device)?,
            channels: ChannelsKernels::load(device)?,
            resident: Arc::new(Resident::new(bytes)),
        })
    }

    /// The same without cases and with another limit.
    pub(crate) fn with_limit(self, bytes: usize) -> Self {
        Self { resident: Arc::new(Resident::new(bytes)), ..self }
    }

    /// A case with its tables on the device.
    pub(crate) fn upload(
        &self,
        device: &Context,
        levels: &[Level],
        layout: &ImageLayout,
    ) -> Result<GpuImage, GpuError> {
        let image = GpuImage {
            number: self.resident.number(),
            resident: self.resident.clone(),
            geometries: levels.iter().map(|l| l.geometry().clone()).collect(),
            levels: levels.to_vec(),
            layout: layout.clone(),
        };
        self.tables(device, &image)?;
        Ok(image)
    }

    /// The tables of a case; whoever holds them keeps them on the device.
    pub(crate) fn tables(
        &self,
        device: &Context,
        image: &GpuImage,
    ) -> Result<Arc<Tables>, GpuError> {
        image
            .resident
            .get(image.number, image.bytes(), || self.make(device, &image.levels, &image.layout))
    }

    fn make(
        &self,
        device: &Context,
        levels: &[Level],
        layout: &ImageLayout,
    ) -> Result<Tables, GpuError> {
        let mut tables = Tables { integral: None, channels: Vec::new() };
        for (n, level) in levels.iter().enumerate() {
            let haar = layout.haar.filter(|&(l, _)| l == n);
            let channels = layout.channels.contains(&n);
            let volume = (haar.is_some() || channels).then(|| level.volume());
            let voxels = device.upload(volume.as_ref().map_or(&[][..], Volume::data))?;
            if let (Some((_, pad)), Some(volume)) = (haar, &volume) {
                let integral =
                    self.integral.integral(device, &voxels, volume, pad, layout.padding)?;
                tables.integral = Some(integral);
            }
            tables.channels.push(if channels {
                Some(self.channels.channels(device, &voxels, level.shape(), layout.padding)?)
            } else {
                None
            });
        }
        Ok(tables)
    }

    /// Gives `work` the tables of the needed ones of some cases, all at once or, where they do not
    /// fit together, group by group: `None` for the cases of other groups.
    pub(crate) fn with_tables(
        &self,
        device: &Context,
        images: &[&GpuImage],
        needed: impl Fn(usize) -> bool,
        mut work: impl FnMut(&[Option<Arc<Tables>>]) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let needed: Vec<usize> = (0..images.len()).filter(|&n| needed(n)).collect();
        let sizes: Vec<(u64, usize)> =
            needed.iter().map(|&n| (images[n].number, images[n].bytes())).collect();
        for group in self.resident.groups(&sizes) {
            let mut tables = vec![None; images.len()];
            for n in group {
                tables[needed[n]] = Some(self.tables(device, images[needed[n]])?);
            }
            work(&tables)?;
        }
        Ok(())
    }
}

/// Which of `count` images have sites.
pub(crate) fn images_with_sites(count: usize, image_of_site: &[u32]) -> Vec<bool> {
    let mut with_sites = vec![false; count];
    image_of_site.iter().for_each(|&n| with_sites[n as usize] = true);
    with_sites
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_device;
    use pbt_volume::{IntegralVolume, Padding};

    #[test]
    fn few_images_are_there_at_a_time_cuda() {
        let Some(gpu) = test_device() else { return };
        let volume = |n: usize| {
            let geometry = Geometry::isotropic([20 + n, 30, 25], 1.0).expect("a grid");
            Volume::from_fn(geometry, |i, j, k| ((i * 7 + j * 31 + k * 3 + n * 101) % 4096) as u16)
        };
        let volumes: Vec<Volume<u16>> = (0..6).map(volume).collect();
        let layout = ImageLayout { padding: Padding::Zero, haar: Some((0, 3)), channels: vec![0] };
        let limit = 900_000;
        let gpu = gpu.with_image_limit(limit);
        let images: Vec<GpuImage> = volumes
            .iter()
            .map(|v| {
                gpu.images.upload(&gpu.device, &[v.clone().into()], &layout).expect("an image")
            })
            .collect();
        let all: usize = images.iter().map(GpuImage::bytes).sum();
        assert!(all > limit && images.iter().all(|i| 2 * i.bytes() < limit), "{all} bytes");
        for n in [0, 1, 2, 3, 4, 5, 0, 5, 1] {
            let expected = IntegralVolume::new(&volumes[n], 3, Padding::Zero);
            let table = gpu.read_table(&images[n]).expect("a table");
            assert!(table == expected.table(), "image {n}");
            assert_eq!(
                4 * table.len() + 8 * [22 + n, 32, 27].iter().product::<usize>(),
                images[n].bytes()
            );
            assert!((1..=limit).contains(&gpu.images.resident.bytes()));
        }
        // All of them in one call, in groups.
        let (mut calls, mut seen) = (0, vec![0; images.len()]);
        let references: Vec<&GpuImage> = images.iter().collect();
        let count = |there: &[Option<Arc<Tables>>]| {
            calls += 1;
            there
                .iter()
                .zip(&mut seen)
                .for_each(|(tables, seen)| *seen += usize::from(tables.is_some()));
            Ok(())
        };
        gpu.images.with_tables(&gpu.device, &references, |n| n != 4, count).expect("tables");
        assert_eq!(seen, [1, 1, 1, 1, 0, 1]);
        assert!((2..6).contains(&calls), "{calls} calls");
        drop(images);
        assert_eq!(gpu.images.resident.bytes(), 0);
    }
}
