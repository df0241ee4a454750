//! Boxes that are turned otherwise than in most cases, and those that are turned alike but whose
//! axes have other names: two people, or two versions of a script, that did not agree on what e1
//! is. A model of such boxes learns two orientations for one anatomy.

use super::boxes::{AnnotatedCases, StructureBoxes};
use super::finding::Finding;
use super::images::few;
use super::robust::{FEWEST_TO_COMPARE, median};
use super::suspect::Suspect;
use nalgebra::{Matrix3, Rotation3, UnitQuaternion, Vector3};
use pbt_volume::{Pose, angle_between};
use std::collections::BTreeMap;

/// Orientations agree when, however the axes are named, half of them are within this of the middle
/// one, degrees. Skulls that lie anyhow are at about 40.
const AGREE_WITHIN: f64 = 20.0;

/// Beyond this, degrees, axes may have other names …
const RENAMED_BEYOND: f64 = 60.0;

/// … if with new names they are within this.
const RENAMED_WITHIN: f64 = 25.0;

/// Nearer than this, degrees, nothing is worth a look. It is where an evaluation calls a box wrong;
/// boxes of roundish masks (larynges) vary by little less.
const TURNED_BEYOND: f64 = 45.0;

/// Nor is what is nearer than this many times the median angle.
const TURNED_TIMES: f64 = 5.0;

/// So many middle orientations are tried; more would take long.
const MIDDLES: usize = 100;

/// What the orientations of all boxes say.
pub(super) struct Axes {
    pub(super) findings: Vec<Finding>,
    pub(super) suspects: Vec<Suspect>,
    /// The boxes with the names of axes that most have.
    pub(super) renamed: Vec<StructureBoxes>,
    /// The structures whose boxes lie alike, however their axes are named.
    pub(super) alike: Vec<String>,
}

/// Compares the orientations of each structure.
pub(super) fn compare_axes(cases: &AnnotatedCases<'_>, structures: &[StructureBoxes]) -> Axes {
    let mut axes = Axes {
        findings: Vec::new(),
        suspects: Vec::new(),
        renamed: structures.to_vec(),
        alike: Vec::new(),
    };
    let namings = Naming::all();
    for (structure, renamed) in structures.iter().zip(&mut axes.renamed) {
        let Some(usual) = Usual::of(&structure.boxes, &namings) else { continue };
        axes.alike.push(structure.name.clone());
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, &(case, pose)) in structure.boxes.iter().enumerate() {
            let (spec, _) = cases.cases[case];
            let (naming, left) = nearest_naming(&usual.middle, &pose.orientation, &namings);
            let angle = usual.angle_deg(&pose);
            let mut suspect = Suspect {
                case: spec.clone(),
                structure: structure.name.clone(),
                annotated: pose,
                expected: Some(Pose { orientation: usual.middle, ..pose }),
                score: angle / usual.limit_deg,
                why: format!("turned by {angle:.0}° against the middle of the others"),
            };
            if angle > RENAMED_BEYOND && left.to_degrees() < RENAMED_WITHIN {
                let same = naming.apply(&pose);
                renamed.boxes[place].1 = same;
                suspect.why = format!("its axes are named otherwise: {}", naming.words());
                // More than a mere turn: the fit with other names confirms it.
                (suspect.expected, suspect.score) = (Some(same), suspect.score.max(1.0) + 1.0);
                groups.entry(naming.words()).or_default().push(case);
            } else if suspect.is_named() {
                let what = format!(
                    "{}: its box is turned by {angle:.0} degrees against the middle of all {} boxes, where half of them are within {:.0} (check its axes)",
                    structure.name,
                    structure.boxes.len(),
                    usual.median_deg
                );
                let message = Finding::of(spec.annotated_in(), what);
                axes.findings.push(Finding::warning(message).in_cases([spec.id.as_str()]));
            }
            axes.suspects.push(suspect);
        }
        for (words, group) in groups {
            let ids = || group.iter().map(|&case| cases.cases[case].0.id.as_str());
            let what = format!(
                "structures: {}: the axes of the box are named otherwise in {} of {} cases: {}; {words} (name the axes alike in all cases)",
                structure.name,
                group.len(),
                structure.boxes.len(),
                few(ids())
            );
            let message = Finding::of(&cases.dataset.path, what);
            axes.findings.push(Finding::warning(message).in_cases(ids()));
        }
    }
    axes
}

/// How the boxes of a structure usually lie.
struct Usual {
    middle: UnitQuaternion<f64>,
    median_deg: f64,
    /// Farther turned boxes are worth a look.
    limit_deg: f64,
}

impl Usual {
    /// `None` where there are few boxes, or where they lie anyhow.
    fn of(boxes: &[(usize, Pose)], namings: &[Naming]) -> Option<Self> {
        if boxes.len() < FEWEST_TO_COMPARE {
            return None;
        }
        let all = || boxes.iter().map(|(_, pose)| &pose.orientation);
        let distance = |a: &_, b: &_| nearest_naming(a, b, namings).1;
        let sum = |a: &_| all().map(|b| distance(a, b)).sum::<f64>();
        let (_, medoid) =
            all().take(MIDDLES).map(|q| (sum(q), *q)).min_by(|a, b| a.0.total_cmp(&b.0))?;
        if median(all().map(|q| distance(&medoid, q)))?.to_degrees() > AGREE_WITHIN {
            return None;
        }
        // Of the names that occur, those that most boxes have.
        let mut counts = vec![0usize; namings.len()];
        for q in all() {
            let (naming, _) = nearest_naming(&medoid, q, namings);
            counts[naming.number] += 1;
        }
        let most =
            (0..counts.len()).fold(0, |best, n| if counts[n] > counts[best] { n } else { best });
        let middle = medoid * namings[most].rotation.inverse();
        let angles = || all().map(|q| angle_between(&middle, q).to_degrees());
        let like_most = angles().filter(|&angle| angle <= RENAMED_BEYOND);
        let median_deg = median(like_most)?;
        Some(Self { middle, median_deg, limit_deg: (TURNED_TIMES * median_deg).max(TURNED_BEYOND) })
    }

    fn angle_deg(&self, pose: &Pose) -> f64 {
        angle_between(&self.middle, &pose.orientation).to_degrees()
    }
}

/// One of the 24 ways to name the axes of a box, right-handed ones.
#[derive(Debug, Clone)]
struct Naming {
    number: usize,
    /// By new axis, the old one.
    order: [usize; 3],
    /// By new axis, whether it points where the old one does.
    along: [bool; 3],
    /// From the new axes to the old ones.
    rotation: UnitQuaternion<f64>,
}

impl Naming {
    /// All of them; number 0 leaves everything as it is.
    fn all() -> Vec<Self> {
        let orders = [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [2, 1, 0], [1, 0, 2]];
        let mut all = Vec::new();
        for order in orders {
            for signs in 0..8u8 {
                let along = [0, 1, 2].map(|a| signs >> a & 1 == 0);
                let column = |a: usize| Vector3::ith(order[a], if along[a] { 1.0 } else { -1.0 });
                let matrix = Matrix3::from_columns(&[column(0), column(1), column(2)]);
                if matrix.determinant() > 0.0 {
                    let rotation = UnitQuaternion::from_rotation_matrix(
                        &Rotation3::from_matrix_unchecked(matrix),
                    );
                    all.push(Self { number: all.len(), order, along, rotation });
                }
            }
        }
        all
    }

    /// The same box with other names of its axes.
    fn apply(&self, pose: &Pose) -> Pose {
        Pose {
            orientation: pose.orientation * self.rotation,
            size_mm: self.order.map(|old| pose.size_mm[old]),
            ..*pose
        }
    }

    /// Which axis of these boxes is which of the others.
    fn words(&self) -> String {
        let words: Vec<String> = (0..3)
            .filter(|&new| self.order[new] != new || !self.along[new])
            .map(|new| {
                let sign = if self.along[new] { "" } else { "-" };
                format!("{sign}e{} here is e{} there", self.order[new] + 1, new + 1)
            })
            .collect();
        words.join(", ")
    }
}

/// The names of axes that bring an orientation nearest to another, and the angle that is left,
/// radians.
fn nearest_naming<'a>(
    to: &UnitQuaternion<f64>,
    orientation: &UnitQuaternion<f64>,
    namings: &'a [Naming],
) -> (&'a Naming, f64) {
    let mut best = (&namings[0], f64::INFINITY);
    for naming in namings {
        let angle = angle_between(to, &(orientation * naming.rotation));
        if angle < best.1 {
            best = (naming, angle);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::{annotated, dataset, marked, upright, wobble};
    use pbt_io::Annotations;
    use pbt_volume::{StructureKind, rotation_from_vector};

    /// Twenty boxes that wobble by some 10 degrees.
    fn poses(spread_rad: f64) -> Vec<Pose> {
        let pose = |n: usize| {
            let turn = Vector3::from_fn(|a, _| spread_rad * wobble(3 * n + a));
            let orientation =
                rotation_from_vector(Vector3::new(0.3, -0.2, 0.1)) * rotation_from_vector(turn);
            Pose { orientation, ..upright([0.0; 3], [40.0, 30.0, 20.0]) }
        };
        (0..20).map(pose).collect()
    }

    fn axes_of(poses: &[Pose]) -> Axes {
        let dataset = dataset(&[("a", StructureKind::Box)], poses.len());
        let annotations: Vec<Annotations> =
            poses.iter().map(|&pose| marked(&[("a", pose)], &[])).collect();
        let cases = annotated(&dataset, &annotations);
        compare_axes(&cases, &cases.boxes())
    }

    #[test]
    fn there_are_24_right_handed_namings() {
        let namings = Naming::all();
        assert_eq!(namings.len(), 24);
        assert!(namings[0].words().is_empty());
        let pose = poses(0.1)[3];
        for naming in &namings {
            // The same corners, in another order.
            let sorted = |pose: &Pose| {
                let mut corners =
                    pose.corners().map(|c| c.0.coords.map(|v| (v * 1e6).round() as i64));
                corners.sort_by_key(|c| (c.x, c.y, c.z));
                corners
            };
            let near = sorted(&pose)
                .iter()
                .zip(sorted(&naming.apply(&pose)))
                .all(|(a, b)| (a - b).abs().max() < 10);
            assert!(near, "{naming:?}");
        }
    }

    #[test]
    fn other_names_of_axes_are_named() {
        let mut all = poses(0.2);
        assert!(axes_of(&all).findings.is_empty());
        // e1 and e2 exchanged, e3 turned round.
        let exchange = Naming::all()
            .into_iter()
            .find(|n| n.order == [1, 0, 2] && n.along == [true, true, false])
            .unwrap();
        let original = all[7];
        for n in [4, 7] {
            all[n] = exchange.apply(&all[n]);
        }
        let axes = axes_of(&all);
        let [finding] = &axes.findings[..] else { panic!("{:?}", axes.findings) };
        assert_eq!(finding.cases, ["c4", "c7"]);
        assert!(
            finding
                .message
                .contains("e2 here is e1 there, e1 here is e2 there, -e3 here is e3 there"),
            "{}",
            finding.message
        );
        let again = axes.renamed[0].of_case(7).unwrap();
        assert!(again.angle_to(&original) < 1e-6 && again.size_mm == original.size_mm);
    }

    #[test]
    fn half_of_all_boxes_do_not_hide_the_other_half() {
        let mut all = poses(0.2);
        let round = &Naming::all()[13];
        for pose in &mut all[..9] {
            *pose = round.apply(pose);
        }
        let axes = axes_of(&all);
        assert!(
            axes.findings.len() == 1 && axes.findings[0].cases.len() == 9,
            "{:?}",
            axes.findings
        );
    }

    #[test]
    fn a_turned_box_is_named() {
        let mut all = poses(0.1);
        all[5].orientation *= rotation_from_vector(Vector3::new(0.6, 0.5, 0.5));
        let axes = axes_of(&all);
        let [finding] = &axes.findings[..] else { panic!("{:?}", axes.findings) };
        assert!(
            finding.cases == ["c5"]
                && finding.message.starts_with("c5.mrk.json: a: its box is turned by 5"),
            "{finding:?}"
        );
    }

    #[test]
    fn boxes_that_lie_anyhow_say_nothing() {
        assert!(axes_of(&poses(3.0)).findings.is_empty());
        assert!(axes_of(&poses(3.0)).suspects.is_empty());
    }
}
