//! Images or annotations that are reversed along an axis: what a case shows about its boxes is held against
//! what the others show there, as it is and reversed.

use super::about_box::{AboutBox, REVERSALS, Reversal, What};
use super::finding::Finding;
use super::images::{ImageFacts, few};
use super::pattern::{Pattern, Patterns};
use super::robust::{FEWEST_TO_COMPARE, median};
use pbt_io::CaseSpec;
use std::collections::BTreeMap;

/// Cases must correlate so much worse with the others once they are reversed, in the median: a spine looks
/// the same from its left and from its right, so that nothing can be told there.
const TELLS: f64 = 0.15;

/// A case is named where reversal brings it nearer to the others by more than this share of what others lose by it,
/// and to at least so high a correlation. Of 190 cases of seven sets (heads and necks, hippocampi, spines in T1
/// and T2; chests and abdomens in CT and MR, on which nothing was chosen) none is named; reversed along an axis that
/// tells, 98 % are, one in two hundred of these with another axis.
const SHARE: f64 = 0.5;
const ALIKE: f64 = 0.4;

/// The cases that show more of what the others show once image, annotations or both are reversed. Structures
/// whose boxes do not lie `alike` say nothing.
pub(super) fn reversed_cases(cases: &[(&CaseSpec, &ImageFacts)], alike: &[String]) -> Vec<Finding> {
    let mut by_structure: BTreeMap<&str, Vec<(usize, &AboutBox)>> = BTreeMap::new();
    for (n, (_, image)) in cases.iter().enumerate() {
        for about in image.about_boxes.iter().filter(|about| alike.contains(&about.structure)) {
            by_structure.entry(&about.structure).or_default().push((n, about));
        }
    }
    let mut told: Vec<Told> = cases.iter().map(|_| Told::default()).collect();
    for of_structure in by_structure.values().filter(|s| s.len() >= FEWEST_TO_COMPARE) {
        let all: Patterns = of_structure.iter().map(|(_, about)| &about.as_it_is).collect();
        for &(n, about) in of_structure {
            told[n].add(about, &all.without(&about.as_it_is));
        }
    }
    let compared: Vec<(usize, &Told)> =
        told.iter().enumerate().filter(|(_, told)| told.structures > 0).collect();
    let losses: [f64; REVERSALS] = std::array::from_fn(|r| {
        median(compared.iter().map(|(_, told)| -told.gain(r))).unwrap_or(0.0)
    });
    let mut named: BTreeMap<Reversal, Vec<usize>> = BTreeMap::new();
    for &(n, told) in &compared {
        let best = (0..REVERSALS)
            .filter(|&r| losses[r] >= TELLS && told.gain(r) > SHARE * losses[r])
            .filter(|&r| told.own() + told.gain(r) > ALIKE)
            .max_by(|&a, &b| told.gain(a).total_cmp(&told.gain(b)));
        if let Some(r) = best {
            named.entry(Reversal::number(r)).or_default().push(n);
        }
    }
    named.into_iter().map(|(how, of)| finding(how, &of, cases, compared.len())).collect()
}

/// How much a case has in common with the others, summed over its structures.
#[derive(Debug, Default)]
struct Told {
    structures: usize,
    own: f64,
    reversed: [f64; REVERSALS],
}

impl Told {
    fn add(&mut self, about: &AboutBox, usual: &Pattern) {
        self.structures += 1;
        self.own += about.as_it_is.correlation(usual);
        for (r, sum) in self.reversed.iter_mut().enumerate() {
            *sum += about.seen(Reversal::number(r)).correlation(usual);
        }
    }

    /// The mean correlation with the others as it is.
    fn own(&self) -> f64 {
        self.own / self.structures as f64
    }

    /// By how much a reversal raises it.
    fn gain(&self, r: usize) -> f64 {
        self.reversed[r] / self.structures as f64 - self.own()
    }
}

fn finding(
    how: Reversal,
    of: &[usize],
    cases: &[(&CaseSpec, &ImageFacts)],
    compared: usize,
) -> Finding {
    let (spec, image) = cases[of[0]];
    let direction = how.direction(!image.unit.is_mm());
    let ids = || of.iter().map(|&n| cases[n].0.id.as_str());
    let (file, what) = match how.what {
        What::Both => (spec.image.as_path(), "image and annotations seem reversed"),
        What::Image => (spec.image.as_path(), "the image, but not its annotations, seems reversed"),
        What::Annotations => {
            (spec.annotated_in(), "the annotations, but not their image, seem reversed")
        }
    };
    let message = format!(
        "orientation: {what} {direction}: so it shows about its boxes what the others do; {} of {compared} cases: {} (look at them in a viewer, and at the axes in their headers)",
        of.len(),
        few(ids())
    );
    Finding::warning(Finding::of(file, message)).in_cases(ids())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::images::look_at;
    use nalgebra::{Matrix3, UnitQuaternion};
    use pbt_io::{Dataset, OpenImage, RawImage, VoxelType, write_image};
    use pbt_volume::{Geometry, PointLps, Pose};
    use std::fmt::Write;

    const SHAPE: [usize; 3] = [32, 32, 24];

    /// Brighter towards one end of each axis, about a box that is not in the middle.
    fn value(at: [f64; 3], of: [f64; 3]) -> f64 {
        let d: [f64; 3] = std::array::from_fn(|a| (at[a] - of[a]) / 6.0);
        let bump = (-d.iter().map(|x| x * x).sum::<f64>()).exp();
        120.0 + 90.0 * bump * (0.5 * d[0] + 0.8 * d[1] + d[2] + 0.5)
    }

    /// Findings of ten cases of which the fourth has its image, its annotation or both reversed along z.
    fn findings(image_reversed: bool, box_reversed: bool) -> Vec<Finding> {
        let folder = tempfile::tempdir().unwrap();
        let mut listed = String::new();
        let mut boxes = Vec::new();
        for n in 0..10 {
            let off = |a: usize| ((n * 7 + a * 3) % 5) as f64 * 0.4;
            let mut center = [13.0 + off(0), 18.0 + off(1), 9.0 + off(2)];
            let shown = center;
            let reversed = |is: bool, k: f64| if is && n == 3 { 23.0 - k } else { k };
            let voxel = |v: usize| {
                let [i, j, k] = [v % 32, v / 32 % 32, v / 1024].map(|n| n as f64);
                value([i, j, reversed(image_reversed, k)], shown) as u8
            };
            let bytes = (0..SHAPE.iter().product()).map(voxel).collect();
            let geometry =
                Geometry::new(SHAPE, Matrix3::identity(), PointLps::new(0.0, 0.0, 0.0)).unwrap();
            let raw = RawImage::new(geometry, VoxelType::U8, bytes, None).unwrap();
            write_image(&folder.path().join(format!("c{n}.nii.gz")), &raw).unwrap();
            center[2] = reversed(box_reversed, center[2]);
            boxes.push(Pose {
                center: PointLps::new(center[0], center[1], center[2]),
                orientation: UnitQuaternion::identity(),
                size_mm: [10.0, 9.0, 8.0],
            });
            let comma = if n == 0 { "" } else { "," };
            let case = format!(r#"{comma}{{"id":"c{n}","split":"train","image":"c{n}.nii.gz"}}"#);
            write!(listed, "{case}").unwrap();
        }
        let json = format!(
            r#"{{"schema":"pbt-dataset/1","name":"x","modality":"CT","structures":[{{"name":"s","kind":"box"}}],"cases":[{listed}]}}"#
        );
        std::fs::write(folder.path().join("dataset.json"), json).unwrap();
        let dataset = Dataset::load(folder.path()).unwrap();
        let facts: Vec<ImageFacts> = dataset
            .cases
            .iter()
            .zip(&boxes)
            .map(|(case, pose)| {
                let image = OpenImage::open(&case.image, &case.options);
                let boxes = [("s".to_owned(), *pose)];
                let file = (case.image.as_path(), &case.options);
                look_at(&case.id, Some(&case.split), file, image, &boxes).0.unwrap()
            })
            .collect();
        let cases: Vec<_> = dataset.cases.iter().zip(&facts).collect();
        assert!(reversed_cases(&cases, &[]).is_empty());
        reversed_cases(&cases, &["s".to_owned()])
    }

    #[test]
    fn what_is_reversed_is_said() {
        assert!(findings(false, false).is_empty());
        for (image, annotations, said) in [
            (true, true, "c3.nii.gz: orientation: image and annotations seem reversed"),
            (
                true,
                false,
                "c3.nii.gz: orientation: the image, but not its annotations, seems reversed",
            ),
            (false, true, ": orientation: the annotations, but not their image, seem reversed"),
        ] {
            let findings = findings(image, annotations);
            let [finding] = &findings[..] else { panic!("{said}: {findings:?}") };
            assert!(finding.message.contains(said), "{finding:?}");
            assert!(finding.message.contains("from head to foot"), "{finding:?}");
            assert_eq!(finding.cases, ["c3"]);
        }
    }
}
