//! A data set: its file, every image and annotation, and what they are together.

use super::absence::absences;
use super::boxes::{AnnotatedCases, boxes_of};
use super::by_model::{AskedModel, SoundCase};
use super::examination::Examination;
use super::finding::Finding;
use super::grids::compare_grids;
use super::images::{ImageFacts, duplicates, few, look_at, unlike_the_rest, warnings_of_images};
use super::landmarks::compare_landmarks;
use super::masks::{MaskFacts, look_at_masks, masks_in_pieces, same_label_maps, unused_labels};
use super::near_duplicates::near_duplicates;
use super::odd_boxes::OddBoxes;
use super::reversed::reversed_cases;
use super::sides::{compare_sides, knows_left};
use super::splits::odd_splits;
use super::spread::StructureSpread;
use super::suspect::{Suspect, ranked};
use super::trainable::what_training_refuses;
use crate::Failure;
use crate::session::AnnotatedCase;
use pbt_io::{
    Annotations, CaseSpec, Dataset, IoError, OpenImage, check_annotations, read_side_by_side,
};
use pbt_volume::{LengthUnit, Plane, StructureKind, nearest};
use std::collections::BTreeMap;
use std::path::Path;

/// A case as far as it could be read.
struct LookedAt {
    facts: Option<ImageFacts>,
    annotations: Option<Annotations>,
    masks: Option<MaskFacts>,
    /// Whether its annotations lie in its image.
    belongs: bool,
    findings: Vec<Finding>,
}

/// Looks at a data set; a model, if there is one, is asked what it would have annotated.
///
/// # Errors
/// The model has other structures, or the device fails.
pub(super) fn examine(path: &Path, model: Option<&AskedModel>) -> Result<Examination, Failure> {
    let kind = "data set";
    let (dataset, faults) = match Dataset::load_with_faults(path) {
        Ok(read) => read,
        Err(error) => {
            let findings = vec![Finding::error(error)];
            return Ok(Examination { kind, findings, ..Examination::default() });
        }
    };
    let dataset = model.map_or_else(|| dataset.clone(), |m| m.data_set_as_learned(&dataset));
    let look = |case: &CaseSpec, image| look_at_case(&dataset, case, image);
    dataset.read_label_boxes(&dataset.cases);
    let looked: Vec<LookedAt> = read_side_by_side(&dataset.cases, CaseSpec::open_image, look);
    let mut findings: Vec<Finding> = faults.iter().map(Finding::error).collect();
    findings.extend(dataset.warnings.iter().map(Finding::warning));
    findings.extend(looked.iter().flat_map(|l| l.findings.iter().cloned()));
    findings.extend(odd_splits(&dataset));
    findings.extend(divided_subjects(&dataset));
    // Where one of the lists could not be read, the rest would follow from that alone.
    if !(dataset.structures.is_empty() || dataset.cases.is_empty()) {
        findings.extend(missing(&dataset, &looked));
        findings.extend(dataset.unknown_names(dataset.cases.iter()).iter().map(Finding::warning));
        let masks: Vec<Option<&MaskFacts>> = looked.iter().map(|l| l.masks.as_ref()).collect();
        findings.extend(unused_labels(&dataset, &masks));
        findings.extend(partners(&dataset, &looked));
        findings.extend(trainable(&dataset, &looked));
    }
    let (odd, unlike_others, spreads) = boxes(&dataset, &looked);
    findings.extend(odd);
    let mut contradicted = Vec::new();
    if let Some(model) = model {
        let more;
        (more, contradicted) =
            model.contradictions(&dataset, &sound_cases(&dataset, &looked), &findings)?;
        findings.extend(more);
    }
    let suspects = ranked(contradicted, unlike_others);
    let grids: Vec<_> = dataset
        .cases
        .iter()
        .zip(&looked)
        .filter_map(|(case, l)| {
            Some((case, &l.facts.as_ref()?.geometry, &l.masks.as_ref()?.geometry))
        })
        .collect();
    findings.extend(compare_grids(&grids));
    let annotated = dataset.cases.iter().zip(&looked);
    let annotated = annotated.filter_map(|(case, l)| Some((case, l.annotations.as_ref()?)));
    let absences = absences(&dataset, annotated);
    let images: Vec<ImageFacts> = looked.into_iter().filter_map(|l| l.facts).collect();
    findings.extend(warnings_of_images(&images));
    findings.extend(unlike_the_rest(&images));
    findings.extend(duplicates(&images));
    findings.extend(near_duplicates(&images));
    let has_training = dataset.split("train").next().is_some();
    Ok(Examination { kind, findings, images, spreads, absences, suspects, has_training })
}

fn look_at_case(dataset: &Dataset, case: &CaseSpec, image: Result<OpenImage, IoError>) -> LookedAt {
    let mut annotations = dataset.load_annotations(case);
    if let (Ok(annotations), Ok(image)) = (&mut annotations, &image) {
        annotations.bring_into_slice(image.geometry());
    }
    let boxes = annotations.as_ref().map_or_else(|_| Vec::new(), |a| boxes_of(dataset, a));
    let (facts, mut findings) =
        look_at(&case.id, Some(&case.split), (&case.image, &case.options), image, &boxes);
    if is_same_file(&case.image, case.labels.as_deref()) {
        let what = "image: is the case's label map, too (give the image that it was drawn in)";
        findings.retain(|finding| !finding.message.contains("voxels: all are"));
        findings.push(Finding::error(Finding::of(&case.image, what)));
    }
    let annotations = match annotations {
        Ok(annotations) => Some(annotations),
        Err(error) => {
            findings.push(Finding::error(error));
            None
        }
    };
    let warnings = annotations.iter().flat_map(|a| &a.warnings);
    findings.extend(warnings.map(|w| Finding::warning(w).in_cases([case.id.as_str()])));
    let mut belongs = false;
    if let (Some(facts), Some(annotations)) = (&facts, &annotations) {
        let file = case.annotated_in();
        match check_annotations(file, (&facts.geometry, facts.unit), annotations) {
            Ok(warnings) => {
                belongs = true;
                findings.extend(warnings.into_iter().map(Finding::warning));
            }
            Err(error) => findings.push(Finding::error(error)),
        }
    }
    let masks = match look_at_masks(dataset, case) {
        Some(Ok(masks)) => Some(masks),
        // The annotations may have said it already.
        Some(Err(finding)) => {
            if findings.iter().all(|other| other.message != finding.message) {
                findings.push(finding);
            }
            None
        }
        None => None,
    };
    LookedAt { facts, annotations, masks, belongs, findings }
}

fn is_same_file(image: &Path, labels: Option<&Path>) -> bool {
    let resolved = |path: &Path| path.canonicalize().ok();
    labels.is_some_and(|labels| resolved(image).is_some() && resolved(image) == resolved(labels))
}

/// The cases whose image and annotations could be read and belong together.
fn sound_cases<'a>(dataset: &'a Dataset, looked: &'a [LookedAt]) -> Vec<SoundCase<'a>> {
    let all = dataset.cases.iter().zip(looked).filter(|(_, l)| l.belongs);
    all.filter_map(|(spec, l)| {
        Some(SoundCase { spec, image: l.facts.as_ref()?, annotations: l.annotations.as_ref()? })
    })
    .collect()
}

/// What training would refuse, of the cases that can be read.
fn trainable(dataset: &Dataset, looked: &[LookedAt]) -> Vec<Finding> {
    let (mut training, mut others) = (Vec::new(), Vec::new());
    for (spec, l) in dataset.cases.iter().zip(looked) {
        let (Some(facts), Some(annotations), true) = (&l.facts, &l.annotations, l.belongs) else {
            continue;
        };
        if spec.split != "train" {
            others.push((spec, &facts.trimmed));
            continue;
        }
        training.push(AnnotatedCase::new(
            spec.clone(),
            annotations.clone(),
            facts.sha256.clone(),
            (facts.trimmed.clone(), facts.unit),
        ));
    }
    what_training_refuses(dataset, training, &others)
}

/// Boxes that do not fit the others, how odd each box is, and how they spread.
fn boxes(
    dataset: &Dataset,
    looked: &[LookedAt],
) -> (Vec<Finding>, Vec<Suspect>, Vec<StructureSpread>) {
    let readable = || dataset.cases.iter().zip(looked).filter(|(_, l)| l.annotations.is_some());
    let cases = readable().filter_map(|(case, l)| Some((case, l.annotations.as_ref()?))).collect();
    let images: Vec<_> = readable().map(|(_, l)| l.facts.as_ref()).collect();
    let unit = LengthUnit::of_all(images.iter().flatten().map(|image| image.unit));
    let cases = AnnotatedCases { dataset, cases, unit };
    let structures = cases.boxes();
    let flat = images.iter().flatten().any(|image| Plane::of(&image.geometry).is_some());
    let spreads = structures.iter().filter_map(|s| StructureSpread::of(s, flat)).collect();
    let OddBoxes { mut findings, mut suspects, alike } = OddBoxes::of(&cases, &structures);
    findings.extend(compare_landmarks(&cases, &images));
    let shown = cases.cases.iter().zip(&images);
    let shown: Vec<_> = shown.filter_map(|((spec, _), image)| Some((*spec, (*image)?))).collect();
    findings.extend(reversed_cases(&shown, &alike));
    let knows_left: Vec<bool> = images
        .iter()
        .map(|image| image.is_some_and(|image| knows_left(image.unit, &image.geometry)))
        .collect();
    let mut findings = compare_sides(&cases, &structures, &knows_left).before(findings);
    let masks: Vec<Option<&MaskFacts>> = looked.iter().map(|l| l.masks.as_ref()).collect();
    let (in_pieces, broken) = masks_in_pieces(dataset, &masks, unit);
    findings.extend(in_pieces);
    findings.extend(same_label_maps(dataset, &masks));
    suspects.extend(broken.into_iter().filter_map(|mask| {
        let pose = *looked[mask.case].annotations.as_ref()?.pose(&mask.structure)?;
        Some(Suspect {
            case: dataset.cases[mask.case].clone(),
            structure: mask.structure,
            annotated: pose,
            expected: mask.largest,
            score: 1.0,
            why: mask.why,
        })
    }));
    (findings, suspects, spreads)
}

/// Structures that are not annotated in some case.
fn missing(dataset: &Dataset, looked: &[LookedAt]) -> Vec<Finding> {
    let at = |text: String| Finding::of(&dataset.path, text);
    let mut findings = Vec::new();
    if dataset.split("train").next().is_none() {
        findings.push(Finding::warning(at(
            "cases: none has the split `train` (without one, nothing can be trained)".to_owned(),
        )));
    }
    for structure in &dataset.structures {
        let name = &structure.name;
        let is_region = structure.kind == StructureKind::Region;
        let is_known = |case: &CaseSpec, a: &Annotations| match is_region {
            true => case.labels.is_some(),
            false => a.pose(name).is_some() || a.landmark(name).is_some(),
        };
        // A case whose annotations cannot be read has its own finding.
        let lacking: Vec<&CaseSpec> = dataset
            .cases
            .iter()
            .zip(looked)
            .filter(|(case, _)| !is_only_searched(case))
            .filter(|(case, l)| l.annotations.as_ref().is_some_and(|a| !is_known(case, a)))
            .map(|(case, _)| case)
            .collect();
        if !lacking.is_empty() {
            let (count, all) = (lacking.len(), dataset.cases.len());
            // Where no case has it, its name may be a slip for that of a label.
            let own = |label: &&String| dataset.structures.iter().any(|s| s.name == **label);
            let others = dataset.label_names.values().filter(|label| !own(label));
            let meant = nearest(name, others.map(String::as_str)).filter(|_| count == all);
            let advice = match meant {
                Some(meant) => format!("`labels` has `{meant}`: is that meant?"),
                None => "annotate it there; these cases are not used for it".to_owned(),
            };
            findings.push(
                Finding::warning(at(format!(
                    "structures: {name}: not annotated in {count} of {all} cases: {} ({advice})",
                    few(lacking.iter().map(|case| case.id.as_str()))
                )))
                .in_cases(lacking.iter().map(|case| case.id.as_str())),
            );
        }
    }
    findings
}

/// Whether a case is there to be searched alone: nnU-Net's `imagesTs` without `labelsTs`.
fn is_only_searched(case: &CaseSpec) -> bool {
    let has_nothing = case.annotations.is_empty() && case.labels.is_none();
    has_nothing && case.image.parent().is_some_and(|folder| folder.ends_with("imagesTs"))
}

/// Subjects with cases in two splits: what is tested there was seen in training.
fn divided_subjects(dataset: &Dataset) -> Vec<Finding> {
    let mut first_of: BTreeMap<&str, &str> = BTreeMap::new();
    let mut divided: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for case in &dataset.cases {
        let Some(subject) = &case.subject else { continue };
        let first = *first_of.entry(subject).or_insert(&case.split);
        if first != case.split {
            divided.entry(subject).or_insert((first, &case.split));
        }
    }
    let finding = |(subject, (a, b)): (&str, (&str, &str))| {
        let what = format!(
            "cases: subject: `{subject}` has cases in the splits `{a}` and `{b}` (keep each subject in one split, or tests mean nothing)"
        );
        Finding::error(Finding::of(&dataset.path, what))
    };
    divided.into_iter().map(finding).collect()
}

/// Partners that do not name each other, and cases in which one of two partners is annotated and
/// the other is not.
fn partners(dataset: &Dataset, looked: &[LookedAt]) -> Vec<Finding> {
    let at = |text: String| Finding::of(&dataset.path, text);
    let mut findings = Vec::new();
    for structure in &dataset.structures {
        let name = &structure.name;
        let Some(partner) = structure
            .partner
            .as_ref()
            .and_then(|p| dataset.structures.iter().find(|s| s.name == *p))
        else {
            continue;
        };
        if partner.partner.as_ref() != Some(name) {
            let what = format!(
                "structures: {name}: its partner {} does not name it as partner (write it in both)",
                partner.name
            );
            findings.push(Finding::warning(at(what)));
        }
        let known =
            |a: &Annotations, name: &str| a.pose(name).is_some() || a.landmark(name).is_some();
        let half = |l: &LookedAt| {
            l.annotations.as_ref().is_some_and(|a| known(a, name) && !known(a, &partner.name))
        };
        let cases: Vec<&str> = dataset
            .cases
            .iter()
            .zip(looked)
            .filter(|(_, l)| half(l))
            .map(|(case, _)| case.id.as_str())
            .collect();
        if !cases.is_empty() {
            findings.push(Finding::warning(at(format!(
                "structures: {name}: annotated in {} case(s) without its partner {}: {} (annotate both, or mark the other as missing)",
                cases.len(),
                partner.name,
                few(cases.iter().copied())
            ))));
        }
    }
    findings
}
