//! `pbt convert`

use crate::Failure;
use crate::args::{Convert, Global};
use crate::output::say;
use pbt_io::{read_raw_with, write_image};
use pbt_volume::Geometry;
use std::path::Path;
use std::process::ExitCode;

/// MetaImage keeps directions of length one and spacings apart, which costs the last bit; that is
/// not worth a warning.
const NEGLIGIBLE_MM: f64 = 1e-9;

pub(super) fn run(args: &Convert, global: &Global) -> Result<ExitCode, Failure> {
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if same(&args.input, &args.output) {
        return Err(Failure::usage(format!(
            "{}: OUT: is the input itself (give another name)",
            args.output.display()
        )));
    }
    let loaded = read_raw_with(&args.input, &args.volume.options())?;
    for warning in &loaded.warnings {
        say(global.quiet, format_args!("warning: {}: {warning}", args.input.display()));
    }
    write_image(&args.output, &loaded.raw)?;
    let lost_mm = if is_nifti(&args.output) { lost_in_f32_mm(loaded.raw.geometry()) } else { 0.0 };
    if lost_mm > NEGLIGIBLE_MM {
        let output = args.output.display();
        say(
            global.quiet,
            format_args!(
                "warning: {output}: affine: NIfTI-1 keeps 32 bits a number; voxels move by up to {lost_mm:.1e} mm (.nrrd keeps all)"
            ),
        );
    }
    Ok(ExitCode::SUCCESS)
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
    fn what_f32_cannot_hold_is_bounded() {
        assert_eq!(lost_in_f32_mm(&Geometry::isotropic([10, 10, 10], 0.5).unwrap()), 0.0);
        let lost = lost_in_f32_mm(&Geometry::isotropic([11, 1, 1], 0.1).unwrap());
        assert!((lost - 10.0 * (0.1f64 - f64::from(0.1f32)).abs()).abs() < 1e-15, "{lost}");
    }
}
