//! A single image, and a folder of images.

use super::examination::Examination;
use super::finding::Finding;
use super::images::{ImageFacts, duplicates, look_at, unlike_the_rest, warnings_of_images};
use crate::commands::batch::BatchCase;
use pbt_io::{IoError, OpenImage, ReadOptions, masks_among, read_side_by_side};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) fn examine_file(path: &Path, options: &ReadOptions) -> Examination {
    let (facts, mut findings) = look_at(
        &pbt_io::case_name(path),
        None,
        (path, options),
        OpenImage::open(path, options),
        &[],
    );
    let images: Vec<ImageFacts> = facts.into_iter().collect();
    findings.extend(warnings_of_images(&images));
    Examination { kind: "image", findings, images, ..Examination::default() }
}

pub(super) fn examine_folder(folder: &Path, cases: &[BatchCase]) -> Examination {
    let paths: Vec<PathBuf> = cases.iter().map(|case| case.path.clone()).collect();
    let masks: BTreeSet<&Path> = masks_among(folder, &paths).into_iter().collect();
    let open = |case: &BatchCase| OpenImage::open(&case.path, &case.options);
    let look = |case: &BatchCase, image: Result<OpenImage, IoError>| {
        let (facts, mut findings) =
            look_at(&case.id, None, (&case.path, &case.options), image, &[]);
        if masks.contains(&*case.path) {
            findings.retain(|finding| !finding.message.contains(": a label map"));
        }
        (facts, findings)
    };
    let looked = read_side_by_side(cases, open, look);
    let (facts, findings): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
    let images: Vec<ImageFacts> = facts.into_iter().flatten().collect();
    let mut findings: Vec<Finding> = findings.into_iter().flatten().collect();
    if !masks.is_empty() {
        let what = format!(
            "folder: holds no dataset.json, and {} of {} images are masks of others by their names: all are looked at as images alone \
             (`pbt init {}` makes a data set of them, whose annotations are validated, too)",
            masks.len(),
            cases.len(),
            folder.display()
        );
        findings.insert(0, Finding::warning(Finding::of(folder, what)));
    }
    if cases.is_empty() {
        findings.push(Finding::error(
            "the folder holds neither dataset.json nor images (give another path)",
        ));
    }
    findings.extend(warnings_of_images(&images));
    findings.extend(unlike_the_rest(&images));
    findings.extend(duplicates(&images));
    Examination { kind: "folder of images", findings, images, ..Examination::default() }
}
