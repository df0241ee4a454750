//! Scans by the names that a table has for them.

use super::notes::{cases_of, few};
use std::collections::{BTreeMap, BTreeSet};

/// Which scans a name may mean.
#[derive(Default)]
pub(super) struct ByName(BTreeMap<String, Vec<usize>>);

impl ByName {
    /// Of the names of each scan: `exact` ones, of which each means one scan, and others, which may
    /// mean several.
    pub(super) fn of<'a>(scans: impl Iterator<Item = (String, [String; 3])> + Clone + 'a) -> Self {
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (n, (_, names)) in scans.clone().enumerate() {
            for name in names {
                let meant = by_name.entry(name).or_default();
                if meant.last() != Some(&n) {
                    meant.push(n);
                }
            }
        }
        by_name.extend(scans.enumerate().map(|(n, (exact, _))| (exact, vec![n])));
        Self(by_name)
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The scan of this name, of several the one that the table is `beside`; where that leaves none, or
    /// several, the name goes to `unclear`.
    pub(super) fn find(
        &self,
        name: &str,
        beside: Option<usize>,
        unclear: &mut Unclear,
    ) -> Option<usize> {
        match self.0.get(name).map(Vec::as_slice) {
            Some(&[one]) => return Some(one),
            Some(several) if beside.is_some_and(|n| several.contains(&n)) => return beside,
            Some(several) => drop(unclear.several.insert(name.to_owned(), several.to_vec())),
            None => drop(unclear.strangers.insert(name.to_owned())),
        }
        None
    }
}

/// Names of a table that mean no scan, or several.
#[derive(Default)]
pub(super) struct Unclear {
    strangers: BTreeSet<String>,
    several: BTreeMap<String, Vec<usize>>,
}

impl Unclear {
    /// Names that mean no scan.
    pub(super) fn strangers(names: impl Iterator<Item = String>) -> Self {
        Self { strangers: names.collect(), several: BTreeMap::new() }
    }

    /// What there is to tell, where images are called as `image` says.
    pub(super) fn told(&self, count: usize, image: impl Fn(usize) -> String) -> Vec<String> {
        let mut told = Vec::new();
        if !self.strangers.is_empty() {
            let names: Vec<String> = self.strangers.iter().cloned().collect();
            let (cases, names) = (cases_of(names.len()), few(&names, ", "));
            let images: Vec<String> = (0..count.min(2)).map(&image).collect();
            let images = images.join(", ");
            told.push(format!("{cases} without an image: {names} (images are called {images}, …)"));
        }
        if !self.several.is_empty() {
            let one = |(name, scans): (&String, &Vec<usize>)| {
                let images: Vec<String> = scans.iter().map(|&n| image(n)).collect();
                format!("{name} may belong to {}", few(&images, " or "))
            };
            let names: Vec<String> = self.several.iter().map(one).collect();
            let cases = cases_of(names.len());
            told.push(format!(
                "{cases} of which the table does not say the image: {} (write the path of the image)",
                few(&names, "; ")
            ));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_several_images_means_none() {
        let scan = |path: &str, id: &str| {
            (path.to_owned(), ["1.nii".to_owned(), "1".to_owned(), id.to_owned()])
        };
        let scans = [scan("1.nii", "1"), scan("b/1.nii", "b_1")];
        let by_name = ByName::of(scans.iter().cloned());
        let mut unclear = Unclear::default();
        let mut find = |name, beside| by_name.find(name, beside, &mut unclear);
        let found = ["1.nii", "b/1.nii", "b_1", "1", "c"].map(|name| find(name, None));
        assert_eq!(found, [Some(0), Some(1), Some(1), None, None]);
        assert_eq!(find("1", Some(1)), Some(1));
        let told = unclear.told(2, |n| scans[n].0.clone());
        assert!(
            told[0].starts_with("1 case without an image: c (images are called 1.nii, b/1.nii")
        );
        assert!(told[1].contains(": 1 may belong to 1.nii or b/1.nii ("), "{}", told[1]);
    }
}
