//! Whether a structure is in an image at all, learned where the data say of some cases that it is not.

use crate::certainty::evidence::{Evidence, KINDS, stored};
use crate::certainty::logistic::{Outcome, logistic, weighed};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Fewest subjects without a structure from which its absence is learned: of fewer, the rule of
/// succession leaves more doubt than `Presence::absent_below` allows.
pub const FEWEST_WITHOUT: usize = 4;

/// Of a structure: from detections of the whole chain in held-out cases that have it and in cases that
/// are said not to. Part of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presence {
    /// From evidence to log-odds that the structure is there, if it is there in every other image.
    #[serde(with = "stored")]
    pub weights: Evidence,
    /// Log-odds without evidence.
    pub intercept: f64,
    /// Subjects with the structure, and those without it.
    pub with: usize,
    /// Subjects without it.
    pub without: usize,
    /// Subjects with it, of whom some case would be called `absent`.
    pub missed: usize,
    /// Subjects without it, all of whose cases would be called `absent`.
    pub absent: usize,
}

impl Presence {
    /// Probability that the structure is there. No more can be said than so many subjects allow: the
    /// rule of succession on either side.
    pub(crate) fn probability(&self, evidence: &Evidence) -> f64 {
        let weighed = (0..KINDS).map(|k| self.weights[k] * evidence[k]).sum::<f64>();
        let least = |subjects: usize| 1.0 / (subjects as f64 + 2.0);
        logistic(self.intercept + weighed).clamp(least(self.without), 1.0 - least(self.with))
    }

    /// A structure is absent where the probability is less: as sure as one must be to call it found, but
    /// never where it is more likely there than not.
    pub(crate) fn absent_below(found_from: f64) -> f64 {
        (1.0 - found_from).min(0.5)
    }

    /// Whether nothing in it leads evaluation astray.
    pub(crate) fn is_valid(&self) -> bool {
        self.weights.iter().all(|weight| weight.is_finite())
            && self.intercept.is_finite()
            && self.missed <= self.with
            && self.absent <= self.without
    }
}

/// What was taken for a structure in a case of a subject.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) structure: usize,
    pub(crate) subject: usize,
    pub(crate) evidence: Evidence,
}

/// By structure, what is learned of its presence; `None` where too few subjects are said to lack it.
/// `found_from` is the score from which a structure is found.
pub(crate) fn presences(
    with: &[Seen],
    without: &[Seen],
    structures: usize,
    found_from: f64,
) -> Vec<Option<Presence>> {
    let own = |boxes: &[Seen], s: usize| -> Vec<(usize, Evidence)> {
        boxes.iter().filter(|b| b.structure == s).map(|b| (b.subject, b.evidence)).collect()
    };
    let subjects = |of: &[(usize, Evidence)]| of.iter().map(|b| b.0).collect::<BTreeSet<_>>().len();
    let by_structure: Vec<[Vec<(usize, Evidence)>; 2]> =
        (0..structures).map(|s| [own(with, s), own(without, s)]).collect();
    let is_learned: Vec<bool> =
        by_structure.iter().map(|[_, without]| subjects(without) >= FEWEST_WITHOUT).collect();
    let mut outcomes = Vec::new();
    for (group, both) in by_structure.iter().enumerate().filter(|&(s, _)| is_learned[s]) {
        for (of, right) in both.iter().zip([true, false]) {
            outcomes.extend(of.iter().map(|&(_, evidence)| Outcome { evidence, group, right }));
        }
    }
    let fitted = weighed(&outcomes, structures);
    let learned = |(s, [with, without]): (usize, &[Vec<(usize, Evidence)>; 2])| {
        // How often it lacks in the training says nothing of new images. Other shares of the two kinds
        // move the intercept alone (King and Zeng 2001, section 4.1).
        let share = (with.len() as f64 + 1.0) / (without.len() as f64 + 1.0);
        let presence = Presence {
            weights: fitted.weights,
            intercept: fitted.intercepts[s] - libm::log(share),
            with: subjects(with),
            without: subjects(without),
            missed: 0,
            absent: 0,
        };
        let called_absent = |of: &[(usize, Evidence)]| {
            let mut by_subject: BTreeMap<usize, Vec<bool>> = BTreeMap::new();
            for (subject, evidence) in of {
                let absent = presence.probability(evidence) < Presence::absent_below(found_from);
                by_subject.entry(*subject).or_default().push(absent);
            }
            by_subject
        };
        let missed = called_absent(with).values().filter(|cases| cases.contains(&true)).count();
        let absent =
            called_absent(without).values().filter(|cases| !cases.contains(&false)).count();
        Presence { missed, absent, ..presence }
    };
    by_structure
        .iter()
        .enumerate()
        .map(|(s, both)| is_learned[s].then(|| learned((s, both))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(structure: usize, subject: usize, detector: f64) -> Seen {
        let evidence = [detector, detector / 2.0, 5.0, 0.0, detector / 2.0, -1.0, 0.0];
        Seen { structure, subject, evidence }
    }

    #[test]
    fn cases_without_a_structure_teach_when_it_is_absent() {
        let with: Vec<Seen> = (0..30).map(|n| seen(0, n, 3.0 + (n % 3) as f64)).collect();
        let without: Vec<Seen> = (30..36).map(|n| seen(0, n, -2.0 - (n % 2) as f64)).collect();
        let [Some(presence)] = &presences(&with, &without, 1, 0.8)[..] else { panic!() };
        assert_eq!((presence.with, presence.without), (30, 6));
        assert_eq!((presence.missed, presence.absent), (0, 6));
        // No surer than the subjects allow.
        assert!(presence.probability(&with[0].evidence) <= 31.0 / 32.0);
        assert!(presence.probability(&without[0].evidence) >= 1.0 / 8.0);
        assert!(presence.is_valid());
    }

    #[test]
    fn few_cases_teach_nothing_and_other_structures_are_as_before() {
        let with: Vec<Seen> = (0..20).flat_map(|n| [seen(0, n, 4.0), seen(1, n, 4.0)]).collect();
        let without: Vec<Seen> = (20..23).map(|n| seen(1, n, -3.0)).collect();
        assert_eq!(presences(&with, &without, 2, 0.8), [None, None]);
        // Several cases of one subject are one.
        let of_one: Vec<Seen> = (0..9).map(|_| seen(1, 20, -3.0)).collect();
        assert_eq!(presences(&with, &of_one, 2, 0.8), [None, None]);
        let enough: Vec<Seen> = (20..25).map(|n| seen(1, n, -3.0)).collect();
        let learned = presences(&with, &enough, 2, 0.8);
        assert!(learned[0].is_none() && learned[1].is_some());
    }

    #[test]
    fn what_cannot_be_told_apart_is_not_called_absent() {
        let with: Vec<Seen> = (0..20).map(|n| seen(0, n, 3.0)).collect();
        let without: Vec<Seen> = (20..30).map(|n| seen(0, n, 3.0)).collect();
        let [Some(presence)] = &presences(&with, &without, 1, 0.8)[..] else { panic!() };
        let probability = presence.probability(&with[0].evidence);
        assert!((probability - 0.5).abs() < 0.2, "{probability}");
        assert_eq!((presence.missed, presence.absent), (0, 0));
    }
}
