//! Options of every command.

use crate::host::Host;
use crate::session::DeviceChoice;
use clap::Args;
use std::sync::Arc;

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more: why no GPU is used, in `pbt info` the features of several structures
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Where to compute: `auto`, `cpu`, `gpu` or `gpu:N`
    #[arg(long, global = true, default_value = "auto", value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Number of CPU threads [default: all cores]; results do not depend on it
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    pub threads: Option<u16>,
    /// Most memory to take, as in `8G` [default: what the machine or its control group has left];
    /// images that need more are refused
    #[arg(long, global = true, value_name = "SIZE", value_parser = bytes)]
    pub memory: Option<u64>,
    /// The program that the command runs within, if it is not its own
    #[arg(skip)]
    pub host: Option<Arc<dyn Host>>,
}

/// A number of bytes: `8G`, `500M`, `1.5GiB`. Letters stand for powers of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let unit = text[end..].trim().to_ascii_uppercase();
    let power = match unit.trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => -1,
    };
    let number = text[..end].parse().ok().filter(|n: &f64| power >= 0 && n.is_finite());
    let bytes = number.map(|n| n * 1024f64.powi(power)).filter(|b| *b >= 1.0);
    bytes.map(|b| b as u64).ok_or_else(|| "expected a size, as in 8G or 500M".to_owned())
}
