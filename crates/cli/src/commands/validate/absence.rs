//! Structures that are marked as missing in training cases: how many, and what a training makes of it.

use pbt_detect::FEWEST_WITHOUT;
use pbt_io::{Annotations, CaseSpec, Dataset, LandmarkState};
use pbt_volume::StructureKind;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// A box that some training cases are said not to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct StructureAbsence {
    name: String,
    /// Training cases in which it is marked as missing, and the subjects of these.
    cases: usize,
    subjects: usize,
    /// Whether these are enough to learn from when it is absent.
    learned: bool,
}

impl fmt::Display for StructureAbsence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, cases, subjects, learned } = self;
        write!(
            f,
            "{name}: marked as missing in {cases} training case(s) of {subjects} subject(s): "
        )?;
        match learned {
            true => write!(f, "a training learns from them when it is absent"),
            false => write!(
                f,
                "they lower its scores; from {FEWEST_WITHOUT} subjects on, a training learns when it is absent"
            ),
        }
    }
}

/// The boxes that are marked as missing somewhere, in the data set's order.
pub(super) fn absences<'a>(
    dataset: &Dataset,
    cases: impl Iterator<Item = (&'a CaseSpec, &'a Annotations)> + Clone,
) -> Vec<StructureAbsence> {
    let training = cases.filter(|(case, _)| case.split == "train");
    let boxes = dataset.structures.iter().filter(|s| s.kind == StructureKind::Box);
    let boxes = boxes.filter(|s| !dataset.is_many(&s.name));
    let of = |name: &String| {
        let is_missing = |a: &Annotations| a.landmark(name) == Some(LandmarkState::OutOfView);
        let without: Vec<&CaseSpec> =
            training.clone().filter(|(_, a)| is_missing(a)).map(|(case, _)| case).collect();
        let subject = |case: &&'a CaseSpec| case.subject.as_ref().unwrap_or(&case.id);
        let subjects = without.iter().map(subject).collect::<BTreeSet<_>>().len();
        (!without.is_empty()).then(|| StructureAbsence {
            name: name.clone(),
            cases: without.len(),
            subjects,
            learned: subjects >= FEWEST_WITHOUT,
        })
    };
    boxes.filter_map(|s| of(&s.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made;
    use pbt_io::Landmark;

    #[test]
    fn subjects_are_counted_and_other_splits_are_not() {
        let kinds = [
            ("heart", StructureKind::Box),
            ("liver", StructureKind::Box),
            ("tip", StructureKind::Landmark),
        ];
        let mut dataset = made::dataset(&kinds, 8);
        for (n, case) in dataset.cases.iter_mut().enumerate() {
            case.split = if n == 7 { "test" } else { "train" }.into();
            case.subject = (n < 2).then(|| "one".into());
        }
        let out = |name: &str| Landmark { name: name.into(), state: LandmarkState::OutOfView };
        let annotations = |n: usize| Annotations {
            landmarks: match n {
                0 | 1 => vec![out("heart"), out("liver"), out("tip")],
                2..5 | 7 => vec![out("heart")],
                _ => Vec::new(),
            },
            ..Annotations::default()
        };
        let all: Vec<Annotations> = (0..8).map(annotations).collect();
        let found = absences(&dataset, dataset.cases.iter().zip(&all));
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            lines[0],
            "heart: marked as missing in 5 training case(s) of 4 subject(s): a training learns from them when it is absent"
        );
        assert!(lines[1].starts_with(
            "liver: marked as missing in 2 training case(s) of 1 subject(s): they lower"
        ));
    }
}
