//! Boxes that lie elsewhere than the other structures of their case say: shifted by a level, taken
//! from another scan, left for right.
//!
//! A relation tells where a box lies by another structure, or by the point between (or beyond) two
//! others: its usual offset from there, in units of the case's own size, and how much that varies.
//! It is told along the patient's axes, or along those of one of the boxes, whichever varies less.
//! In each case the structure that spoils most relations is blamed and left out, until the rest
//! agrees: that a neighbour is misplaced does not make a box suspect. With one structure alone
//! nothing can be told.

use super::boxes::{AnnotatedCases, StructureBoxes};
use super::finding::Finding;
use super::robust::{FEWEST_TO_COMPARE, Robust, UNSURE_CASES, median};
use super::suspect::Suspect;
use nalgebra::{UnitQuaternion, Vector3};
use pbt_volume::{PointLps, Pose};

/// Nearer to where it is expected than this, in D, no box is worth a look.
const OFF_D: f64 = 0.25;

/// Nor is one that is off by less than this many robust standard deviations.
const DEVIATIONS: f64 = 6.5;

/// A deviation along an axis is at least so large, in D: nobody draws boxes better.
const SMALLEST_DEVIATION_D: f64 = 0.04;

/// A relation with fewer deviations than this speaks for its structures.
const FITS: f64 = 4.0;

/// Points between two are taken of so many structures, those with the most precise relations.
const NEAREST: usize = 6;

/// Compares the centre of each box with where the other structures of its case expect it. Boxes
/// should have the names of axes that most have.
pub(super) fn compare_places(
    cases: &AnnotatedCases<'_>,
    structures: &[StructureBoxes],
) -> (Vec<Finding>, Vec<Suspect>) {
    let places = Places::new(cases, structures);
    let relations: Vec<Relation> =
        (0..structures.len()).flat_map(|own| relations(structures, own, &places)).collect();
    let (mut findings, mut suspects) = (Vec::new(), Vec::new());
    let unit = cases.unit;
    for (case, (spec, _)) in cases.cases.iter().enumerate() {
        let said: Vec<Said> = relations
            .iter()
            .filter_map(|relation| {
                relation.says(case, structures[relation.own].of_case(case)?, &places)
            })
            .collect();
        for (own, structure) in structures.iter().enumerate() {
            let Some(pose) = structure.of_case(case) else { continue };
            let Some(best) = most_precise(&said, own) else { continue };
            suspects.push(Suspect {
                case: (*spec).clone(),
                structure: structure.name.clone(),
                annotated: *pose,
                expected: Some(Pose { center: best.expected, ..*pose }),
                // Who is to blame is told below.
                score: best.score().min(0.99),
                why: format!("{:.1} {unit} from where others expect it", best.off_mm),
            });
        }
        for blamed in blamed(said) {
            let (own, best) = (blamed.own, &blamed.best);
            let structure = &structures[own];
            let who = match blamed.alone_with {
                Some(other) => {
                    format!("{} expects it; one of the two is wrong", places.members[other].name)
                }
                None => "the other structures of the case expect it".to_owned(),
            };
            let what = format!(
                "{}: the centre of its box lies {:.1} {unit} ({:.2} D, {:.0} times the usual deviation) from where {who} (correct it, or check that its name is right)",
                structure.name, best.off_mm, best.off_d, best.deviations
            );
            let message = Finding::of(spec.annotated_in(), what);
            findings.push(Finding::warning(message).in_cases([spec.id.as_str()]));
            let same = suspects
                .iter_mut()
                .rev()
                .find(|s: &&mut Suspect| s.case.id == spec.id && s.structure == structure.name);
            if let Some(suspect) = same {
                suspect.score = best.score();
                suspect.expected = Some(Pose { center: best.expected, ..suspect.annotated });
                suspect.why = format!("{:.1} {unit} from where others expect it", best.off_mm);
            }
        }
    }
    (findings, suspects)
}

/// A box that is to blame.
struct Blamed {
    own: usize,
    best: Said,
    /// The only other member that it was compared with.
    alone_with: Option<usize>,
}

/// The boxes without which the rest of the case agrees.
fn blamed(mut said: Vec<Said>) -> Vec<Blamed> {
    let mut blamed = Vec::new();
    while said.iter().any(|s| s.deviations >= DEVIATIONS) {
        let members = || said.iter().flat_map(Said::members);
        let guilt = |member: usize| -> f64 {
            said.iter()
                .filter(|s| s.members().any(|m| m == member))
                .map(|s| s.deviations * s.deviations - FITS * FITS)
                .sum()
        };
        let Some(worst) = members().max().map(|last| {
            (0..=last).filter(|&m| members().any(|other| other == m)).fold(None, |worst, m| {
                match worst {
                    Some((_, most)) if most >= guilt(m) => worst,
                    _ => Some((m, guilt(m))),
                }
            })
        }) else {
            break;
        };
        let Some((own, _)) = worst else { break };
        if let Some(best) = most_precise(&said, own).filter(|best| best.score() >= 1.0) {
            let others: std::collections::BTreeSet<usize> = said
                .iter()
                .filter(|s| s.own == own)
                .flat_map(Said::members)
                .filter(|&m| m != own)
                .collect();
            let alone_with = others.first().copied().filter(|_| others.len() == 1);
            blamed.push(Blamed { own, best: best.clone(), alone_with });
        }
        said.retain(|s| s.members().all(|m| m != own));
    }
    blamed
}

/// What the most precise relation says about a box.
fn most_precise(said: &[Said], own: usize) -> Option<&Said> {
    said.iter().filter(|s| s.own == own).min_by(|a, b| a.spread_mm.total_cmp(&b.spread_mm))
}

/// What boxes can be compared with: boxes, then landmarks.
struct Places {
    members: Vec<Member>,
    /// By case, how much larger its boxes are than usual.
    scales: Vec<f64>,
    /// By box, its median D, mm.
    sizes_mm: Vec<f64>,
}

/// A box or a landmark.
struct Member {
    name: String,
    /// By case, where it is and how it is turned.
    places: Vec<Option<(PointLps, Option<UnitQuaternion<f64>>)>>,
}

impl Places {
    fn new(cases: &AnnotatedCases<'_>, structures: &[StructureBoxes]) -> Self {
        let none = || vec![None; cases.cases.len()];
        let boxes = structures.iter().map(|structure| {
            let mut places = none();
            for (case, pose) in &structure.boxes {
                places[*case] = Some((pose.center, Some(pose.orientation)));
            }
            Member { name: structure.name.clone(), places }
        });
        let landmarks = cases.landmarks().into_iter().map(|(name, points)| {
            let mut places = none();
            points.into_iter().for_each(|(case, point)| places[case] = Some((point, None)));
            Member { name, places }
        });
        let size_mm =
            |s: &StructureBoxes| median(s.boxes.iter().map(|(_, pose)| pose.mean_size_mm()));
        Self {
            members: boxes.chain(landmarks).collect(),
            scales: scales(cases.cases.len(), structures),
            sizes_mm: structures.iter().map(|s| size_mm(s).unwrap_or(0.0)).collect(),
        }
    }
}

/// By case, how much larger its boxes are than usual: the median over its structures.
fn scales(cases: usize, structures: &[StructureBoxes]) -> Vec<f64> {
    let usual: Vec<Option<f64>> = structures
        .iter()
        .map(|s| median(s.boxes.iter().map(|(_, pose)| pose.mean_size_mm())))
        .collect();
    // With few boxes a wrong size would be taken for a large patient.
    const FEWEST_BOXES: usize = 3;
    let scale = |case: usize| {
        let ratios: Vec<f64> = structures
            .iter()
            .zip(&usual)
            .filter_map(|(s, usual)| Some(s.of_case(case)?.mean_size_mm() / (*usual)?))
            .collect();
        if ratios.len() < FEWEST_BOXES { 1.0 } else { median(ratios).unwrap_or(1.0) }
    };
    (0..cases).map(scale).collect()
}

/// Whose place tells a box's: a member's, or that of a point on the line through two.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reference {
    first: usize,
    /// The second member, and how far from the first one towards it the point lies: 0.5 in the
    /// middle.
    second: Option<(usize, f64)>,
}

impl Reference {
    fn point(
        &self,
        case: usize,
        places: &Places,
    ) -> Option<(PointLps, Option<UnitQuaternion<f64>>)> {
        let (first, orientation) = places.members[self.first].places[case]?;
        let Some((second, share)) = self.second else { return Some((first, orientation)) };
        let (second, _) = places.members[second].places[case]?;
        Some((PointLps(first.0 + (second.0 - first.0) * share), orientation))
    }
}

/// Along whose axes an offset is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    Patient,
    Own,
    Reference,
}

impl Frame {
    /// From the frame to the patient.
    fn rotation(
        self,
        own: &Pose,
        reference: Option<UnitQuaternion<f64>>,
    ) -> Option<UnitQuaternion<f64>> {
        match self {
            Self::Patient => Some(UnitQuaternion::identity()),
            Self::Own => Some(own.orientation),
            Self::Reference => reference,
        }
    }
}

/// The usual offset of a box from a reference.
struct Relation {
    own: usize,
    reference: Reference,
    frame: Frame,
    /// In the frame, mm in a case of scale 1.
    usual_mm: Vector3<f64>,
    /// Robust standard deviations along the frame's axes, mm.
    deviation_mm: Vector3<f64>,
}

/// What a relation says about a case.
#[derive(Debug, Clone)]
struct Said {
    own: usize,
    first: usize,
    second: Option<usize>,
    expected: PointLps,
    off_mm: f64,
    off_d: f64,
    deviations: f64,
    /// How little the relation varies.
    spread_mm: f64,
}

impl Said {
    fn members(&self) -> impl Iterator<Item = usize> {
        [Some(self.own), Some(self.first), self.second].into_iter().flatten()
    }

    /// From 1 on, the box is far off.
    fn score(&self) -> f64 {
        (self.off_d / OFF_D).min(self.deviations / DEVIATIONS)
    }
}

/// The relations of a box to all other members, and to points on the lines through two of those
/// that say most.
fn relations(structures: &[StructureBoxes], own: usize, places: &Places) -> Vec<Relation> {
    let usual = |reference| Relation::usual(structures, own, reference, places);
    let mut relations: Vec<Relation> = (0..places.members.len())
        .filter(|&member| member != own)
        .filter_map(|first| usual(Reference { first, second: None }))
        .collect();
    relations.sort_by(|a, b| a.spread_mm().total_cmp(&b.spread_mm()));
    let nearest: Vec<usize> =
        relations.iter().take(NEAREST).map(|relation| relation.reference.first).collect();
    for (n, &first) in nearest.iter().enumerate() {
        for &second in &nearest[n + 1..] {
            let share = share(own, first, second, places);
            relations.extend(
                share.and_then(|share| usual(Reference { first, second: Some((second, share)) })),
            );
        }
    }
    relations
}

/// The point on the line through two members that is usually nearest to a third.
fn share(own: usize, first: usize, second: usize, places: &Places) -> Option<f64> {
    let of_case = |case: usize| {
        let place = |member: usize| Some(places.members[member].places[case]?.0.0);
        let (own, first, second) = (place(own)?, place(first)?, place(second)?);
        let line = second - first;
        Some((own - first).dot(&line) / line.norm_squared()).filter(|share| share.is_finite())
    };
    // Farther beyond its ends a line says little.
    median((0..places.scales.len()).filter_map(of_case))
        .filter(|share| (-1.5..=2.5).contains(share))
}

impl Relation {
    /// `None` where too few cases have all of it.
    fn usual(
        structures: &[StructureBoxes],
        own: usize,
        reference: Reference,
        places: &Places,
    ) -> Option<Self> {
        let in_frame = |frame: Frame| {
            let offset = |&(case, ref pose): &(usize, Pose)| {
                let (point, orientation) = reference.point(case, places)?;
                let rotation = frame.rotation(pose, orientation)?;
                Some(rotation.inverse() * (pose.center.0 - point.0) / places.scales[case])
            };
            let offsets: Vec<Vector3<f64>> =
                structures[own].boxes.iter().filter_map(offset).collect();
            if offsets.len() < FEWEST_TO_COMPARE {
                return None;
            }
            let axis = |a: usize| Robust::of(offsets.iter().map(|offset| offset[a]));
            let axes = [axis(0)?, axis(1)?, axis(2)?];
            let least = SMALLEST_DEVIATION_D * places.sizes_mm[own];
            let unsure = 1.0 + UNSURE_CASES / offsets.len() as f64;
            Some(Self {
                own,
                reference,
                frame,
                usual_mm: Vector3::from(axes.map(|axis| axis.median)),
                deviation_mm: Vector3::from(axes.map(|axis| unsure * axis.deviation.max(least))),
            })
        };
        [Frame::Patient, Frame::Own, Frame::Reference]
            .into_iter()
            .filter_map(in_frame)
            .min_by(|a, b| a.spread_mm().total_cmp(&b.spread_mm()))
    }

    fn spread_mm(&self) -> f64 {
        self.deviation_mm.norm()
    }

    fn says(&self, case: usize, own: &Pose, places: &Places) -> Option<Said> {
        let (point, orientation) = self.reference.point(case, places)?;
        let rotation = self.frame.rotation(own, orientation)?;
        let scale = places.scales[case];
        let expected = PointLps(point.0 + rotation * self.usual_mm * scale);
        let off = rotation.inverse() * (own.center.0 - expected.0);
        Some(Said {
            own: self.own,
            first: self.reference.first,
            second: self.reference.second.map(|(second, _)| second),
            expected,
            off_mm: off.norm(),
            off_d: off.norm() / (places.sizes_mm[self.own] * scale),
            deviations: off.component_div(&(self.deviation_mm * scale)).norm(),
            spread_mm: self.spread_mm(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::{annotated, dataset, marked, upright, wobble};
    use pbt_io::Annotations;
    use pbt_volume::{StructureKind, rotation_from_vector};

    const NAMES: [&str; 5] = ["L1", "L2", "L3", "L4", "L5"];

    /// A spine: bodies 33 mm apart that wobble by up to a millimetre, in patients of different
    /// sizes who do not lie straight.
    fn spine(n: usize) -> Vec<(&'static str, Pose)> {
        let scale = 1.0 + 0.15 * wobble(1000 + n);
        let turn = rotation_from_vector(Vector3::from_fn(|a, _| 0.2 * wobble(2000 + 3 * n + a)));
        let body = |(level, &name): (usize, &'static &'static str)| {
            let jitter = Vector3::from_fn(|a, _| wobble(15 * n + 3 * level + a));
            let place = Vector3::new(0.0, 0.0, 33.0 * level as f64) * scale + jitter;
            let size = [45.0, 34.0, 27.0].map(|mm| mm * scale);
            let center = PointLps((turn * place).into());
            (name, Pose { center, orientation: turn, ..upright([0.0; 3], size) })
        };
        NAMES.iter().enumerate().map(body).collect()
    }

    fn findings(
        names: &[&str],
        change: impl Fn(usize, &mut Vec<(&'static str, Pose)>),
    ) -> Vec<Finding> {
        let kinds: Vec<(&str, StructureKind)> =
            names.iter().map(|&name| (name, StructureKind::Box)).collect();
        let dataset = dataset(&kinds, 16);
        let made = |n: usize| {
            let mut boxes = spine(n);
            boxes.retain(|(name, _)| names.contains(name));
            change(n, &mut boxes);
            marked(&boxes, &[])
        };
        let annotations: Vec<Annotations> = (0..16).map(made).collect();
        let cases = annotated(&dataset, &annotations);
        compare_places(&cases, &cases.boxes()).0
    }

    #[test]
    fn the_shifted_box_is_named_and_not_its_neighbours() {
        assert!(findings(&NAMES, |_, _| {}).is_empty());
        // The ends of a row are known less well.
        for (level, shift_mm) in [(0, 22.0), (1, 16.0), (2, 16.0), (3, 16.0), (4, 22.0)] {
            let found = findings(&NAMES, |n, boxes| {
                if n == 9 {
                    boxes[level].1.center.0.z += shift_mm;
                }
            });
            let [finding] = &found[..] else { panic!("{level}: {found:?}") };
            assert_eq!(finding.cases, ["c9"]);
            assert!(
                finding.message.starts_with(&format!("c9.mrk.json: L{}: ", level + 1)),
                "{finding:?}"
            );
        }
    }

    #[test]
    fn of_two_structures_either_may_be_wrong() {
        let found = findings(&["L2", "L3"], |n, boxes| {
            if n == 3 {
                boxes[0].1.center.0.x += 16.0;
            }
        });
        assert!(
            !found.is_empty() && found.iter().all(|f| f.message.contains("one of the two")),
            "{found:?}"
        );
    }

    #[test]
    fn one_structure_tells_nothing_and_landmarks_do() {
        assert!(
            findings(&["L3"], |n, boxes| if n == 3 {
                boxes[0].1.center.0.x += 60.0
            })
            .is_empty()
        );
        // Heads that lie anyhow, with landmarks.
        let tips: [&str; 4] = ["t0", "t1", "t2", "t3"];
        let mut kinds = vec![("skull", StructureKind::Box)];
        kinds.extend(tips.map(|tip| (tip, StructureKind::Landmark)));
        let dataset = dataset(&kinds, 10);
        let made = |n: usize, off_mm: f64| {
            let turn = Vector3::from_fn(|a, _| 3.0 * wobble(7000 + 3 * n + a));
            let mut pose = upright([5.0, 6.0, 7.0], [20.0, 12.0, 10.0]);
            pose.orientation = rotation_from_vector(turn);
            let points: Vec<(&str, PointLps)> = tips
                .iter()
                .enumerate()
                .map(|(t, &tip)| {
                    let place =
                        |a: usize| 6.0 * wobble(11 * t + a) + 0.2 * wobble(100 * n + 7 * t + a);
                    (tip, pose.to_lps(Vector3::new(place(0), place(1), place(2))))
                })
                .collect();
            pose.center.0.y += if n == 4 { off_mm } else { 0.0 };
            marked(&[("skull", pose)], &points)
        };
        for (off_mm, count) in [(0.0, 0), (8.0, 1)] {
            let annotations: Vec<Annotations> = (0..10).map(|n| made(n, off_mm)).collect();
            let cases = annotated(&dataset, &annotations);
            let found = compare_places(&cases, &cases.boxes()).0;
            assert_eq!(found.len(), count, "{found:?}");
        }
    }
}
