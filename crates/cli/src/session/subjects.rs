//! Whole subjects are held back, never one of a subject's scans: a second scan of a patient is
//! found too easily by a model that was trained on the first.

use pbt_io::CaseSpec;
use std::collections::BTreeMap;

/// Divides cases into those that are kept and those that are held back: all cases of every
/// `every`-th subject, counted in the order of their first cases. A case without a subject is its
/// own.
pub fn hold_back(cases: Vec<CaseSpec>, every: usize) -> (Vec<CaseSpec>, Vec<CaseSpec>) {
    divide_subjects(cases, every, every - 1)
}

/// As [`hold_back`], of the part `which` of `parts` equal ones, from 0.
pub fn divide_subjects(
    cases: Vec<CaseSpec>,
    parts: usize,
    which: usize,
) -> (Vec<CaseSpec>, Vec<CaseSpec>) {
    let mut numbers: BTreeMap<(Option<String>, String), usize> = BTreeMap::new();
    cases.into_iter().partition(|case| {
        let own = if case.subject.is_none() { case.id.clone() } else { String::new() };
        let next = numbers.len();
        let number = *numbers.entry((case.subject.clone(), own)).or_insert(next);
        number % parts != which
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_io::ReadOptions;

    fn cases(subjects: &[Option<&str>]) -> Vec<CaseSpec> {
        let case = |(n, subject): (usize, &Option<&str>)| CaseSpec {
            id: n.to_string(),
            image: "a.nii".into(),
            options: ReadOptions::default(),
            split: "train".into(),
            subject: subject.map(str::to_owned),
            annotations: Vec::new(),
            labels: None,
            not_drawn: Vec::new(),
        };
        subjects.iter().enumerate().map(case).collect()
    }

    fn held(subjects: &[Option<&str>], every: usize) -> Vec<String> {
        let (kept, held) = hold_back(cases(subjects), every);
        assert_eq!(kept.len() + held.len(), subjects.len());
        assert!(kept.iter().all(|a| held.iter().all(|b| !a.has_subject_of(b))));
        held.into_iter().map(|case| case.id).collect()
    }

    #[test]
    fn without_subjects_every_so_many_th_case_is_held_back() {
        assert_eq!(held(&[None; 11], 5), ["4", "9"]);
        assert!(held(&[None; 4], 5).is_empty());
    }

    #[test]
    fn a_subject_is_never_divided() {
        let (a, b, c) = (Some("a"), Some("b"), Some("c"));
        // The second subject is b, the fourth c; "0" is no name of the first case here.
        assert_eq!(held(&[a, b, a, Some("0"), c, b, c, None], 2), ["1", "4", "5", "6"]);
        assert_eq!(held(&[a; 6], 1).len(), 6);
    }
}
