//! `pbt doctor`.

use crate::support::{limited, pbt};
use serde_json::Value;

#[test]
fn one_page_says_what_the_machine_has() {
    let outcome = pbt(["doctor", "--threads", "2"]).exits_with(0);
    for part in [env!("CARGO_PKG_VERSION"), "cpu", "2 threads", "gpu", "memory", "folder"] {
        assert!(outcome.stdout.contains(part), "{part}: {}", outcome.stdout);
    }
    let json = pbt(["doctor", "--json"]).exits_with(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "pbt-doctor/1");
    let names: Vec<&str> =
        json["checks"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!((names[0], names[1], names[names.len() - 1]), ("cpu", "gpu", "folder"));
    assert!(json["threads"].as_u64().unwrap() >= 1);
}

#[cfg(target_os = "linux")]
#[test]
fn limits_are_named() {
    let outcome = limited("ulimit -v 1500000", &["doctor", "--threads", "1", "--device", "cpu"])
        .exits_with(0);
    let memory = outcome.stdout.lines().find(|line| line.contains("memory")).unwrap();
    assert!(memory.starts_with("note") && memory.contains("`ulimit` leaves no more"), "{memory}");
    let given = pbt(["doctor", "--memory", "3G"]).exits_with(0).stdout;
    assert!(given.contains("3.2 GB may be taken, as --memory says"), "{given}");
    // A folder that cannot be written; whoever is root may write everywhere.
    let elsewhere = limited("cd /proc", &["doctor"]).exits_with(0).stdout;
    let folder = elsewhere.lines().find(|line| line.contains("/proc")).unwrap();
    assert!(folder.starts_with("note") && folder.contains("cannot be written"), "{folder}");
}
