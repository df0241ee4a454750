//! Which device computes.

use crate::Failure;
use pbt_io::DeviceRecord;
use std::str::FromStr;

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// A GPU if there is one, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// This GPU or none.
    Gpu(u32),
}

impl FromStr for Choice {
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

/// Resolves the choice and installs the pool of CPU threads.
///
/// # Errors
/// Exit code 6 when a GPU is asked for: this version computes on the CPU.
pub fn open(choice: Choice, threads: Option<u16>) -> Result<DeviceRecord, Failure> {
    if let Choice::Gpu(n) = choice {
        return Err(Failure::device(format!(
            "device: gpu:{n} is not available: this version of pbt computes on the CPU (use --device cpu)"
        )));
    }
    let threads = threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    // A second call in one process (tests) keeps the first pool; results do not depend on it.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    Ok(DeviceRecord { kind: "cpu".to_owned(), name: cpu_name(), threads })
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
