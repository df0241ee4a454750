//! A data set: its file, every image and annotation, and what they are together.

use super::images::{ImageFacts, duplicates, look_at, unlike_the_rest};
use super::{Examination, Finding};
use pbt_detect::FEWEST_CASES;
use pbt_io::{Annotations, CaseSpec, Dataset, check_annotations};
use rayon::prelude::*;
use std::path::Path;

/// So many cases are named where a structure is missing in more.
const NAMED_CASES: usize = 5;

/// A case as far as it could be read.
struct LookedAt {
    facts: Option<ImageFacts>,
    annotations: Option<Annotations>,
    findings: Vec<Finding>,
}

pub(super) fn examine(path: &Path) -> Examination {
    let dataset = match Dataset::load(path) {
        Ok(dataset) => dataset,
        Err(error) => return Examination { kind: "data set", findings: vec![Finding::error(error)], images: Vec::new() },
    };
    let looked: Vec<LookedAt> = dataset.cases.par_iter().map(|case| look_at_case(&dataset, case)).collect();
    let mut findings: Vec<Finding> = dataset.warnings.iter().map(Finding::warning).collect();
    findings.extend(looked.iter().flat_map(|l| l.findings.iter().cloned()));
    findings.extend(missing(&dataset, &looked));
    let images: Vec<ImageFacts> = looked.into_iter().filter_map(|l| l.facts).collect();
    findings.extend(unlike_the_rest(&images));
    findings.extend(duplicates(&images));
    Examination { kind: "data set", findings, images }
}

fn look_at_case(dataset: &Dataset, case: &CaseSpec) -> LookedAt {
    let (facts, mut findings) = look_at(&case.id, Some(&case.split), &case.image);
    let annotations = match dataset.load_annotations(case) {
        Ok(annotations) => Some(annotations),
        Err(error) => {
            findings.push(Finding::error(error));
            None
        }
    };
    if let (Some(facts), Some(annotations)) = (&facts, &annotations) {
        let file = case.annotations.as_deref().or(case.labels.as_deref()).unwrap_or(&case.image);
        match check_annotations(file, &facts.geometry, annotations) {
            Ok(warnings) => findings.extend(warnings.into_iter().map(Finding::warning)),
            Err(error) => findings.push(Finding::error(error)),
        }
    }
    LookedAt { facts, annotations, findings }
}

/// Structures that are not annotated in some case, and those that cannot be trained for that.
fn missing(dataset: &Dataset, looked: &[LookedAt]) -> Vec<Finding> {
    let at = |text: String| Finding::of(&dataset.path, text);
    let mut findings = Vec::new();
    let train = dataset.split("train").count();
    if train == 0 {
        findings.push(Finding::warning(at("cases: none has the split `train` (without one, nothing can be trained)".to_owned())));
    }
    for structure in &dataset.structures {
        let name = &structure.name;
        let is_known = |a: &Annotations| a.pose(name).is_some() || a.landmark(name).is_some();
        // A case whose annotations cannot be read has its own finding.
        let lacking: Vec<&CaseSpec> = dataset
            .cases
            .iter()
            .zip(looked)
            .filter(|(_, l)| l.annotations.as_ref().is_some_and(|a| !is_known(a)))
            .map(|(case, _)| case)
            .collect();
        if !lacking.is_empty() {
            let mut ids: Vec<&str> = lacking.iter().take(NAMED_CASES).map(|case| case.id.as_str()).collect();
            if lacking.len() > NAMED_CASES {
                ids.push("...");
            }
            let (count, all) = (lacking.len(), dataset.cases.len());
            findings.push(Finding::warning(at(format!(
                "structures: {name}: not annotated in {count} of {all} cases: {} (annotate it there; these cases are not used for it)",
                ids.join(", ")
            ))));
        }
        let trained = train - lacking.iter().filter(|case| case.split == "train").count();
        if train > 0 && trained < FEWEST_CASES {
            findings.push(Finding::error(at(format!(
                "structures: {name}: {trained} annotated training case(s); at least {FEWEST_CASES} are needed (annotate more, or take it out)"
            ))));
        }
    }
    findings
}
