//! `pbt doctor`: what of this machine `pbt` can use, and what is in its way.

use crate::Failure;
use crate::args::{Doctor, Global};
use crate::output::{print, print_text};
use crate::session::{Device, DeviceChoice, ListedDevice, list_devices};
use crate::table::{row, table};
use pbt_io::check_writable;
use pbt_volume::{MemorySeen, memory_limit, memory_seen};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `--json` prints, schema `pbt-doctor/1`.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    pbt_version: &'static str,
    system: String,
    checks: Vec<Check>,
    /// CPU threads that commands use.
    threads: usize,
    memory: Memory,
}

#[derive(Serialize)]
struct Memory {
    /// Bytes that a command may take; null where nothing says how many there are.
    may_be_taken: Option<u64>,
    #[serde(flatten)]
    seen: MemorySeen,
}

/// Something that was looked at.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    /// One line, with what to do in parentheses where there is something to do.
    what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    /// It works, and could be better.
    Note,
    Problem,
}

/// With less than this, bytes, a scan of usual size does not fit.
const LITTLE_MEMORY: u64 = 2 << 30;

pub(super) fn run(args: &Doctor, global: &Global) -> Result<ExitCode, Failure> {
    let (devices, no_gpu) = list_devices(global.threads);
    let threads = devices.first().map_or(1, |cpu| cpu.record.threads);
    let mut checks = vec![check_cpu(&devices, threads)];
    let asked = matches!(global.device, DeviceChoice::Gpu(_));
    checks.extend(check_gpus(&devices, no_gpu, asked));
    let seen = memory_seen();
    let limit = Some(memory_limit()).filter(|&bytes| bytes < u64::MAX);
    checks.push(check_memory(limit, &seen, global.memory.is_some()));
    checks.push(check_folder());
    let report = Report {
        schema: "pbt-doctor/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        threads,
        memory: Memory { may_be_taken: limit, seen },
        checks,
    };
    if args.json {
        print((serde_json::to_string_pretty(&report).map_err(Failure::other)? + "\n").as_bytes())?;
    } else {
        print_text(&report.text())?;
    }
    let problem = report.checks.iter().any(|check| check.status == Status::Problem);
    Ok(if problem { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn check_cpu(devices: &[ListedDevice], threads: usize) -> Check {
    let name = devices.first().map(|cpu| cpu.record.name.as_str()).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (status, more) = if threads < cores && threads == 1 {
        let why = " of {cores}, because the system gives no more threads (raise `ulimit -u`)";
        (Status::Note, why.replace("{cores}", &cores.to_string()))
    } else {
        (Status::Ok, String::new())
    };
    let s = if threads == 1 { "" } else { "s" };
    Check { name: "cpu", status, what: format!("{name}, {threads} thread{s}{more}") }
}

/// Each GPU opened as a command would open it, which loads the kernels; or why there is none, which is a
/// problem only where one was asked for.
fn check_gpus(devices: &[ListedDevice], no_gpu: Option<String>, asked: bool) -> Vec<Check> {
    if let Some(why) = no_gpu {
        let what = format!("none is used: {why}; the CPU gives the same results in more time");
        let status = if asked { Status::Problem } else { Status::Note };
        return vec![Check { name: "gpu", status, what }];
    }
    let check = |(n, gpu): (usize, &ListedDevice)| {
        let memory = gpu.memory_bytes.map_or(String::new(), |b| format!(", {}", size(b as u64)));
        let opened = Device::open(DeviceChoice::Gpu(n as u32), None);
        let (status, end) = match opened {
            Ok(_) => (Status::Ok, "; driver and kernels work".to_owned()),
            Err(failure) => (Status::Problem, format!(": {failure}")),
        };
        let what = format!("{}: {}{memory}{end}", gpu.device, gpu.record.name);
        Check { name: "gpu", status, what }
    };
    devices.iter().skip(1).enumerate().map(check).collect()
}

fn check_memory(limit: Option<u64>, seen: &MemorySeen, given: bool) -> Check {
    let Some(limit) = limit else {
        let what = "this system does not say how much there is (--memory SIZE sets a limit)";
        return Check { name: "memory", status: Status::Note, what: what.to_owned() };
    };
    let machine = seen.machine_total.map_or(String::new(), |total| {
        let free = seen.machine_left.unwrap_or(total);
        format!("; the machine has {} of {} left", size(free), size(total))
    });
    let least = [seen.machine_left, seen.control_group_left, seen.own_limits_left];
    let least = least.into_iter().flatten().min();
    let because = match least {
        _ if given => ", as --memory says",
        Some(_) if least == seen.control_group_left && least != seen.machine_left => {
            ", because its control group (container, batch system) leaves no more"
        }
        Some(_) if least == seen.own_limits_left && least != seen.machine_left => {
            ", because `ulimit` leaves no more"
        }
        _ => "",
    };
    let (status, todo) = if limit < LITTLE_MEMORY {
        (Status::Note, " (large scans will be refused; close programs or allow more)")
    } else {
        (Status::Ok, "")
    };
    let what = format!("{} may be taken{because}{machine}{todo}", size(limit));
    Check { name: "memory", status, what }
}

fn check_folder() -> Check {
    let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let tried = check_writable(&Path::new(".").join("pbt-doctor"));
    let (status, what) = match tried {
        Ok(()) => (Status::Ok, format!("{} can be written", folder.display())),
        Err(_) => {
            let todo = "go to another one, or give outputs a path elsewhere";
            (Status::Note, format!("{} cannot be written ({todo})", folder.display()))
        }
    };
    Check { name: "folder", status, what }
}

fn size(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

impl Report {
    fn text(&self) -> String {
        let mut lines = vec![row([
            "".to_owned(),
            "pbt".to_owned(),
            format!("{} on {}", self.pbt_version, self.system),
        ])];
        lines.extend(self.checks.iter().map(|check| {
            let status = match check.status {
                Status::Ok => "ok",
                Status::Note => "note",
                Status::Problem => "problem",
            };
            row([status.to_owned(), check.name.to_owned(), check.what.clone()])
        }));
        table(3, &lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_least_memory_is_named() {
        let gb = |n: u64| Some(n * 1_000_000_000);
        let seen = |group, own| MemorySeen {
            machine_total: gb(16),
            machine_left: gb(9),
            control_group_left: group,
            own_limits_left: own,
        };
        let what = |seen, limit| check_memory(limit, &seen, false).what;
        assert_eq!(
            what(seen(None, None), gb(8)),
            "8.0 GB may be taken; the machine has 9.0 GB of 16.0 GB left"
        );
        assert!(what(seen(gb(4), None), gb(4)).contains("control group"));
        assert!(what(seen(gb(4), gb(3)), gb(3)).contains("ulimit"));
        assert_eq!(check_memory(gb(1), &seen(gb(1), None), false).status, Status::Note);
        assert_eq!(check_memory(None, &seen(None, None), false).status, Status::Note);
    }

    #[test]
    fn a_missing_gpu_is_no_problem() {
        let checks = |asked| check_gpus(&[], Some("no driver".to_owned()), asked);
        assert_eq!(checks(true)[0].status, Status::Problem);
        let checks = checks(false);
        assert!(checks.len() == 1 && checks[0].status == Status::Note);
        assert!(checks[0].what.contains("no driver"), "{}", checks[0].what);
    }
}
