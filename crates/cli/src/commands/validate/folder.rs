//! A single image, and a folder of images.

use super::examination::Examination;
use super::finding::Finding;
use super::images::{ImageFacts, duplicates, look_at, unlike_the_rest};
use crate::commands::batch::BatchCase;
use pbt_io::ReadOptions;
use rayon::prelude::*;
use std::path::Path;

pub(super) fn examine_file(path: &Path, options: &ReadOptions) -> Examination {
    let (facts, findings) = look_at(&pbt_io::case_name(path), None, path, options);
    let images = facts.into_iter().collect();
    Examination { kind: "image", findings, images, ..Examination::default() }
}

pub(super) fn examine_folder(cases: &[BatchCase]) -> Examination {
    let looked: Vec<_> =
        cases.par_iter().map(|case| look_at(&case.id, None, &case.path, &case.options)).collect();
    let (facts, findings): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
    let images: Vec<ImageFacts> = facts.into_iter().flatten().collect();
    let mut findings: Vec<Finding> = findings.into_iter().flatten().collect();
    if cases.is_empty() {
        findings.push(Finding::error(
            "the folder holds neither dataset.json nor images (give another path)",
        ));
    }
    findings.extend(unlike_the_rest(&images));
    findings.extend(duplicates(&images));
    Examination { kind: "folder of images", findings, images, ..Examination::default() }
}
