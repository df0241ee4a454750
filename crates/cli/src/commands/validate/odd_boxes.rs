//! Boxes that do not fit those of the other cases, told by where they lie alone, without the images.

use super::axes::compare_axes;
use super::boxes::{AnnotatedCases, StructureBoxes};
use super::finding::Finding;
use super::places::compare_places;
use super::sides::{compare_sides, knows_left};
use super::sizes::compare_sizes;
use super::suspect::Suspect;
use crate::session::AnnotatedCase;
use pbt_io::{Annotations, Dataset, Landmark, LandmarkState};
use pbt_volume::LengthUnit;

/// What is odd about the boxes.
pub(super) struct OddBoxes {
    pub(super) findings: Vec<Finding>,
    pub(super) suspects: Vec<Suspect>,
    /// The structures whose boxes lie alike, however their axes are named.
    pub(super) alike: Vec<String>,
}

impl OddBoxes {
    pub(super) fn of(cases: &AnnotatedCases<'_>, structures: &[StructureBoxes]) -> Self {
        let axes = compare_axes(cases, structures);
        let (mut findings, mut suspects) = (axes.findings, axes.suspects);
        // From here on axes have the names that most have, so that each fault is one finding.
        for (more, others) in
            [compare_sizes(cases, &axes.renamed), compare_places(cases, &axes.renamed)]
        {
            findings.extend(more);
            suspects.extend(others);
        }
        Self { findings, suspects, alike: axes.alike }
    }
}

/// Warnings about the boxes that a training learns from. The first few are told; `pbt validate` tells all.
pub(crate) fn warnings_of_boxes(dataset: &Dataset, cases: &[AnnotatedCase]) -> Vec<String> {
    const TOLD: usize = 5;
    let annotations: Vec<Annotations> = cases.iter().map(annotations).collect();
    let unit = LengthUnit::of_all(cases.iter().map(|case| case.unit));
    let specs = cases.iter().map(|case| &case.spec);
    let annotated = AnnotatedCases { dataset, cases: specs.zip(&annotations).collect(), unit };
    let structures = annotated.boxes();
    let is_known: Vec<bool> = cases.iter().map(|c| knows_left(c.unit, &c.geometry)).collect();
    let sides = compare_sides(&annotated, &structures, &is_known);
    let findings = sides.before(OddBoxes::of(&annotated, &structures).findings);
    let more = findings.len().saturating_sub(TOLD);
    let mut told: Vec<String> = findings.into_iter().take(TOLD).map(|f| f.message).collect();
    if more > 0 {
        let set = dataset.path.display();
        told.push(format!("{set}: {more} more that do not fit (`pbt validate` lists them all)"));
    }
    told
}

fn annotations(case: &AnnotatedCase) -> Annotations {
    let landmark = |(name, point): &(String, _)| Landmark {
        name: name.clone(),
        state: LandmarkState::At(*point),
    };
    let mut annotations = Annotations {
        boxes: case.boxes.clone(),
        landmarks: case.landmarks.iter().map(landmark).collect(),
        ..Annotations::default()
    };
    annotations.bring_into_slice(&case.geometry);
    annotations
}
