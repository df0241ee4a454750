//! What commands that write an image check before, and say after.

use crate::Failure;
use crate::output::{Written, refuse_another_kind, say};
use pbt_io::{Scaling, fits_nifti, is_written};
use pbt_volume::Geometry;
use std::path::{Path, PathBuf};

/// MetaImage keeps directions of length one and spacings apart, which costs the last bit; that is
/// not worth a warning.
const NEGLIGIBLE_MM: f64 = 1e-9;

/// Refuses an output, named by its argument, that would replace another file of the command, or the
/// voxels beside it: two headers of one name share `NAME.raw`.
///
/// # Errors
/// Exit code 2.
pub(super) fn refuse_same(
    output: &Path,
    argument: &str,
    other: &Path,
    what_it_is: &str,
) -> Result<(), Failure> {
    let others = files(other);
    if files(output).iter().any(|file| others.contains(file)) {
        return Err(Failure::usage(format!(
            "{}: {argument}: is {what_it_is} (give another name)",
            output.display()
        )));
    }
    Ok(())
}

/// Refuses an output whose extension names no format that is written.
///
/// # Errors
/// Exit code 2.
pub(super) fn check_format(output: &Path) -> Result<(), Failure> {
    if is_written(output) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}: OUT: has no extension of a format that can be written (use .nii, .nii.gz, .mha, .mhd, .nrrd or .nhdr)",
        output.display()
    )))
}

/// Refuses an output that would replace what is no image, or voxels beside it that no header there claims.
///
/// # Errors
/// Exit code 2.
pub(super) fn refuse_another_image(output: &Path) -> Result<(), Failure> {
    refuse_another_kind(output, Written::Image)?;
    let beside = files(output).into_iter().nth(1);
    match beside.filter(|voxels| voxels.is_file() && !output.is_file()) {
        Some(voxels) => Err(Failure::usage(format!(
            "{}: OUT: is there already, and would be its file of voxels (give another name, or remove it)",
            voxels.display()
        ))),
        None => Ok(()),
    }
}

/// An image's file, and the file of its voxels where the header is one of its own.
fn files(image: &Path) -> Vec<PathBuf> {
    let is_header = image.extension().is_some_and(|extension| {
        ["mhd", "nhdr"].iter().any(|header| extension.eq_ignore_ascii_case(header))
    });
    let voxels = is_header.then(|| image.with_extension("raw"));
    std::iter::once(image.to_path_buf()).chain(voxels).filter_map(|path| resolved(&path)).collect()
}

/// The one path of a file, which need not be there yet.
fn resolved(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
    })
}

/// Says what becomes of a scaling that the format of the output rounds.
pub(super) fn warn_of_scaling(output: &Path, scaling: Option<Scaling>, quiet: bool) {
    for what in scaling.filter(|_| is_nifti(output)).iter().flat_map(rounded_to_f32) {
        say(quiet, format_args!("warning: {}: {what}", output.display()));
    }
}

/// What becomes of a scaling in `f32`, where it changes.
fn rounded_to_f32(scaling: &Scaling) -> Vec<String> {
    if !fits_nifti(*scaling) {
        return vec!["scaling: does not fit 32 bits; voxels become 64-bit numbers".to_owned()];
    }
    let numbers = [("slope", scaling.slope), ("intercept", scaling.intercept)];
    let changed = numbers.into_iter().filter(|(_, n)| f64::from(*n as f32) != *n);
    let told = |(name, number): (&str, f64)| {
        let stored = f64::from(number as f32);
        format!(
            "{name}: NIfTI-1 keeps 32 bits a number; {number:?} becomes {stored:?} (.nrrd keeps all)"
        )
    };
    changed.map(told).collect()
}

/// Says how far voxels move where the format of the output rounds the affine.
pub(super) fn warn_of_rounding(output: &Path, geometry: &Geometry, quiet: bool) {
    let lost_mm = if is_nifti(output) { lost_in_f32_mm(geometry) } else { 0.0 };
    if lost_mm > NEGLIGIBLE_MM {
        let output = output.display();
        say(
            quiet,
            format_args!(
                "warning: {output}: affine: NIfTI-1 keeps 32 bits a number; voxels move by up to {lost_mm:.1e} mm (.nrrd keeps all)"
            ),
        );
    }
}

fn is_nifti(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    name.ends_with(".nii") || name.ends_with(".nii.gz")
}

/// A bound on how far a voxel moves, along any world axis, when the affine is rounded to `f32`; 0
/// when nothing is lost.
fn lost_in_f32_mm(geometry: &Geometry) -> f64 {
    let lost = |value: f64| (value - f64::from(value as f32)).abs();
    let affine = geometry.affine();
    let row = |r: usize| {
        lost(affine[(r, 3)])
            + (0..3).map(|a| lost(affine[(r, a)]) * (geometry.shape()[a] - 1) as f64).sum::<f64>()
    };
    (0..3).map(row).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_f32_makes_of_a_scaling_is_said() {
        let told = |slope, intercept| rounded_to_f32(&Scaling { slope, intercept });
        assert!(told(0.5, -1024.0).is_empty());
        assert_eq!(
            told(0.1, 0.25),
            [
                "slope: NIfTI-1 keeps 32 bits a number; 0.1 becomes 0.10000000149011612 (.nrrd keeps all)"
            ]
        );
        assert_eq!(told(0.1, 0.1).len(), 2);
        for (slope, intercept) in [(1e-46, 0.0), (1.0, 1e39)] {
            assert!(told(slope, intercept)[0].contains("become 64-bit numbers"));
        }
    }

    #[test]
    fn what_f32_cannot_hold_is_bounded() {
        assert_eq!(lost_in_f32_mm(&Geometry::isotropic([10, 10, 10], 0.5).unwrap()), 0.0);
        let lost = lost_in_f32_mm(&Geometry::isotropic([11, 1, 1], 0.1).unwrap());
        assert!((lost - 10.0 * (0.1f64 - f64::from(0.1f32)).abs()).abs() < 1e-15, "{lost}");
    }
}
