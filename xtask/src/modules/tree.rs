//! The modules of one target of a package, and the files that a path in one of them leads to.

use super::scan::{Scan, Segments, scan};
use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Imports that lead on to imports are followed this far: `use a::a` of another package would lead
/// to itself for ever.
const MOST_IMPORTS: usize = 8;

/// All modules of a target. The first is its root.
pub(super) struct ModuleTree {
    modules: Vec<Module>,
}

struct Module {
    file: PathBuf,
    parent: usize,
    children: BTreeMap<String, usize>,
    scan: Scan,
}

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Module(usize),
    /// An item of this module.
    Item(usize),
    /// Into another package, or nowhere that the text shows.
    Outside,
}

/// Who names whom: the files that each file names, each with the first path that does so.
pub(super) type Edges = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

impl ModuleTree {
    /// Reads the target whose root is this file, through `read`, and all files of its modules.
    pub(super) fn new(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> anyhow::Result<Self> {
        let text = read(root).with_context(|| format!("cannot read {}", root.display()))?;
        let found = scan(&text).with_context(|| root.display().to_string())?;
        let mut tree = Self { modules: Vec::new() };
        let folder = root.parent().unwrap_or(Path::new(""));
        tree.add(root, folder, 0, found, read)?;
        Ok(tree)
    }

    /// Adds a module and those in it. `folder` holds the files of the modules in it.
    fn add(
        &mut self,
        file: &Path,
        folder: &Path,
        parent: usize,
        mut found: Scan,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> anyhow::Result<usize> {
        let index = self.modules.len();
        let (declared, inline) =
            (std::mem::take(&mut found.declared), std::mem::take(&mut found.inline));
        self.modules.push(Module {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            scan: found,
        });
        for (name, inner) in inline {
            let child = self.add(file, &folder.join(&name), index, inner, read)?;
            self.modules[index].children.insert(name, child);
        }
        for (name, elsewhere) in declared {
            let places = match elsewhere {
                Some(path) => vec![file.with_file_name(path)],
                None => vec![folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")],
            };
            let Some((path, text)) =
                places.iter().find_map(|path| read(path).map(|text| (path, text)))
            else {
                bail!("{}: no file of `mod {name};`", file.display())
            };
            let inner = scan(&text).with_context(|| path.display().to_string())?;
            let child = self.add(path, &folder.join(&name), index, inner, read)?;
            self.modules[index].children.insert(name, child);
        }
        Ok(index)
    }

    /// Which file names which other. A re-export counts for the file that defines what it brings;
    /// an imported module counts for what is then named in it.
    pub(super) fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (index, module) in self.modules.iter().enumerate() {
            let imports = module.scan.imports.iter().map(|(_, path)| (path, false));
            let globs = module.scan.globs.iter().map(|path| (path, true));
            let paths = module.scan.paths.iter().map(|path| (path, true));
            for (path, whole_modules) in imports.chain(globs).chain(paths) {
                let target = match self.resolve(index, path, 0) {
                    Found::Item(target) => target,
                    Found::Module(target) if whole_modules => target,
                    _ => continue,
                };
                let target = &self.modules[target].file;
                if *target != module.file {
                    edges
                        .entry(module.file.clone())
                        .or_default()
                        .entry(target.clone())
                        .or_insert_with(|| path.join("::"));
                }
            }
        }
        edges
    }

    fn resolve(&self, from: usize, path: &Segments, imports: usize) -> Found {
        let mut at = Found::Module(from);
        for (n, segment) in path.iter().enumerate() {
            let Found::Module(module) = at else { break };
            at = match segment.as_str() {
                "crate" => Found::Module(0),
                "self" => at,
                "super" => Found::Module(self.modules[module].parent),
                name => match self.lookup(module, name, imports) {
                    Some(found) => found,
                    // Only macros define what the text does not show.
                    None if n > 0 => Found::Item(module),
                    None => Found::Outside,
                },
            };
        }
        at
    }

    /// What a name means in a module.
    fn lookup(&self, module: usize, name: &str, imports: usize) -> Option<Found> {
        let Module { children, scan, .. } = &self.modules[module];
        if let Some(&child) = children.get(name) {
            return Some(Found::Module(child));
        }
        if scan.defined.contains(name) {
            return Some(Found::Item(module));
        }
        if imports == MOST_IMPORTS {
            return Some(Found::Outside);
        }
        if let Some((_, path)) = scan.imports.iter().find(|(import, _)| import == name) {
            return Some(self.resolve(module, path, imports + 1));
        }
        // A glob's own path begins with no import, else the globs of other packages would be sought
        // through each other.
        scan.globs.iter().find_map(|glob| match self.resolve(module, glob, MOST_IMPORTS) {
            Found::Module(target) if target != module => self.lookup(target, name, imports + 1),
            _ => None,
        })
    }
}

/// The sets of more than two files that all lead to each other, the largest first.
pub(super) fn circles(edges: &Edges) -> Vec<BTreeSet<&Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        edges.keys().map(|file| (file.as_path(), reachable(edges, file))).collect();
    let mut circles = BTreeSet::new();
    for (&file, targets) in &reached {
        let circle: BTreeSet<&Path> = targets
            .iter()
            .copied()
            .filter(|target| reached.get(target).is_some_and(|back| back.contains(file)))
            .collect();
        if circle.len() > 2 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// The files that a file leads to; itself only where a way leads back.
fn reachable<'a>(edges: &'a Edges, from: &Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for target in edges.get(file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(target.as_path()) {
                open.push(target);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&str, &str)]) -> Edges {
        let read = |path: &Path| {
            files
                .iter()
                .find(|(name, _)| Path::new(name) == path)
                .map(|(_, text)| (*text).to_owned())
        };
        ModuleTree::new(Path::new("lib.rs"), &read).unwrap().edges()
    }

    fn lines(edges: &Edges) -> Vec<String> {
        let line = |from: &Path, to: &Path| format!("{} {}", from.display(), to.display());
        edges.iter().flat_map(|(from, all)| all.keys().map(move |to| line(from, to))).collect()
    }

    #[test]
    fn a_circle_of_three_is_found_and_one_of_two_is_allowed() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use super::c::C; pub struct B;"),
            ("c.rs", "pub struct C(crate::a::A);"),
            ("d.rs", "use crate::e::E; use crate::a::A; pub struct D;"),
            ("e.rs", "use crate::d::D; pub struct E;"),
        ];
        let edges = edges(&files);
        let expected: BTreeSet<_> = ["a.rs", "b.rs", "c.rs"].map(Path::new).into();
        assert_eq!(circles(&edges), [expected]);
        assert_eq!(edges[Path::new("c.rs")][Path::new("a.rs")], "crate::a::A");
    }

    #[test]
    fn re_exports_lead_to_the_file_that_defines() {
        let files = [
            ("lib.rs", "mod error; mod room; pub use error::Error; pub use room::*;"),
            ("error.rs", "pub enum Error {}"),
            ("room.rs", "mod inner; pub use inner::Thing; use crate::Error;"),
            ("room/inner.rs", "use crate::Error; pub struct Thing;"),
        ];
        let edges = edges(&files);
        assert_eq!(
            lines(&edges),
            [
                "lib.rs error.rs",
                "lib.rs room.rs",
                "room/inner.rs error.rs",
                "room.rs error.rs",
                "room.rs room/inner.rs"
            ]
        );
        assert!(circles(&edges).is_empty());
        // Through the glob of the root, too.
        let user = [
            ("lib.rs", "mod a; mod b; pub use b::*;"),
            ("a.rs", "use crate::T;"),
            ("b.rs", "pub struct T;"),
        ];
        assert_eq!(lines(&self::edges(&user)), ["a.rs b.rs", "lib.rs b.rs"]);
    }

    #[test]
    fn an_imported_module_counts_for_what_is_named_in_it() {
        let files = [
            ("lib.rs", "mod a; mod room;"),
            ("a.rs", "use crate::room; fn f() { room::thing(); room::inner::other() }"),
            ("room/mod.rs", "pub mod inner; pub fn thing() {}"),
            ("room/inner.rs", "pub fn other() {}"),
        ];
        assert_eq!(lines(&edges(&files)), ["a.rs room/inner.rs", "a.rs room/mod.rs"]);
    }

    #[test]
    fn modules_in_a_file_count_for_the_file_and_other_packages_for_nothing() {
        let files = [
            ("lib.rs", "mod a; mod b; use serde::Serialize; use anyhow::anyhow; fn f() {}"),
            (
                "a.rs",
                "mod deep { use super::super::b::B; use crate::Serialize; use crate::anyhow; } use std::io;",
            ),
            ("b.rs", "pub struct B; fn f() { Self::g(); io::h(); }"),
        ];
        assert_eq!(lines(&edges(&files)), ["a.rs b.rs"]);
    }

    #[test]
    fn a_missing_file_is_named() {
        let read = |path: &Path| (path == Path::new("src/lib.rs")).then(|| "mod a;".to_owned());
        let error = ModuleTree::new(Path::new("src/lib.rs"), &read).err().unwrap();
        assert_eq!(error.to_string(), "src/lib.rs: no file of `mod a;`");
    }
}
