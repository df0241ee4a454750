//! Boxes of another size than in all other cases: a decimal point that slipped, centimetres.

use super::boxes::{AnnotatedCases, StructureBoxes};
use super::finding::Finding;
use super::robust::{FEWEST_TO_COMPARE, Robust};
use super::suspect::Suspect;
use pbt_volume::Pose;

/// An edge that differs by less than this factor from the median is not worth a look.
const FACTOR: f64 = 1.8;

/// Nor is one that differs by less than this many robust standard deviations of the log.
const DEVIATIONS: f64 = 6.0;

/// Compares the edge lengths of each structure, axis by axis.
pub(super) fn compare_sizes(
    cases: &AnnotatedCases<'_>,
    structures: &[StructureBoxes],
) -> (Vec<Finding>, Vec<Suspect>) {
    let (mut findings, mut suspects) = (Vec::new(), Vec::new());
    for structure in structures.iter().filter(|s| s.boxes.len() >= FEWEST_TO_COMPARE) {
        let Some(usual) = usual(&structure.boxes) else { continue };
        let median_mm = usual.map(|axis| axis.median.exp());
        for (case, pose) in &structure.boxes {
            let (spec, _) = cases.cases[*case];
            let logs = logs(pose);
            let off: [f64; 3] = std::array::from_fn(|a| logs[a] - usual[a].median);
            let limit = |a: usize| (DEVIATIONS * usual[a].deviation).max(FACTOR.ln());
            let score = (0..3).map(|a| off[a].abs() / limit(a)).fold(0.0, f64::max);
            let (why, ask) = hint(&off, &std::array::from_fn(limit));
            let suspect = Suspect {
                case: spec.clone(),
                structure: structure.name.clone(),
                annotated: *pose,
                expected: Some(Pose { size_mm: median_mm, ..*pose }),
                score,
                why: why.clone(),
            };
            if suspect.is_named() {
                let (unit, [a, b, c], [x, y, z]) = (cases.unit, pose.size_mm, median_mm);
                let what = format!(
                    "{}: its box is {a:.1} x {b:.1} x {c:.1} {unit}, where the median is {x:.1} x {y:.1} x {z:.1} {unit}: {why} ({ask})",
                    structure.name
                );
                let message = Finding::of(spec.annotated_in(), what);
                findings.push(Finding::warning(message).in_cases([spec.id.as_str()]));
            }
            suspects.push(suspect);
        }
    }
    (findings, suspects)
}

/// Middle and spread of the log edge lengths by axis; `None` without boxes.
pub(super) fn usual(boxes: &[(usize, Pose)]) -> Option<[Robust; 3]> {
    let axis = |a: usize| Robust::of(boxes.iter().map(|(_, pose)| logs(pose)[a]));
    Some([axis(0)?, axis(1)?, axis(2)?])
}

fn logs(pose: &Pose) -> [f64; 3] {
    pose.size_mm.map(f64::ln)
}

/// What is odd, and what probably happened or is to be done.
fn hint(off: &[f64; 3], limit: &[f64; 3]) -> (String, &'static str) {
    let is_about = |log: f64, factor: f64| (log - factor.ln()).abs() < 0.4;
    let all = |factor: f64| off.iter().all(|&log| is_about(log, factor));
    for (factor, words, ask) in [
        (0.1, "all edges about 10 times shorter", "cm for mm?"),
        (0.001, "all edges about 1000 times shorter", "m for mm?"),
        (10.0, "all edges about 10 times longer", "did their decimal points slip?"),
    ] {
        if all(factor) {
            return (words.to_owned(), ask);
        }
    }
    let worst = (1..3)
        .fold(0, |w, a| if off[a].abs() / limit[a] > off[w].abs() / limit[w] { a } else { w });
    let log = off[worst];
    let (factor, way) = (log.abs().exp(), if log < 0.0 { "shorter" } else { "longer" });
    let ask = if is_about(log.abs(), 10.0) {
        "did its decimal point slip?"
    } else {
        "correct it, or check that the structure is cut or ends there"
    };
    (format!("e{} is {factor:.1} times {way}", worst + 1), ask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::{annotated, dataset, marked, upright, wobble};
    use pbt_io::Annotations;
    use pbt_volume::StructureKind;

    /// Fifteen boxes whose edges differ by some 15 %; one is changed.
    fn findings(change: impl Fn(&mut [f64; 3])) -> Vec<Finding> {
        let dataset = dataset(&[("a", StructureKind::Box)], 15);
        let pose = |n: usize| {
            let mut size =
                [0, 1, 2].map(|a| [40.0, 30.0, 20.0][a] * (1.0 + 0.15 * wobble(3 * n + a)));
            if n == 6 {
                change(&mut size);
            }
            upright([0.0; 3], size)
        };
        let annotations: Vec<Annotations> =
            (0..15).map(|n| marked(&[("a", pose(n))], &[])).collect();
        let cases = annotated(&dataset, &annotations);
        compare_sizes(&cases, &cases.boxes()).0
    }

    #[test]
    fn units_and_slips_are_named_and_anatomy_is_not() {
        assert!(findings(|_| {}).is_empty());
        assert!(findings(|size| size[1] *= 1.5).is_empty());
        for (change, words) in [
            (
                (|size| size.iter_mut().for_each(|mm| *mm /= 10.0)) as fn(&mut [f64; 3]),
                "cm for mm?",
            ),
            (|size| size.iter_mut().for_each(|mm| *mm /= 1000.0), "m for mm?"),
            (|size| size.iter_mut().for_each(|mm| *mm *= 10.0), "10 times longer"),
            (|size| size[2] *= 10.0, "did its decimal point slip?"),
            (|size| size[0] /= 3.0, "e1 is 3"),
        ] {
            let found = findings(change);
            assert!(
                found.len() == 1 && found[0].cases == ["c6"] && found[0].message.contains(words),
                "{words}: {found:?}"
            );
            assert!(found[0].message.starts_with("c6.mrk.json: a: its box is "), "{found:?}");
        }
    }

    #[test]
    fn a_length_that_varies_much_may() {
        let dataset = dataset(&[("cord", StructureKind::Box)], 12);
        let annotations: Vec<Annotations> = (0..12)
            .map(|n| {
                marked(&[("cord", upright([0.0; 3], [20.0, 20.0, 60.0 + 15.0 * n as f64]))], &[])
            })
            .collect();
        let cases = annotated(&dataset, &annotations);
        assert!(compare_sizes(&cases, &cases.boxes()).0.is_empty());
    }
}
