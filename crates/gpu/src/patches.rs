//! What regression sees of a pose: the twin of `patches.rs` of `pbt-cpu`.

use crate::channels::DeviceChannels;
use crate::device::{Context, GpuError, blocks_of, bytes_of, launch, module};
use crate::gathered::Gathered;
use crate::image::{GpuImage, Images, Tables};
use crate::poses::{Frames, PoseFrames, PoseSites};
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr};
use pbt_tree::{Patch, PoseSite};
use pbt_volume::Pose;

/// Most values that are read of one image and waited for together with those of other threads. Larger
/// requests keep the device at work by themselves.
const FEW_VALUES: usize = 1 << 17;
/// Most values of requests that are served together.
const TOGETHER: usize = 1 << 21;

/// The kernel of `patches.cu`, and the few poses that threads ask for.
pub(crate) struct PatchesKernels {
    sample: CudaFunction,
    few: Gathered<Few, Result<Vec<i16>, GpuError>>,
}

/// A few poses in one image, ready for the device.
struct Few {
    /// What the kernel reads, each part at a multiple of [`ALIGNED`].
    bytes: Vec<u8>,
    /// Where the parts after the first begin.
    levels_at: usize,
    images_at: usize,
    numbers_at: usize,
    patch: Patch,
    poses: usize,
    /// Levels of the image.
    levels: usize,
    /// Keeps what the channels point to.
    _tables: Tables,
}

/// Bytes: kernels read up to so many at a time.
const ALIGNED: usize = 16;

/// Appends values, and returns where they begin.
fn append<T: DeviceRepr>(bytes: &mut Vec<u8>, values: &[T]) -> usize {
    let at = bytes.len();
    bytes.extend_from_slice(bytes_of(values));
    bytes.resize(bytes.len().next_multiple_of(ALIGNED), 0);
    at
}

impl Few {
    fn new(
        (device, store): (&Context, &Images),
        image: &GpuImage,
        patch: &Patch,
        sites: &[PoseSite],
    ) -> Result<Self, GpuError> {
        let used = |level: usize| patch.levels.iter().any(|&l| usize::from(l) == level);
        image.assert_channels(used);
        let tables = store.tables(device, image, used)?;
        let poses: Vec<Pose> = sites.iter().map(|site| site.pose).collect();
        let levels: Vec<u32> = patch.levels.iter().map(|&level| level.into()).collect();
        let mut bytes = Vec::new();
        let channels: Vec<DeviceChannels> = tables.device_channels(device);
        append(&mut bytes, &channels);
        Ok(Self {
            levels_at: append(&mut bytes, &levels),
            images_at: append(&mut bytes, &vec![0u32; poses.len()]),
            numbers_at: append(
                &mut bytes,
                &PoseFrames::numbers_in_image(image, &patch.grid, &poses),
            ),
            patch: patch.clone(),
            poses: poses.len(),
            levels: channels.len(),
            bytes,
            _tables: tables,
        })
    }

    /// Number of values.
    fn len(&self) -> usize {
        self.poses * self.patch.len()
    }
}

impl PatchesKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        let sample = module!(device, "patches")?.load_function("patches_sample")?;
        Ok(Self { sample, few: Gathered::default() })
    }

    /// Writes what is seen of each pose.
    pub(crate) fn sample(
        &self,
        device: &Context,
        store: &Images,
        images: &[&GpuImage],
        patch: &Patch,
        sites: &[PoseSite],
        out: &mut [i16],
    ) -> Result<(), GpuError> {
        if sites.is_empty() || patch.is_empty() {
            return Ok(());
        }
        let out = &mut out[..sites.len() * patch.len()];
        if let [image] = images
            && out.len() <= FEW_VALUES
        {
            let few = Few::new((device, store), image, patch, sites)?;
            let found = self.few.ask(few, |few| self.sample_few(device, &few))?;
            out.copy_from_slice(&found);
            return Ok(());
        }
        let used = |level: usize| patch.levels.iter().any(|&l| usize::from(l) == level);
        let prepared = PoseSites::new((device, store), images, &patch.grid, sites, used)?;
        let levels: Vec<u32> = patch.levels.iter().map(|&l| l.into()).collect();
        let levels = device.upload(&levels)?;
        // SAFETY: the kernel writes every value.
        let mut values = unsafe { device.alloc::<i16>(out.len()) }?;
        let address = |values: &CudaSlice<u32>| values.device_ptr(&device.stream).0;
        let (levels, image_of_site) = (address(&levels), address(&prepared.device_image_of_site));
        let frames = prepared.frames.argument(device);
        let to = values.device_ptr_mut(&device.stream).0;
        prepared.with_channels(0..sites.len(), |channels| {
            let channels = channels.device_ptr(&device.stream).0;
            self.launch(device, patch, frames, [channels, image_of_site, levels, to])
        })?;
        device.read(&values, out)
    }

    /// What is seen of the poses of each of these, by few calls of the driver.
    fn sample_few(&self, device: &Context, all: &[Few]) -> Vec<Result<Vec<i16>, GpuError>> {
        let mut out = Vec::with_capacity(all.len());
        let mut left = all;
        while !left.is_empty() {
            let mut values = 0;
            let fits = |few: &&Few| {
                values += few.len();
                values <= TOGETHER.max(left[0].len())
            };
            let count = left.iter().take_while(fits).count();
            let some;
            (some, left) = left.split_at(count);
            match self.sample_together(device, some) {
                Ok(found) => out.extend(found.into_iter().map(Ok)),
                Err(error) => out.extend(some.iter().map(|_| Err(error.clone()))),
            }
        }
        out
    }

    fn sample_together(&self, device: &Context, all: &[Few]) -> Result<Vec<Vec<i16>>, GpuError> {
        let bytes: Vec<u8> = all.iter().flat_map(|few| &few.bytes).copied().collect();
        let on_device = device.upload(&bytes)?;
        let mut from = on_device.device_ptr(&device.stream).0;
        // SAFETY: the kernels write every value.
        let mut values = unsafe { device.alloc::<i16>(all.iter().map(Few::len).sum()) }?;
        let mut to = values.device_ptr_mut(&device.stream).0;
        for few in all {
            let at = |place: usize| from + place as u64;
            let frames = Frames::new(at(few.numbers_at), few.poses, few.levels);
            let parts = [from, at(few.images_at), at(few.levels_at), to];
            self.launch(device, &few.patch, frames, parts)?;
            from += few.bytes.len() as u64;
            to += (few.len() * size_of::<i16>()) as u64;
        }
        let mut found = vec![0; all.iter().map(Few::len).sum()];
        device.read(&values, &mut found)?;
        let mut left = &found[..];
        let own = all.iter().map(|few| {
            let own;
            (own, left) = left.split_at(few.len());
            own.to_vec()
        });
        Ok(own.collect())
    }

    /// Asks for the values of a patch under frames; addresses are those of channels by image and level, of
    /// the image of each pose, of the patch's levels, and of the values.
    fn launch(
        &self,
        device: &Context,
        patch: &Patch,
        frames: Frames,
        [channels, images, levels, to]: [u64; 4],
    ) -> Result<(), GpuError> {
        let [nx, ny, nz] = patch.grid.points.map(u32::from);
        let values = frames.poses() * patch.levels.len() * patch.grid.len();
        launch!(
            device,
            &self.sample,
            blocks_of(256, values),
            &channels,
            &images,
            &frames,
            &levels,
            &(patch.levels.len() as u32),
            &nx,
            &ny,
            &nz,
            &u32::from(patch.edges),
            &to
        )
    }
}
