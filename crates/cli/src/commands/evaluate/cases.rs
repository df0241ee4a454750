//! Which cases and structures are evaluated, and how each case is.

use super::comparison::{Comparison, compare, is_known};
use super::source::Source;
use super::tolerance::Tolerance;
use crate::Failure;
use crate::device::Device;
use crate::output::{say, tell};
use crate::progress::count_bar;
use nalgebra::Matrix4;
use pbt_io::{
    Annotations, CaseSpec, Dataset, InputRecord, ResultFile, StructureSpec, check_annotations,
};
use pbt_volume::Geometry;
use serde::Serialize;

/// What came out of some cases.
pub(in crate::commands) struct Evaluated {
    /// Of each case, structure by structure.
    pub(in crate::commands) records: Vec<Comparison>,
    /// Of each case that has one.
    pub(in crate::commands) results: Vec<ResultFile>,
    /// Those that could not be evaluated.
    pub(in crate::commands) failed: Vec<FailedCase>,
    /// Names of the structures, in the data set's order.
    pub(in crate::commands) structures: Vec<String>,
    /// Names of the cases that have annotations, the failed ones too.
    pub(in crate::commands) cases: Vec<String>,
}

/// A case that could not be evaluated.
#[derive(Serialize)]
pub(in crate::commands) struct FailedCase {
    /// Its name.
    pub(in crate::commands) case: String,
    reason: String,
}

/// Compares the results of cases with their annotations. `named` are the structures that are
/// wanted, all where it is empty. A case that cannot be read is told at once and listed.
///
/// # Errors
/// Names that are no structures, nothing to compare, no case that could be evaluated, and whatever
/// ends a detection.
pub(in crate::commands) fn evaluate_cases(
    dataset: &Dataset,
    named: &[String],
    source: &Source,
    cases: Vec<CaseSpec>,
    tolerance: &Tolerance,
    device: &Device,
    quiet: bool,
) -> Result<Evaluated, Failure> {
    let structures = wanted_structures(dataset, named, source, &cases)?;
    let asked = cases.len();
    let cases = annotated_cases(dataset, &structures, cases)?;
    if cases.len() < asked {
        say(quiet, format_args!("{} cases without annotations are left out", asked - cases.len()));
    }
    let mut evaluated = Evaluated {
        records: Vec::new(),
        results: Vec::new(),
        failed: Vec::new(),
        structures: structures.iter().map(|s| s.name.clone()).collect(),
        cases: cases.iter().map(|(case, _)| case.id.clone()).collect(),
    };
    let bar = count_bar(quiet, cases.len());
    for (case, annotations) in &cases {
        bar.set_message(case.id.clone());
        match evaluate_case(dataset, &structures, source, case, annotations, tolerance, device) {
            Ok((compared, result)) => {
                evaluated.records.extend(compared);
                evaluated.results.extend(result);
            }
            Err(failure) if failure.is_input() => {
                bar.suspend(|| tell(format_args!("error: case {}: {failure}", case.id)));
                evaluated
                    .failed
                    .push(FailedCase { case: case.id.clone(), reason: failure.to_string() });
            }
            Err(failure) => return Err(failure),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if evaluated.failed.len() == cases.len() {
        return Err(Failure::input(
            &dataset.path,
            format!("cases: none of the {} could be evaluated (see above)", cases.len()),
        ));
    }
    Ok(evaluated)
}

/// The structures of the data set that the results speak of, in its order.
fn wanted_structures<'a>(
    dataset: &'a Dataset,
    named: &[String],
    source: &Source,
    cases: &[CaseSpec],
) -> Result<Vec<&'a StructureSpec>, Failure> {
    check_names(dataset, named)?;
    let found = source.structures(cases);
    let wanted = |s: &&StructureSpec| {
        found.contains(&s.name) && (named.is_empty() || named.contains(&s.name))
    };
    let structures: Vec<&StructureSpec> = dataset.structures.iter().filter(wanted).collect();
    if structures.is_empty() {
        let names: Vec<String> = found.into_iter().collect();
        let what = if names.is_empty() {
            "cases: there is no result for any of them (check the folder)".to_owned()
        } else {
            format!("structures: none of those wanted is among the results ({})", names.join(", "))
        };
        return Err(Failure::input(&dataset.path, what));
    }
    Ok(structures)
}

/// Whether all names are structures of the data set.
pub(in crate::commands) fn check_names(dataset: &Dataset, named: &[String]) -> Result<(), Failure> {
    match named.iter().find(|name| dataset.structures.iter().all(|s| s.name != **name)) {
        Some(name) => {
            Err(Failure::input(&dataset.path, format!("structures: there is no `{name}`")))
        }
        None => Ok(()),
    }
}

/// A case with its annotations, or why they cannot be read.
type AnnotatedCase = (CaseSpec, Result<Annotations, String>);

/// The cases of which something is known or whose annotations cannot be read, which is reported
/// when their turn comes.
fn annotated_cases(
    dataset: &Dataset,
    structures: &[&StructureSpec],
    cases: Vec<CaseSpec>,
) -> Result<Vec<AnnotatedCase>, Failure> {
    let count = cases.len();
    let mut annotated = Vec::new();
    for case in cases {
        match dataset.load_annotations(&case) {
            Ok(annotations) if structures.iter().any(|s| is_known(s, &annotations)) => {
                annotated.push((case, Ok(annotations)))
            }
            Ok(_) => {}
            Err(error) => annotated.push((case, Err(error.to_string()))),
        }
    }
    if annotated.is_empty() {
        let names: Vec<&str> = structures.iter().map(|s| s.name.as_str()).collect();
        return Err(Failure::input(
            &dataset.path,
            format!("cases: none of the {count} has annotations of {}", names.join(", ")),
        ));
    }
    Ok(annotated)
}

fn evaluate_case(
    dataset: &Dataset,
    structures: &[&StructureSpec],
    source: &Source,
    case: &CaseSpec,
    annotations: &Result<Annotations, String>,
    tolerance: &Tolerance,
    device: &Device,
) -> Result<(Vec<Comparison>, Option<ResultFile>), Failure> {
    let annotations = annotations.as_ref().map_err(Failure::complete_input)?;
    let result = source.result(dataset, case, device)?;
    if let Some(result) = &result {
        let geometry = geometry(&result.input)
            .map_err(|e| Failure::input(&case.image, format!("affine: {e}")))?;
        let file = case.annotated_in();
        let mut wanted = annotations.clone();
        wanted.boxes.retain(|(name, _)| structures.iter().any(|s| s.name == *name));
        wanted.landmarks.retain(|landmark| structures.iter().any(|s| s.name == landmark.name));
        check_annotations(file, &geometry, &wanted)?;
    }
    let compared = compare(&case.id, structures, annotations, result.as_ref(), tolerance)
        .map_err(|what| Failure::input(&case.image, what))?;
    Ok((compared, result))
}

/// The grid of the image that a result is about.
fn geometry(input: &InputRecord) -> Result<Geometry, pbt_volume::GeometryError> {
    Geometry::from_affine(
        input.shape,
        &Matrix4::from_fn(|row, column| input.affine_lps[row][column]),
    )
}
