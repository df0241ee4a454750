//! What Linux says of the memory that a process can still take: the machine, its control group
//! (containers and batch systems set that), and the limits of the process itself.

use serde::Serialize;
use std::path::Path;

/// This part is left to the rest of the process: threads, tables, the allocator.
const SPARE: u64 = 16;

/// Bytes of memory, each `None` where the system does not say it or sets no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemorySeen {
    /// Of the machine.
    pub machine_total: Option<u64>,
    /// What is left of that.
    pub machine_left: Option<u64>,
    /// What the control group leaves: containers and batch systems set it.
    pub control_group_left: Option<u64>,
    /// What `ulimit -v` and `ulimit -d` leave.
    pub own_limits_left: Option<u64>,
}

impl MemorySeen {
    /// What the system below `root` says, which is `/` but for tests.
    pub(crate) fn at(root: &Path) -> Self {
        let meminfo = text(root, "proc/meminfo");
        Self {
            machine_total: meminfo.and_then(|text| kilobytes(&text, "MemTotal:")),
            machine_left: machine(root),
            control_group_left: control_groups(root),
            own_limits_left: own_limits(root),
        }
    }
}

/// Bytes that this process can take, `None` where nothing is known, as on other systems. `root` is
/// `/` but for tests.
pub(crate) fn available(root: &Path) -> Option<u64> {
    let MemorySeen { machine_left, control_group_left, own_limits_left, .. } = MemorySeen::at(root);
    let least = [machine_left, control_group_left, own_limits_left].into_iter().flatten().min();
    least.map(|bytes| bytes - bytes / SPARE)
}

fn machine(root: &Path) -> Option<u64> {
    kilobytes(&text(root, "proc/meminfo")?, "MemAvailable:")
}

/// The least of the groups that the process is in, which are one within the other.
fn control_groups(root: &Path) -> Option<u64> {
    let groups = text(root, "proc/self/cgroup")?;
    let left = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next()?, parts.next()?);
        // Version 2 has one tree and an empty list of controllers.
        let (tree, limit, used) = if controllers.is_empty() {
            ("sys/fs/cgroup", "memory.max", "memory.current")
        } else if controllers.split(',').any(|c| c == "memory") {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
        } else {
            return None;
        };
        // Inside a container the group may have another path than the file says; its root is there
        // all the same.
        let of_group = |group: &Path| {
            let folder = root.join(tree).join(group);
            let number = |file| text(&folder, file)?.trim().parse::<u64>().ok();
            let (limit, used) = (number(limit)?, number(used)?);
            // What was read from files counts as used, and is given back when memory is short.
            let stat = text(&folder, "memory.stat").unwrap_or_default();
            let cached = field(&stat, "total_inactive_file").or(field(&stat, "inactive_file"));
            Some(limit.saturating_sub(used.saturating_sub(cached.unwrap_or(0))))
        };
        Path::new(group.trim_start_matches('/')).ancestors().filter_map(of_group).min()
    });
    left.min()
}

/// What `ulimit -v` and `ulimit -d` leave.
fn own_limits(root: &Path) -> Option<u64> {
    let (limits, status) = (text(root, "proc/self/limits")?, text(root, "proc/self/status")?);
    let left = |name: &str, taken: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let soft: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(soft.saturating_sub(kilobytes(&status, taken).unwrap_or(0)))
    };
    [left("Max address space", "VmSize:"), left("Max data size", "VmData:")]
        .into_iter()
        .flatten()
        .min()
}

fn text(folder: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(file)).ok()
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten()
    })
}

/// As [`field`], of files that count in kB, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    field(text, name).map(|kb| kb.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        root
    }

    fn left(files: &[(&str, &str)]) -> Option<u64> {
        available(system(files).path())
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:  2000 kB\nMemAvailable:   1600 kB\nSwapFree: 9 kB\n");

    #[test]
    fn the_machine_alone() {
        assert_eq!(left(&[]), None);
        assert_eq!(left(&[MEMINFO]), Some(1600 * 1024 / 16 * 15));
        let seen = MemorySeen::at(system(&[MEMINFO]).path());
        assert_eq!((seen.machine_total, seen.machine_left), (Some(2000 * 1024), Some(1600 * 1024)));
        assert_eq!((seen.control_group_left, seen.own_limits_left), (None, None));
    }

    #[test]
    fn groups_of_both_versions_and_those_around_them() {
        let unlimited = ("sys/fs/cgroup/a/b/memory.max", "max\n");
        let nested = [
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            unlimited,
            ("sys/fs/cgroup/a/b/memory.current", "5\n"),
            ("sys/fs/cgroup/a/memory.max", "16000\n"),
            ("sys/fs/cgroup/a/memory.current", "9000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 1000\n"),
        ];
        assert_eq!(left(&nested), Some(7500));
        let old = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/77\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "3200\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n"),
        ];
        assert_eq!(left(&old), Some(3000));
    }

    #[test]
    fn limits_of_the_process() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
             Max data size             unlimited            unlimited            bytes\n\
             Max address space         1048576              unlimited            bytes\n";
        let files = [
            MEMINFO,
            ("proc/self/limits", limits),
            ("proc/self/status", "Name:\tpbt\nVmSize:\t     512 kB\n"),
        ];
        assert_eq!(left(&files), Some(512 * 1024 / 16 * 15));
    }
}
