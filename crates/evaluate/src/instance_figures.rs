//! How well the instances of a structure were found and counted.

use crate::case_errors::{Comparison, Truth};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// From this score on a detection counts as an instance: it is one more likely than not.
const COUNTED_FROM: f64 = 0.5;

/// False detections an image at which sensitivities are told (the LUNA16 challenge; Setio et al. 2017,
/// section 2.4).
const FALSE_AN_IMAGE: [f64; 7] = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// Figures of a structure that occurs several times. A detection is right when its centre lies within
/// a quarter of the geometric mean of an instance's edges, one to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceFigures {
    /// Images.
    pub images: usize,
    /// Instances that are annotated.
    pub annotated: usize,
    /// Detections with a score of 0.5 or more.
    pub counted: usize,
    /// Share of the annotated ones among them.
    pub recall: f64,
    /// Share of them that are right; null where there are none.
    pub precision: Option<f64>,
    /// Harmonic mean of both.
    pub f1: f64,
    /// Those that are not right, an image.
    pub false_an_image: f64,
    /// Mean over the images of |counted − annotated| / annotated, per cent; null where none is
    /// annotated.
    pub count_error_percent: Option<f64>,
    /// Area under precision over recall, all scores (the mean of the precisions at each annotated
    /// one's rank; 0 for those that were not detected).
    pub average_precision: f64,
    /// Sensitivity at so many false detections an image (FROC).
    pub froc: Vec<FrocPoint>,
    /// Mean over the counted right ones of intersection over union of the boxes, times F1 (Kirillov et
    /// al. 2019, equation 1, with the match by centres).
    pub panoptic_quality: f64,
}

/// A point of a FROC curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FrocPoint {
    /// False detections an image, at most.
    pub false_an_image: f64,
    /// Share of the annotated instances that are detected.
    pub recall: f64,
}

impl InstanceFigures {
    /// The figures of the comparisons of one structure; `None` where it occurs once.
    pub(crate) fn new(comparisons: &[&Comparison]) -> Option<Self> {
        let of_instances: Vec<&Comparison> =
            comparisons.iter().copied().filter(|c| c.instance.is_some()).collect();
        if of_instances.is_empty() || of_instances.len() < comparisons.len() {
            return None;
        }
        let is_counted = |c: &&&Comparison| c.score.is_some_and(|score| score >= COUNTED_FROM);
        // By image: annotated, counted.
        let mut images: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
        for c in &of_instances {
            let image = images.entry(c.case.as_str()).or_default();
            image[0] += usize::from(c.truth == Truth::Present);
            image[1] += usize::from(is_counted(&c));
        }
        let annotated: usize = images.values().map(|image| image[0]).sum();
        let counted: usize = images.values().map(|image| image[1]).sum();
        let right: Vec<f64> = of_instances
            .iter()
            .filter(is_counted)
            .filter_map(|c| c.overlap.filter(|_| c.right))
            .collect();
        let (hits, count) = (right.len() as f64, images.len() as f64);
        let f1 = 2.0 * hits / ((annotated + counted) as f64).max(1.0);
        let errors: Vec<f64> = images
            .values()
            .filter(|image| image[0] > 0)
            .map(|[truly, found]| 100.0 * found.abs_diff(*truly) as f64 / *truly as f64)
            .collect();
        // A sum of nothing is −0.0, and would be printed so.
        let sum = |values: &[f64]| 0.0 + values.iter().sum::<f64>();
        let mean = |values: &[f64]| sum(values) / values.len().max(1) as f64;
        let mut ranked: Vec<(f64, bool)> =
            of_instances.iter().filter_map(|c| Some((c.score?, c.right))).collect();
        // Where scores tie, the wrong ones first: order must not flatter.
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let (mut precisions, mut so_far) = (Vec::new(), [0usize; 2]);
        let mut froc =
            FALSE_AN_IMAGE.map(|false_an_image| FrocPoint { false_an_image, recall: 0.0 });
        for &(_, is_right) in &ranked {
            so_far[usize::from(is_right)] += 1;
            let [wrong, right] = so_far.map(|n| n as f64);
            if is_right {
                precisions.push(right / (right + wrong));
            }
            for point in froc.iter_mut().filter(|point| wrong <= point.false_an_image * count) {
                point.recall = right / annotated.max(1) as f64;
            }
        }
        Some(Self {
            images: images.len(),
            annotated,
            counted,
            recall: hits / annotated.max(1) as f64,
            precision: (counted > 0).then(|| hits / counted as f64),
            f1,
            false_an_image: (counted as f64 - hits) / count,
            count_error_percent: (!errors.is_empty()).then(|| mean(&errors)),
            average_precision: sum(&precisions) / annotated.max(1) as f64,
            froc: froc.to_vec(),
            panoptic_quality: mean(&right) * f1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case_errors::Answer;
    use pbt_volume::StructureKind;

    fn instance(case: &str, truth: Truth, score: Option<f64>) -> Comparison {
        let right = truth == Truth::Present && score.is_some();
        Comparison {
            case: case.into(),
            structure: "nucleus".into(),
            kind: StructureKind::Box,
            truth,
            answer: if score.is_some() { Answer::Doubtful } else { Answer::Absent },
            score,
            error: None,
            tolerance_mm: None,
            across: false,
            right,
            radius_90_mm: None,
            rivals: 0,
            nearest: None,
            instance: Some(1),
            overlap: right.then_some(0.8),
        }
    }

    /// Two images of three and one instance. By hand: counted are 0.9, 0.8, 0.7 (wrong) and 0.6.
    #[test]
    fn figures_of_an_example() {
        let all = [
            instance("a", Truth::Present, Some(0.9)),
            instance("a", Truth::Present, Some(0.6)),
            instance("a", Truth::Present, None),
            instance("b", Truth::Present, Some(0.8)),
            instance("b", Truth::Absent, Some(0.7)),
            instance("b", Truth::Absent, Some(0.3)),
        ];
        let figures = InstanceFigures::new(&all.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((figures.images, figures.annotated, figures.counted), (2, 4, 4));
        assert_eq!((figures.recall, figures.precision, figures.f1), (0.75, Some(0.75), 0.75));
        assert_eq!(figures.false_an_image, 0.5);
        // A third too few, and one too many of one.
        let error = figures.count_error_percent.unwrap();
        assert!((error - (100.0 / 3.0 + 100.0) / 2.0).abs() < 1e-9, "{error}");
        // Precisions at the three that were detected: 1, 1, 3/4.
        assert!((figures.average_precision - 2.75 / 4.0).abs() < 1e-12);
        let recalls: Vec<f64> = figures.froc.iter().map(|point| point.recall).collect();
        assert_eq!(recalls, [0.5, 0.5, 0.75, 0.75, 0.75, 0.75, 0.75]);
        assert!((figures.panoptic_quality - 0.8 * 0.75).abs() < 1e-12);
    }

    #[test]
    fn nothing_found_is_zero_without_a_sign() {
        let missed = [instance("a", Truth::Present, None)];
        let figures = InstanceFigures::new(&missed.iter().collect::<Vec<_>>()).unwrap();
        let zeros = [figures.f1, figures.average_precision, figures.panoptic_quality];
        assert!(zeros.iter().all(|zero| zero.to_bits() == 0), "{zeros:?}");
    }

    #[test]
    fn structures_that_occur_once_have_none() {
        let mut one = instance("a", Truth::Present, Some(0.9));
        one.instance = None;
        assert!(InstanceFigures::new(&[&one]).is_none() && InstanceFigures::new(&[]).is_none());
    }
}
