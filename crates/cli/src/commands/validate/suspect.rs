//! Boxes by how little they fit the others: what to look at first.

use pbt_io::CaseSpec;
use pbt_volume::Pose;

/// A box and how odd it is.
#[derive(Debug, Clone)]
pub(super) struct Suspect {
    pub(super) case: CaseSpec,
    pub(super) structure: String,
    /// As annotated.
    pub(super) annotated: Pose,
    /// As the other cases, or the other structures of the case, would have it.
    pub(super) expected: Option<Pose>,
    /// How far from usual; from 1 on it is a finding.
    pub(super) score: f64,
    /// What is odd, in a few words.
    pub(super) why: String,
}

impl Suspect {
    /// Whether it is odd enough to be named.
    pub(super) fn is_named(&self) -> bool {
        self.score >= 1.0
    }
}

/// The oddest box of each case, the oddest case first: those that a model contradicts before all
/// others, since their oddness has another measure.
pub(super) fn ranked(contradicted: Vec<Suspect>, unlike_others: Vec<Suspect>) -> Vec<Suspect> {
    let mut suspects = Vec::new();
    for mut group in [contradicted, unlike_others] {
        // A stable sort: ties stay in the order of the data set.
        group.sort_by(|a, b| b.score.total_cmp(&a.score));
        suspects.extend(group);
    }
    let mut seen = std::collections::BTreeSet::new();
    suspects.retain(|suspect| seen.insert(suspect.case.id.clone()));
    suspects
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::{case, upright};

    #[test]
    fn each_case_is_shown_once_with_its_oddest_box() {
        let suspect = |n: usize, score: f64| Suspect {
            case: case(n),
            structure: "a".into(),
            annotated: upright([0.0; 3], [1.0; 3]),
            expected: None,
            score,
            why: String::new(),
        };
        let order =
            |contradicted: Vec<Suspect>, unlike_others: Vec<Suspect>| -> Vec<(String, f64)> {
                let all = ranked(contradicted, unlike_others);
                all.into_iter().map(|s| (s.case.id, s.score)).collect()
            };
        let is = |n: usize, score: f64| (format!("c{n}"), score);
        let others = || vec![suspect(0, 0.5), suspect(1, 2.0), suspect(0, 3.0), suspect(2, 0.1)];
        assert_eq!(order(vec![], others()), [is(0, 3.0), is(1, 2.0), is(2, 0.1)]);
        let contradicted = vec![suspect(2, 1.2), suspect(1, 1.5)];
        assert_eq!(order(contradicted, others()), [is(1, 1.5), is(2, 1.2), is(0, 3.0)]);
    }
}
