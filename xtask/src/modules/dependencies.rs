//! Which packages of the workspace may know which others: data flows one way.

/// A package, and the packages of the workspace that it may use outside its tests.
const ALLOWED: [(&str, &[&str]); 11] = [
    ("pbt-volume", &[]),
    ("pbt-phantom", &["pbt-volume"]),
    ("pbt-io", &["pbt-volume"]),
    ("pbt-features", &["pbt-volume"]),
    ("pbt-linear", &[]),
    ("pbt-tree", &["pbt-features", "pbt-volume"]),
    ("pbt-cpu", &["pbt-features", "pbt-linear", "pbt-tree", "pbt-volume"]),
    ("pbt-gpu", &["pbt-features", "pbt-linear", "pbt-tree", "pbt-volume"]),
    ("pbt-evaluate", &["pbt-volume"]),
    ("pbt-detect", &["pbt-evaluate", "pbt-features", "pbt-linear", "pbt-tree", "pbt-volume"]),
    ("pbt-report", &["pbt-evaluate", "pbt-volume"]),
];

/// They parse, call and print, and may know every package.
const SHELLS: [&str; 2] = ["pbt", "pbt-py"];

/// The tasks need none.
const TASKS: &str = "xtask";

/// What is wrong with a package's dependencies on others of the workspace, tests aside; one line
/// each.
pub(super) fn upward<'a>(
    package: &str,
    dependencies: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    if SHELLS.contains(&package) {
        return Vec::new();
    }
    let allowed = match ALLOWED.iter().find(|(name, _)| *name == package) {
        Some((_, allowed)) => *allowed,
        None if package == TASKS => &[],
        None => {
            return vec![format!(
                "{package} is not in the table of xtask/src/modules/dependencies.rs"
            )];
        }
    };
    dependencies
        .filter(|dependency| !allowed.contains(dependency))
        .map(|dependency| format!("{package} may not depend on {dependency}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upward_and_unknown_are_named() {
        let check = |package, dependencies: &[&str]| upward(package, dependencies.iter().copied());
        assert!(check("pbt-tree", &["pbt-features", "pbt-volume"]).is_empty());
        assert!(check("pbt", &["pbt-io", "pbt-cpu"]).is_empty());
        assert_eq!(check("pbt-tree", &["pbt-detect"]), ["pbt-tree may not depend on pbt-detect"]);
        assert_eq!(check("pbt-detect", &["pbt-cpu"]), ["pbt-detect may not depend on pbt-cpu"]);
        assert_eq!(check("xtask", &["pbt-io"]).len(), 1);
        assert_eq!(check("pbt-new", &[]).len(), 1);
    }

    /// The table itself has no circle: each package stands below those that use it.
    #[test]
    fn the_table_leads_downwards() {
        let place = |name: &str| ALLOWED.iter().position(|(package, _)| *package == name).unwrap();
        for (package, allowed) in ALLOWED {
            assert!(allowed.iter().all(|below| place(below) < place(package)), "{package}");
        }
    }
}
