//! Which device computes.

use crate::session::processor::Processor;
use crate::session::{Failure, install_threads};
use pbt_cpu::Cpu;
use pbt_detect::{
    Detections, Explanation, LabelOutput, Labelling, Model, Observer, RegionData, RegionForest,
    TrainConfig, Trained, TrainingData,
};
use pbt_gpu::{Gpu, GpuError};
use pbt_io::DeviceRecord;
use pbt_volume::RealVolume;
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde::Serialize;
use std::str::FromStr;

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if there is one, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// This GPU or none.
    Gpu(u32),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "gpu" | "cuda" => Ok(Self::Gpu(0)),
            other => other
                .strip_prefix("gpu:")
                .or(other.strip_prefix("cuda:"))
                .and_then(|n| n.parse().ok())
                .map(Self::Gpu)
                .ok_or_else(|| "expected auto, cpu, gpu or gpu:N".to_owned()),
        }
    }
}

/// An open device.
pub struct Device {
    /// How results name it.
    pub record: DeviceRecord,
    /// Why `auto` chose the CPU.
    pub no_gpu: Option<String>,
    processor: Processor,
    /// CPU threads of its own, where another number is wanted than the process has.
    pool: Option<ThreadPool>,
}

impl Device {
    /// Resolves the choice and installs the pool of CPU threads, all cores where no number is
    /// given. A process that has a pool of another number keeps it, and this device gets one of its
    /// own if the system allows.
    ///
    /// # Errors
    /// Exit code 6 when a GPU is asked for and cannot be used.
    pub fn open(choice: DeviceChoice, threads: Option<u16>) -> Result<Self, Failure> {
        let (threads, pool) = pool_of(threads);
        let mut no_gpu = None;
        let gpu = match choice {
            DeviceChoice::Cpu => None,
            DeviceChoice::Gpu(n) => {
                Some(open_gpu(n, images_limit()?).map_err(|e| failure(&format!("gpu:{n}"), e))?)
            }
            DeviceChoice::Auto => match open_gpu(0, images_limit()?) {
                Ok(gpu) => Some(gpu),
                Err(reason) => {
                    no_gpu = Some(reason.to_string());
                    None
                }
            },
        };
        let record = match &gpu {
            Some(gpu) => {
                DeviceRecord { kind: "gpu".to_owned(), name: gpu.info().name.clone(), threads }
            }
            None => DeviceRecord { kind: "cpu".to_owned(), name: cpu_name(), threads },
        };
        let processor = match gpu {
            Some(gpu) => Processor::Gpu(Box::new(gpu)),
            None => Processor::Cpu(Cpu),
        };
        Ok(Self { record, no_gpu, processor, pool })
    }

    /// Whether it is a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(self.processor, Processor::Gpu(_))
    }

    /// Finds every structure of a model in an image, given by its channels.
    ///
    /// # Errors
    /// Those of [`Model::detect`], and exit code 1 when the device fails.
    pub fn detect(
        &self,
        model: &Model,
        channels: &[RealVolume],
        masks: bool,
    ) -> Result<Detections, Failure> {
        let found = self.install(|| match masks {
            false => model.detect(&self.processor, channels),
            true => model.detect_with_masks(&self.processor, channels),
        });
        found.map_err(|e| self.named(e.into()))
    }

    /// As [`Device::detect`], and explains each detection.
    ///
    /// # Errors
    /// Those of [`Device::detect`].
    pub fn explain(
        &self,
        model: &Model,
        channels: &[RealVolume],
        masks: bool,
    ) -> Result<(Detections, Vec<Explanation>), Failure> {
        let found = self.install(|| model.explain(&self.processor, channels, masks));
        found.map_err(|e| self.named(e.into()))
    }

    /// Trains every structure of the data.
    ///
    /// # Errors
    /// Those of [`pbt_detect::train`], and exit code 1 when the device fails.
    pub fn train<D: TrainingData<Error = Failure>>(
        &self,
        data: &D,
        config: &TrainConfig,
        seed: u64,
        resume: Option<&[u8]>,
        observer: &dyn Observer,
    ) -> Result<Trained, Failure> {
        let trained = self
            .install(|| pbt_detect::train(&self.processor, data, config, seed, resume, observer));
        trained.map_err(|e| self.named(e))
    }

    /// Works on the device's CPU threads.
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Labels the regions of an image.
    ///
    /// # Errors
    /// Those of [`RegionForest::label`], and exit code 1 when the device fails.
    pub fn label(
        &self,
        regions: &RegionForest,
        image: &RealVolume,
        output: LabelOutput,
    ) -> Result<Labelling, Failure> {
        let found = self.install(|| regions.label(&self.processor, image, output));
        found.map_err(|e| self.named(e.into()))
    }

    /// Trains a forest of regions.
    ///
    /// # Errors
    /// Those of [`pbt_detect::train_regions`], and exit code 1 when the device fails.
    pub fn train_regions<D: RegionData<Error = Failure>>(
        &self,
        data: &D,
        config: &TrainConfig,
        seed: u64,
        observer: &dyn Observer,
    ) -> Result<Trained, Failure> {
        let trained = self
            .install(|| pbt_detect::train_regions(&self.processor, data, config, seed, observer));
        trained.map_err(|e| self.named(e))
    }

    /// The same failure; one of the device names it.
    fn named(&self, failure: Failure) -> Failure {
        match failure.of_device() {
            Some(error) => Failure::device_failed(format!("device: {}: {error}", self.record.name)),
            None => failure,
        }
    }
}

/// How many CPU threads there are for a device, and its own pool where they are not those of the
/// process. Results do not depend on it.
fn pool_of(threads: Option<u16>) -> (usize, Option<ThreadPool>) {
    let installed = install_threads(threads);
    match threads.map(usize::from).filter(|&wanted| wanted != installed) {
        Some(wanted) if installed > 1 => {
            let pool = ThreadPoolBuilder::new().num_threads(wanted).build().ok();
            (pool.as_ref().map_or(installed, ThreadPool::current_num_threads), pool)
        }
        // A single thread of the process is what the system gives, or what it was asked for first.
        _ => (installed, None),
    }
}

/// The variable that says how many megabytes of a GPU's memory images may fill.
const IMAGES_MB: &str = "PBT_GPU_IMAGES_MB";

/// The bytes that [`IMAGES_MB`] says; `None` where it is not set.
fn images_limit() -> Result<Option<usize>, Failure> {
    let Some(value) = std::env::var_os(IMAGES_MB) else { return Ok(None) };
    match value.to_str().and_then(|v| v.parse::<u32>().ok()) {
        Some(megabytes) => Ok(Some((megabytes as usize).saturating_mul(1_000_000))),
        None => Err(Failure::usage(format!(
            "{IMAGES_MB}: expected a number of megabytes, found {value:?}"
        ))),
    }
}

fn open_gpu(ordinal: u32, images_limit: Option<usize>) -> Result<Gpu, GpuError> {
    let gpu = Gpu::open(ordinal)?;
    Ok(match images_limit {
        Some(bytes) => gpu.with_image_limit(bytes),
        None => gpu,
    })
}

/// A device for `pbt info`.
#[derive(Debug, Serialize)]
pub struct ListedDevice {
    /// As results name it.
    #[serde(flatten)]
    pub record: DeviceRecord,
    /// What `--device` calls it.
    pub device: String,
    /// Bytes of a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<usize>,
    /// Of a GPU: major and minor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<(i32, i32)>,
}

/// The CPU and the GPUs, and why there are none.
pub fn list_devices(threads: Option<u16>) -> (Vec<ListedDevice>, Option<String>) {
    let threads = install_threads(threads);
    let cpu = DeviceRecord { kind: "cpu".to_owned(), name: cpu_name(), threads };
    let mut listed = vec![ListedDevice {
        record: cpu,
        device: "cpu".to_owned(),
        memory_bytes: None,
        compute_capability: None,
    }];
    let found = pbt_gpu::devices();
    let reason = found.as_ref().err().map(ToString::to_string);
    listed.extend(found.into_iter().flatten().map(|gpu| ListedDevice {
        record: DeviceRecord { kind: "gpu".to_owned(), name: gpu.name, threads },
        device: format!("gpu:{}", gpu.ordinal),
        memory_bytes: Some(gpu.memory),
        compute_capability: Some(gpu.capability),
    }));
    (listed, reason)
}

fn failure(device: &str, error: GpuError) -> Failure {
    if error.is_unavailable() {
        Failure::device(format!("device: {device}: {error}"))
    } else {
        Failure::device_failed(format!("device: {device}: {error}"))
    }
}

/// The processor's name where the system tells it, else its architecture.
fn cpu_name() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("model name"))?;
            Some(line.split(':').nth(1)?.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;
    use pbt_detect::DetectError;
    use std::path::Path;

    #[test]
    fn a_device_that_fails_is_named_and_no_file_is_to_blame() {
        let record =
            DeviceRecord { kind: "gpu".to_owned(), name: "NVIDIA H200".to_owned(), threads: 2 };
        let processor = Processor::Cpu(Cpu);
        let device = Device { record, no_gpu: None, processor, pool: None };
        let full = GpuError::OutOfMemory { asked: 4096, free: 17 };
        let failure = device.named(DetectError::Device(full.into()).into());
        assert_eq!(failure.code(), exit::FAILURE);
        assert_eq!(
            failure.about(Path::new("case.nii.gz")).to_string(),
            "device: NVIDIA H200: out of GPU memory: 4096 bytes asked for, 17 free (use smaller \
             volumes, another GPU or --device cpu)"
        );
        let interrupted = device.named(DetectError::Interrupted.into());
        assert!(interrupted.is_interruption() && interrupted.to_string() == "interrupted");
    }
}
