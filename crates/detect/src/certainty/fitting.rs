//! From detections in held-out cases to what a model knows of its own certainty.

use crate::certainty::conformal::radius_90;
use crate::certainty::evidence::landmark_evidence;
use crate::certainty::evidence::{Evidence, LABELS};
use crate::certainty::learned::{Certainty, HeldOutErrors, LandmarkCertainty};
use crate::certainty::logistic::{Beliefs, Logistic, Outcome, weighed};
use crate::certainty::presence::{Presence, Seen, presences};
use std::collections::{BTreeMap, BTreeSet};

/// A structure found in a case that the model had not seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldOutBox {
    pub(crate) structure: usize,
    pub(crate) subject: usize,
    pub(crate) evidence: Evidence,
    /// Absent, or doubtful at most, whatever its score.
    pub(crate) out: bool,
    /// Doubtful at most, were it not absent.
    pub(crate) unsure: bool,
    pub(crate) right: bool,
    pub(crate) center_mm: f64,
    pub(crate) corner_mm: f64,
    /// Share of the box inside the image.
    pub(crate) visible: f64,
    pub(crate) landmarks: Vec<HeldOutLandmark>,
    /// One of several instances, or taken for one.
    pub(crate) instance: bool,
}

/// A landmark of its frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldOutLandmark {
    /// Index among the structure's landmarks.
    pub(crate) landmark: usize,
    /// Log-odds of its own place.
    pub(crate) place: f64,
    pub(crate) right: bool,
    pub(crate) error_mm: f64,
    /// It is said not to be there, so that it is nowhere right.
    pub(crate) missing: bool,
}

/// What is believed of a landmark: by its box and by its own place.
const LANDMARK_BELIEVED: [f64; 2] = [0.5, 0.25];

/// The certainties of structures with so many landmarks each, from boxes in cases that have them and
/// in cases that are said not to. `found_from` is the score from which a structure is found.
pub(crate) fn certainties(
    (boxes, without): (&[HeldOutBox], &[HeldOutBox]),
    landmarks: &[usize],
    loose_ends: &[bool],
    found_from: f64,
) -> Vec<Certainty> {
    let outcome =
        |b: &HeldOutBox| Outcome { evidence: b.evidence, group: b.structure, right: b.right };
    let outcomes: Vec<_> = boxes.iter().chain(without).map(outcome).collect();
    let presences = learned_presences((boxes, without), landmarks.len(), found_from);
    let fitted = weighed(&outcomes, landmarks.len());
    (0..landmarks.len())
        .map(|s| {
            let own: Vec<&HeldOutBox> = boxes.iter().filter(|b| b.structure == s).collect();
            let mut certainty = Certainty {
                weights: fitted.weights,
                intercept: fitted.intercepts[s],
                held_out: HeldOutErrors {
                    subjects: subjects(own.iter().map(|b| b.subject)),
                    right: 0,
                    found: 0,
                    radius_90_mm: None,
                    corner_radius_90_mm: None,
                },
                loose_ends: loose_ends[s],
                least_visible: 1.0,
                presence: presences[s].clone(),
                landmarks: Vec::new(),
            };
            let score = |b: &HeldOutBox| match b.instance {
                true => certainty.score_of_instance(&b.evidence),
                false => certainty.score(&b.evidence),
            };
            let found = |b: &HeldOutBox| !certainty.is_out(b, found_from) && score(b) >= found_from;
            let near: Vec<Near> = own
                .iter()
                .map(|b| Near {
                    subject: b.subject,
                    right: b.right,
                    found: found(b),
                    errors_mm: [b.center_mm, b.corner_mm],
                    instance: b.instance,
                })
                .collect();
            let shares = own.iter().filter(|b| found(b)).map(|b| b.visible);
            let least_visible = shares.fold(1.0, f64::min);
            certainty.held_out = errors(&near, true);
            certainty.least_visible = least_visible;
            certainty.landmarks = landmark_certainties(&certainty, &own, landmarks[s], found_from);
            certainty
        })
        .collect()
}

/// By structure, what boxes in cases that have it and in cases that are said not to teach of its presence,
/// without their labels: these are looked for afterwards.
pub(crate) fn learned_presences(
    (boxes, without): (&[HeldOutBox], &[HeldOutBox]),
    structures: usize,
    found_from: f64,
) -> Vec<Option<Presence>> {
    let seen = |of: &[HeldOutBox]| -> Vec<Seen> {
        let seen = |b: &HeldOutBox| {
            let mut evidence = b.evidence;
            evidence[LABELS] = 0.0;
            Seen { structure: b.structure, subject: b.subject, evidence }
        };
        of.iter().map(seen).collect()
    };
    presences(&seen(boxes), &seen(without), structures, found_from)
}

impl Certainty {
    /// Whether a held-out box is absent, or doubtful at most, whatever its score.
    pub(crate) fn is_out(&self, b: &HeldOutBox, found_from: f64) -> bool {
        match &self.presence {
            None => b.out,
            Some(presence) => {
                let there = presence.probability(&b.evidence);
                b.unsure || there < Presence::absent_below(found_from)
            }
        }
    }
}

fn landmark_certainties(
    certainty: &Certainty,
    boxes: &[&HeldOutBox],
    count: usize,
    found_from: f64,
) -> Vec<LandmarkCertainty> {
    let evidence = |b: &HeldOutBox, l: &HeldOutLandmark| {
        [landmark_evidence(certainty.score(&b.evidence)), l.place]
    };
    let all: Vec<(&HeldOutBox, &HeldOutLandmark)> =
        boxes.iter().flat_map(|b| b.landmarks.iter().map(move |l| (*b, l))).collect();
    let outcomes: Vec<_> = all
        .iter()
        .map(|(b, l)| Outcome { evidence: evidence(b, l), group: l.landmark, right: l.right })
        .collect();
    let fitted = Logistic::fit(&outcomes, count, &Beliefs { weights: LANDMARK_BELIEVED });
    (0..count)
        .map(|n| {
            let own = || all.iter().filter(|(_, l)| l.landmark == n && !l.missing);
            let mut landmark = LandmarkCertainty {
                weights: fitted.weights,
                intercept: fitted.intercepts[n],
                held_out: HeldOutErrors {
                    subjects: subjects(own().map(|(b, _)| b.subject)),
                    right: 0,
                    found: 0,
                    radius_90_mm: None,
                    corner_radius_90_mm: None,
                },
            };
            let near: Vec<Near> = own()
                .map(|(b, l)| Near {
                    subject: b.subject,
                    right: l.right,
                    found: !certainty.is_out(b, found_from)
                        && landmark.score(&evidence(b, l)) >= found_from,
                    errors_mm: [l.error_mm; 2],
                    instance: false,
                })
                .collect();
            landmark.held_out = errors(&near, false);
            landmark
        })
        .collect()
}

/// How near a held-out structure was.
struct Near {
    subject: usize,
    right: bool,
    found: bool,
    errors_mm: [f64; 2],
    instance: bool,
}

/// Fewest subjects whose instances tell a radius.
const FEWEST_SUBJECTS: usize = 9;

/// Of a structure that occurs several times. What was found and is no instance has no place to be
/// away from: radii are those of the others, all instances together.
fn errors_of_instances(near: &[Near]) -> HeldOutErrors {
    let found = || near.iter().filter(|n| n.found);
    let wrong: BTreeSet<usize> = found().filter(|n| !n.right).map(|n| n.subject).collect();
    let with_found: BTreeSet<usize> = found().map(|n| n.subject).collect();
    let radius = |k: usize| {
        let errors: Vec<f64> = found().filter(|n| n.right).map(|n| n.errors_mm[k]).collect();
        radius_90(&errors).filter(|_| with_found.len() >= FEWEST_SUBJECTS)
    };
    HeldOutErrors {
        subjects: subjects(near.iter().map(|n| n.subject)),
        right: with_found.difference(&wrong).count(),
        found: with_found.len(),
        radius_90_mm: radius(0),
        corner_radius_90_mm: radius(1),
    }
}

/// The unit is the subject: of several cases the worst counts.
fn errors(near: &[Near], corners: bool) -> HeldOutErrors {
    if near.iter().any(|n| n.instance) {
        return errors_of_instances(near);
    }
    let mut right: BTreeMap<usize, bool> = BTreeMap::new();
    let mut found: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
    for n in near {
        *right.entry(n.subject).or_insert(true) &= n.right;
        if n.found {
            let worst = found.entry(n.subject).or_insert([0.0; 2]);
            *worst = [0, 1].map(|k| worst[k].max(n.errors_mm[k]));
        }
    }
    let radius = |k: usize| radius_90(&found.values().map(|e| e[k]).collect::<Vec<_>>());
    HeldOutErrors {
        subjects: right.len(),
        right: right.values().filter(|right| **right).count(),
        found: found.len(),
        radius_90_mm: radius(0),
        corner_radius_90_mm: radius(1).filter(|_| corners),
    }
}

fn subjects(of: impl Iterator<Item = usize>) -> usize {
    of.collect::<BTreeSet<usize>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::test_random;

    fn held_out(case: usize, strong: bool, right: bool, center_mm: f64) -> HeldOutBox {
        HeldOutBox {
            structure: 0,
            subject: case,
            evidence: if strong {
                [4.0, 4.0, 5.0, 3.0, 2.0, -0.5, 0.0]
            } else {
                [0.0, 0.5, 5.0, 0.0, -1.0, -2.0, 0.0]
            },
            out: false,
            unsure: false,
            right,
            center_mm,
            corner_mm: 2.0 * center_mm,
            visible: 1.0,
            landmarks: vec![HeldOutLandmark {
                landmark: 0,
                place: 3.0,
                right,
                error_mm: 0.5 * center_mm,
                missing: false,
            }],
            instance: false,
        }
    }

    /// Of thirty found cases one shows four fifths of the box. A box of which less is in view has no radius.
    #[test]
    fn what_is_cut_by_more_than_any_held_out_case_has_no_radius() {
        let mut boxes: Vec<HeldOutBox> = (0..30).map(|n| held_out(n, true, true, 1.0)).collect();
        boxes[7].visible = 0.8;
        let [certainty] = &certainties((&boxes, &[]), &[1], &[false], 0.8)[..] else { panic!() };
        assert_eq!(certainty.least_visible, 0.8);
        let radius = |visible| certainty.precision([20.0; 3], [1.0; 3], visible).radius_90_mm;
        assert_eq!((radius(1.0), radius(0.76), radius(0.74)), (Some(1.0), Some(1.0), None));
    }

    #[test]
    fn scores_are_capped_and_radii_hold_nine_of_ten() {
        let mut random = test_random(2);
        let boxes: Vec<HeldOutBox> =
            (0..32).map(|n| held_out(n, true, true, random.uniform() * 3.0)).collect();
        let [certainty] = &certainties((&boxes, &[]), &[1], &[false], 0.8)[..] else { panic!() };
        let score = certainty.score(&boxes[0].evidence);
        assert!((0.9..=33.0 / 34.0).contains(&score), "{score}");
        assert_eq!((certainty.held_out.right, certainty.held_out.found), (32, 32));
        let radius = certainty.held_out.radius_90_mm.unwrap();
        let within = boxes.iter().filter(|b| b.center_mm <= radius).count();
        assert_eq!(within, 30);
        assert_eq!(certainty.held_out.corner_radius_90_mm, Some(2.0 * radius));
        let landmark = &certainty.landmarks[0].held_out;
        assert_eq!(
            (landmark.radius_90_mm, landmark.corner_radius_90_mm),
            (Some(radius / 2.0), None)
        );
        assert!(certainty.is_valid(1) && !certainty.is_valid(2));
    }

    #[test]
    fn a_detector_that_was_sure_and_wrong_is_believed_no_more() {
        // Two of three wrong, whatever they looked like.
        let boxes: Vec<HeldOutBox> =
            (0..24).map(|n| held_out(n, true, n.is_multiple_of(3), 9.0)).collect();
        let [certainty] = &certainties((&boxes, &[]), &[1], &[false], 0.8)[..] else { panic!() };
        let score = certainty.score(&boxes[0].evidence);
        assert!((0.25..0.45).contains(&score), "{score}");
        assert_eq!((certainty.held_out.found, certainty.held_out.radius_90_mm), (0, None));
    }

    #[test]
    fn weak_evidence_counts_where_it_told_right_from_wrong() {
        let boxes: Vec<HeldOutBox> =
            (0..40).map(|n| held_out(n, !n.is_multiple_of(4), !n.is_multiple_of(4), 2.0)).collect();
        let [certainty] = &certainties((&boxes, &[]), &[1], &[false], 0.8)[..] else { panic!() };
        assert!(certainty.score(&boxes[1].evidence) > 0.9);
        assert!(certainty.score(&boxes[0].evidence) < 0.25);
        assert_eq!(certainty.held_out.found, 30);
    }

    #[test]
    fn labels_count_where_they_told_right_from_wrong() {
        let labelled = |n: usize, evidence: f64| {
            let mut found = held_out(n, true, !n.is_multiple_of(4), 2.0);
            found.evidence[LABELS] = evidence;
            found
        };
        let of = |evidence: &dyn Fn(usize) -> f64| {
            let boxes: Vec<HeldOutBox> = (0..40).map(|n| labelled(n, evidence(n))).collect();
            certainties((&boxes, &[]), &[1], &[false], 0.8).remove(0)
        };
        let told = of(&|n| if n.is_multiple_of(4) { 0.0 } else { 4.0 });
        let score =
            |certainty: &Certainty, evidence| certainty.score(&labelled(1, evidence).evidence);
        assert!(score(&told, 4.0) > 0.85 && score(&told, 0.0) < 0.4);
        // Labels that are not looked for have no weight.
        let silent = of(&|_| 0.0);
        assert_eq!(silent.weights[LABELS], 0.0);
        assert_eq!(score(&silent, 4.0), score(&silent, 0.0));
    }

    #[test]
    fn several_cases_of_a_subject_are_one() {
        let mut boxes: Vec<HeldOutBox> = (0..20).map(|n| held_out(n, true, true, 1.0)).collect();
        boxes.iter_mut().for_each(|b| b.subject /= 2);
        boxes[0].center_mm = 7.0;
        let [certainty] = &certainties((&boxes, &[]), &[1], &[false], 0.8)[..] else { panic!() };
        assert_eq!(certainty.held_out.subjects, 10);
        assert_eq!(certainty.held_out.radius_90_mm, Some(7.0));
    }
}
