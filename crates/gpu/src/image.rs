//! A case on the device: the twin of `pbt_cpu::CpuImage`.

use crate::channels::{Channels, ChannelsKernels, DeviceChannels, bordered};
use crate::device::{Context, GpuError, Resident};
use crate::integral::{Integral, IntegralKernels};
use pbt_tree::ImageLayout;
use pbt_volume::{Geometry, Level};
use std::sync::Arc;

/// A case: its voxels on the host, and a claim to tables of its levels on the device. These are made
/// when it is uploaded, as far as there is room, and where they are needed; they give way to those of
/// other cases.
pub struct GpuImage {
    /// By level, the number of its tables.
    numbers: Vec<u64>,
    resident: Arc<Resident<LevelTables>>,
    pub(crate) geometries: Vec<Geometry>,
    /// Finest first; they share their voxels with the caller's.
    levels: Vec<Level>,
    layout: ImageLayout,
}

/// What is made of a level of a case on the device, as far as the layout asks for it.
pub(crate) struct LevelTables {
    integral: Option<Integral>,
    channels: Option<Channels>,
}

/// The tables of those levels of a case that are needed. Whoever holds them keeps them on the device.
pub(crate) struct Tables(Vec<Option<Arc<LevelTables>>>);

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

    /// Whether this is the level with the integral volume.
    pub(crate) fn has_integral(&self, level: usize) -> bool {
        self.layout.haar.is_some_and(|(of, _)| of == level)
    }

    /// Bytes of the tables of a level.
    fn bytes(&self, level: usize) -> usize {
        let shape = self.levels[level].shape();
        let integral = self
            .layout
            .haar
            .filter(|&(of, _)| of == level)
            .map_or(0, |(_, pad)| 4 * shape.map(|n| n + 2 * pad + 1).iter().product::<usize>());
        let channels = match self.layout.channels.contains(&level) {
            true => 8 * bordered(shape, self.layout.padding).iter().product::<usize>(),
            false => 0,
        };
        integral + channels
    }

    /// The levels among these that have tables.
    fn levels_with_tables(&self, used: impl Fn(usize) -> bool) -> impl Iterator<Item = usize> {
        (0..self.levels.len()).filter(move |&level| used(level) && self.bytes(level) > 0)
    }
}

impl Drop for GpuImage {
    fn drop(&mut self) {
        self.numbers.iter().for_each(|&number| self.resident.forget(number));
    }
}

impl Tables {
    /// The integral volume.
    ///
    /// # Panics
    /// When the layout had none: a programming error of the caller.
    pub(crate) fn integral(&self) -> &Integral {
        let mut levels = self.0.iter().flatten();
        let found = levels.find_map(|level| level.integral.as_ref());
        found.expect("the case was uploaded without an integral volume")
    }

    /// The channels of all levels; those that are not needed, or that the layout did not ask for, are
    /// empty.
    pub(crate) fn device_channels(&self, device: &Context) -> Vec<DeviceChannels> {
        let of_level = |level: &Option<Arc<LevelTables>>| {
            let channels = level.as_ref().and_then(|level| level.channels.as_ref());
            channels.map_or_else(DeviceChannels::default, |c| c.argument(device))
        };
        self.0.iter().map(of_level).collect()
    }
}

/// The kernels that make the tables of cases, and the tables of the cases that were used last.
pub(crate) struct Images {
    pub(crate) integral: IntegralKernels,
    channels: ChannelsKernels,
    resident: Arc<Resident<LevelTables>>,
}

impl Images {
    /// Tables may fill at most so many bytes, or be those that are needed of a single case.
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

    /// A case, with its tables on the device as far as there is room.
    pub(crate) fn upload(
        &self,
        device: &Context,
        levels: &[Level],
        layout: &ImageLayout,
    ) -> Result<GpuImage, GpuError> {
        let image = GpuImage {
            numbers: levels.iter().map(|_| self.resident.number()).collect(),
            resident: self.resident.clone(),
            geometries: levels.iter().map(|l| l.geometry().clone()).collect(),
            levels: levels.to_vec(),
            layout: layout.clone(),
        };
        for level in image.levels_with_tables(|_| true) {
            if self.resident.has_room(image.bytes(level)) {
                self.of_level(device, &image, level)?;
            }
        }
        Ok(image)
    }

    /// The tables of the levels of a case that are used.
    pub(crate) fn tables(
        &self,
        device: &Context,
        image: &GpuImage,
        used: impl Fn(usize) -> bool,
    ) -> Result<Tables, GpuError> {
        let mut tables = vec![None; image.levels.len()];
        for level in image.levels_with_tables(used) {
            tables[level] = Some(self.of_level(device, image, level)?);
        }
        Ok(Tables(tables))
    }

    fn of_level(
        &self,
        device: &Context,
        image: &GpuImage,
        level: usize,
    ) -> Result<Arc<LevelTables>, GpuError> {
        let make = || self.make(device, image, level);
        image.resident.get(image.numbers[level], image.bytes(level), make)
    }

    fn make(
        &self,
        device: &Context,
        image: &GpuImage,
        level: usize,
    ) -> Result<LevelTables, GpuError> {
        let GpuImage { layout, levels, .. } = image;
        let volume = levels[level].volume();
        let voxels = device.upload(volume.data())?;
        let integral = match layout.haar {
            Some((of, pad)) if of == level => {
                Some(self.integral.integral(device, &voxels, &volume, pad, layout.padding)?)
            }
            _ => None,
        };
        let channels = match layout.channels.contains(&level) {
            true => {
                Some(self.channels.channels(device, &voxels, volume.geometry(), layout.padding)?)
            }
            false => None,
        };
        Ok(LevelTables { integral, channels })
    }

    /// Gives `work` the tables of the used levels of the needed ones of some cases, all at once or,
    /// where they do not fit together, group by group: `None` for the cases of other groups.
    pub(crate) fn with_tables(
        &self,
        device: &Context,
        images: &[&GpuImage],
        needed: impl Fn(usize) -> bool,
        used: impl Fn(&GpuImage, usize) -> bool,
        mut work: impl FnMut(&[Option<Tables>]) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let needed: Vec<usize> = (0..images.len()).filter(|&n| needed(n)).collect();
        let sizes: Vec<(Vec<u64>, usize)> = needed
            .iter()
            .map(|&n| {
                let levels = || images[n].levels_with_tables(|level| used(images[n], level));
                let numbers = levels().map(|level| images[n].numbers[level]).collect();
                (numbers, levels().map(|level| images[n].bytes(level)).sum())
            })
            .collect();
        for group in self.resident.groups(&sizes) {
            let mut tables: Vec<Option<Tables>> = images.iter().map(|_| None).collect();
            for n in group {
                let image = images[needed[n]];
                let of_image = self.tables(device, image, |level| used(image, level))?;
                tables[needed[n]] = Some(of_image);
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
    use pbt_volume::{IntegralVolume, Padding, Volume};

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
        let all: usize = images.iter().map(|i| i.bytes(0)).sum();
        assert!(all > limit && images.iter().all(|i| 2 * i.bytes(0) < limit), "{all} bytes");
        for n in [0, 1, 2, 3, 4, 5, 0, 5, 1] {
            let expected = IntegralVolume::new(&volumes[n], 3, Padding::Zero);
            let table = gpu.read_table(&images[n]).expect("a table");
            assert!(table == expected.table(), "image {n}");
            assert_eq!(
                4 * table.len() + 8 * [22 + n, 32, 27].iter().product::<usize>(),
                images[n].bytes(0)
            );
            assert!((1..=limit).contains(&gpu.images.resident.bytes()));
        }
        // All of them in one call, in groups.
        let (mut calls, mut seen) = (0, vec![0; images.len()]);
        let references: Vec<&GpuImage> = images.iter().collect();
        let count = |there: &[Option<Tables>]| {
            calls += 1;
            there
                .iter()
                .zip(&mut seen)
                .for_each(|(tables, seen)| *seen += usize::from(tables.is_some()));
            Ok(())
        };
        gpu.images
            .with_tables(&gpu.device, &references, |n| n != 4, |_, _| true, count)
            .expect("tables");
        assert_eq!(seen, [1, 1, 1, 1, 0, 1]);
        assert!((2..6).contains(&calls), "{calls} calls");
        drop(images);
        assert_eq!(gpu.images.resident.bytes(), 0);
    }
}
