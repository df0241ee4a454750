//! Left and right: structures whose names differ by these words alone, and lie the other way round in
//! the patient.

use super::boxes::{AnnotatedCases, StructureBoxes};
use super::finding::Finding;
use super::images::few;
use pbt_volume::{Geometry, LengthUnit, Plane, PointLps};

/// Twins whose centres are nearer to each other than this along the patient's left to right say
/// nothing of it, mm.
const APART_MM: f64 = 0.5;

/// Nor do those that lie so far to one side of each other at most, as a share of their distance: one is
/// in front of the other or above it.
const ASIDE: f64 = 0.25;

/// A pair of structures: the one that is named left, and its twin.
struct Twins<'a> {
    left: &'a str,
    right: &'a str,
    /// By case, how far the left one lies to the patient's left of the right one, mm.
    apart_mm: Vec<Option<f64>>,
}

/// What the sides say.
#[derive(Default)]
pub(super) struct Sides {
    pub(super) findings: Vec<Finding>,
    /// Cases in which left and right are the other way round than in most.
    pub(super) mirrored: Vec<String>,
}

impl Sides {
    /// What they say, and after it the findings that do not follow from it: those that are not about cases
    /// with exchanged sides alone.
    pub(super) fn before(mut self, findings: Vec<Finding>) -> Vec<Finding> {
        let follows = |finding: &Finding| {
            let mut of = finding.cases.iter();
            !finding.cases.is_empty() && of.all(|case| self.mirrored.contains(case))
        };
        self.findings.extend(findings.into_iter().filter(|finding| !follows(finding)));
        self.findings
    }
}

/// Whether axes of an image are the patient's: of pictures nobody knows.
pub(super) fn knows_left(unit: LengthUnit, geometry: &Geometry) -> bool {
    unit.is_mm() && Plane::of(geometry).is_none()
}

/// Compares the sides on which structures lie with their names. Of which cases axes are the patient's `is_known`.
pub(super) fn compare_sides(
    cases: &AnnotatedCases<'_>,
    structures: &[StructureBoxes],
    is_known: &[bool],
) -> Sides {
    let boxes = structures.iter().map(|structure| {
        let centers = structure.boxes.iter().map(|(case, pose)| (*case, pose.center));
        (structure.name.clone(), centers.collect::<Vec<_>>())
    });
    let places: Vec<(String, Vec<(usize, PointLps)>)> = boxes.chain(cases.landmarks()).collect();
    let twins = twins(&places, is_known);
    // By case, whether most pairs are exchanged; `None` where there are none.
    let exchanged: Vec<Option<bool>> = (0..is_known.len())
        .map(|case| {
            let apart = || twins.iter().filter_map(|twins| twins.apart_mm[case]);
            let wrong = apart().filter(|mm| *mm < 0.0).count();
            (apart().count() > 0).then_some(2 * wrong > apart().count())
        })
        .collect();
    let all = exchanged.iter().flatten().count();
    let wrong = exchanged.iter().flatten().filter(|wrong| **wrong).count();
    let mostly_wrong = 2 * wrong > all;
    let ids = |is: bool| {
        let cases = cases.cases.iter().zip(&exchanged);
        cases.filter(move |(_, wrong)| **wrong == Some(is)).map(|((spec, _), _)| *spec)
    };
    let mut sides = Sides::default();
    if mostly_wrong {
        let pair = twins.iter().find(|t| t.apart_mm.iter().flatten().any(|mm| *mm < 0.0));
        let example = pair.map_or_else(String::new, |twins| {
            format!(", such as {} to the patient's right of {}", twins.left, twins.right)
        });
        let what = format!(
            "structures: left and right seem exchanged in the names, or the axes of the images are wrong: they lie so in {wrong} of {all} cases{example}: {} (look where a viewer shows R and L)",
            few(ids(true).map(|spec| spec.id.as_str()))
        );
        let message = Finding::of(&cases.dataset.path, what);
        let ids = ids(true).map(|spec| spec.id.as_str());
        sides.findings.push(Finding::warning(message).in_cases(ids));
    }
    for spec in ids(!mostly_wrong) {
        let what = format!(
            "structures: left and right are exchanged in this case, against {} of {all} (check that neither image nor annotations are mirrored, and the names)",
            if mostly_wrong { wrong } else { all - wrong }
        );
        let message = Finding::of(spec.annotated_in(), what);
        sides.findings.push(Finding::warning(message).in_cases([spec.id.as_str()]));
        sides.mirrored.push(spec.id.clone());
    }
    sides
}

/// The pairs of structures, with how they lie in the cases whose axes are known.
fn twins<'a>(places: &'a [(String, Vec<(usize, PointLps)>)], is_known: &[bool]) -> Vec<Twins<'a>> {
    let mut all = Vec::new();
    for (left, left_places) in places {
        let Some((Side::Left, rest)) = side(left) else { continue };
        let twin = places.iter().find(|(name, _)| side(name) == Some((Side::Right, rest.clone())));
        let Some((right, right_places)) = twin else { continue };
        let mut apart_mm = vec![None; is_known.len()];
        for (case, point) in left_places.iter().filter(|(case, _)| is_known[*case]) {
            let other = right_places.iter().find(|(n, _)| n == case);
            apart_mm[*case] = other.and_then(|(_, other)| {
                let mm = point.0.x - other.0.x;
                let least = APART_MM.max(ASIDE * point.distance_mm(other));
                (mm.abs() >= least).then_some(mm)
            });
        }
        all.push(Twins { left, right, apart_mm });
    }
    all
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The side that a name tells, and its other words; `None` without a side, or with two.
fn side(name: &str) -> Option<(Side, Vec<String>)> {
    let words = words(name);
    let of = |word: &String| match word.as_str() {
        "left" => Some(Side::Left),
        "right" => Some(Side::Right),
        _ => None,
    };
    let sides: Vec<(usize, Side)> =
        words.iter().enumerate().filter_map(|(n, word)| Some((n, of(word)?))).collect();
    let [(place, side)] = sides[..] else { return None };
    let mut rest = words;
    // Its place stays, so that `Left A` is no twin of `A Right`.
    rest[place].clear();
    Some((side, rest))
}

/// The words of a name in lower case: `LeftParotid`, `left-parotid` and `LEFT parotid` have two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if begins || letter.is_alphabetic() != before.is_alphabetic() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::{annotated, dataset, marked, upright, wobble};
    use nalgebra::Matrix3;
    use pbt_io::Annotations;
    use pbt_volume::StructureKind;

    #[test]
    fn twins_are_told_by_their_names() {
        let are_twins = |one: &str, other: &str| {
            let (Some((a, rest)), Some((b, other))) = (side(one), side(other)) else {
                return false;
            };
            a != b && rest == other
        };
        for (one, other) in [
            ("Left Hippocampus", "Right Hippocampus"),
            ("LeftParotid", "RightParotid"),
            ("hippocampus_left", "hippocampus_right"),
            ("LEFT-lung", "right lung"),
            ("KidneyLeft2", "KidneyRight2"),
        ] {
            assert!(are_twins(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("Left Hippocampus", "Right Amygdala"),
            ("Left A", "A Right"),
            ("cleft", "cright"),
            ("left lung", "left kidney"),
            ("LeftRight", "RightLeft"),
            ("tip1left", "tip2right"),
        ] {
            assert!(!are_twins(one, other), "{one} {other}");
        }
    }

    #[test]
    fn twins_behind_each_other_tell_no_side() {
        let apart = |x: f64, y: f64| {
            let at = |name: &str, x, y| (name.to_owned(), vec![(0, PointLps::new(x, y, 0.0))]);
            let places = [at("left ventricle", x, y), at("right ventricle", 0.0, 0.0)];
            twins(&places, &[true])[0].apart_mm[0]
        };
        assert_eq!((apart(30.0, 40.0), apart(-5.0, 40.0)), (Some(30.0), None));
        assert_eq!((apart(-20.0, 40.0), apart(0.4, 0.0)), (Some(-20.0), None));
    }

    /// Ten cases with two pairs; in those of `turned` left and right are exchanged. Whether axes are `is_known`.
    fn sides(turned: &[usize], is_known: bool) -> Sides {
        let kinds = [
            ("left lung", StructureKind::Box),
            ("right lung", StructureKind::Box),
            ("EyeLeft", StructureKind::Landmark),
            ("EyeRight", StructureKind::Landmark),
            ("heart", StructureKind::Box),
        ];
        let dataset = dataset(&kinds, 10);
        let made = |n: usize| {
            let sign = if turned.contains(&n) { -1.0 } else { 1.0 };
            let at = |mm: f64| sign * mm + 3.0 * wobble(n);
            let lung = |mm: f64| upright([at(mm), 0.0, 0.0], [30.0; 3]);
            let eye = |mm: f64| PointLps::new(at(mm), 0.0, 90.0);
            marked(
                &[("left lung", lung(40.0)), ("right lung", lung(-40.0)), ("heart", lung(5.0))],
                &[("EyeLeft", eye(12.0)), ("EyeRight", eye(-12.0))],
            )
        };
        let annotations: Vec<Annotations> = (0..10).map(made).collect();
        let cases = annotated(&dataset, &annotations);
        compare_sides(&cases, &cases.boxes(), &[is_known; 10])
    }

    #[test]
    fn exchanged_sides_are_told_of_cases_or_of_the_set() {
        assert!(sides(&[], true).findings.is_empty());
        let few = sides(&[3, 7], true);
        assert_eq!(few.mirrored, ["c3", "c7"]);
        assert!(few.findings.len() == 2 && few.findings[0].cases == ["c3"], "{:?}", few.findings);
        assert!(
            few.findings[1].message.starts_with(
                "c7.mrk.json: structures: left and right are exchanged in this case, against 8 of 10"
            ),
            "{:?}",
            few.findings
        );

        let all: Vec<usize> = (0..10).collect();
        let set = sides(&all, true);
        assert!(set.findings.len() == 1 && set.mirrored.is_empty(), "{:?}", set.findings);
        let words = "in 10 of 10 cases, such as left lung to the patient's right of right lung";
        assert!(set.findings[0].message.contains(words), "{:?}", set.findings);
        let but_one = sides(&all[1..], true);
        assert!(
            but_one.findings.len() == 2 && but_one.mirrored == ["c0"],
            "{:?}",
            but_one.findings
        );
    }

    #[test]
    fn of_pictures_nothing_is_said() {
        let geometry = |shape| {
            Geometry::new(shape, Matrix3::identity(), PointLps::new(0.0, 0.0, 0.0)).unwrap()
        };
        assert!(knows_left(LengthUnit::Mm, &geometry([9, 9, 9])));
        assert!(!knows_left(LengthUnit::Mm, &geometry([9, 9, 1])));
        assert!(sides(&[0, 1, 2, 3, 4, 5, 6, 7], false).findings.is_empty());
    }
}
