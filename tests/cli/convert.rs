//! `pbt convert`

use crate::support::{Outcome, pbt, scratch, text, tiny};
use nalgebra::Matrix3;
use pbt_io::{RawImage, Scaling, VoxelType, read_raw, write_image};
use pbt_volume::{Geometry, PointLps};
use std::path::Path;

fn convert(from: &Path, to: &Path) -> Outcome {
    pbt(["convert".as_ref(), from.as_os_str(), to.as_os_str()])
}

/// An oblique, mirrored, anisotropic image whose affine needs all 64 bits.
fn oblique() -> RawImage {
    let matrix = Matrix3::new(0.1, -0.7, 0.2, 0.63, 0.1, -0.11, 0.05, 0.21, 2.3);
    let geometry = Geometry::new([5, 4, 3], matrix, PointLps::new(-81.3, 44.4, 1e3 / 3.0)).unwrap();
    let bytes = (0..60).flat_map(|n: i16| (n * 517 - 9000).to_le_bytes()).collect();
    RawImage::new(geometry, VoxelType::I16, bytes, None).unwrap()
}

#[test]
fn round_trips_are_exact() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    write_image(&at("a.nrrd"), &oblique()).unwrap();
    assert!(convert(&at("a.nrrd"), &at("c.nrrd")).exits_with(0).stderr.is_empty());
    assert_eq!(read_raw(&at("c.nrrd")).unwrap().raw, oblique());
    // MetaImage has directions and spacings apart: their product may differ in the last bit.
    assert!(convert(&at("a.nrrd"), &at("b.mha")).exits_with(0).stderr.is_empty());
    let through_mha = read_raw(&at("b.mha")).unwrap().raw;
    assert_eq!(through_mha.bytes(), oblique().bytes());
    assert!((through_mha.geometry().affine() - oblique().geometry().affine()).abs().max() < 1e-12);
    // NIfTI has 32 bits for the affine, says so, and loses nothing once rounded.
    let outcome = convert(&at("c.nrrd"), &at("d.nii.gz")).exits_with(0);
    assert!(
        outcome.stderr.starts_with("warning: ") && outcome.stderr.contains("d.nii.gz: affine: "),
        "{}",
        outcome.stderr
    );
    let rounded = read_raw(&at("d.nii.gz")).unwrap().raw;
    assert_eq!(rounded.bytes(), oblique().bytes());
    for (from, to) in
        [("d.nii.gz", "e.nii"), ("e.nii", "f.nrrd"), ("d.nii.gz", "f.mha"), ("f.mha", "g.nii.gz")]
    {
        assert!(convert(&at(from), &at(to)).exits_with(0).stderr.is_empty());
        if to != "f.mha" {
            assert_eq!(read_raw(&at(to)).unwrap().raw, rounded, "{to}");
        }
    }
}

#[test]
fn a_scaling_stays_or_becomes_real_numbers() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    let geometry = Geometry::isotropic([2, 2, 2], 1.0).unwrap();
    let scaling = Some(Scaling { slope: 0.5, intercept: -1024.0 });
    let image = RawImage::new(geometry, VoxelType::U8, (0..8).collect(), scaling).unwrap();
    write_image(&at("a.nii"), &image).unwrap();
    convert(&at("a.nii"), &at("b.nii.gz")).exits_with(0);
    assert_eq!(read_raw(&at("b.nii.gz")).unwrap().raw, image);
    convert(&at("a.nii"), &at("c.mha")).exits_with(0);
    let real = read_raw(&at("c.mha")).unwrap().raw;
    assert_eq!(
        (real.voxel_type(), real.to_f64()),
        (VoxelType::F64, (0..8).map(|n| f64::from(n) * 0.5 - 1024.0).collect())
    );
}

#[test]
fn what_cannot_be_converted_leaves_older_files() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    let image = tiny().folder().join("c0.nii.gz");
    std::fs::write(at("mine.xyz"), "mine").unwrap();
    assert!(
        convert(&image, &at("mine.xyz"))
            .exits_with(2)
            .error_line()
            .contains("mine.xyz: OUT: has no extension")
    );
    assert_eq!(std::fs::read(at("mine.xyz")).unwrap(), b"mine");
    assert!(
        convert(&at("none.nii"), &at("x.nii"))
            .exits_with(4)
            .error_line()
            .contains("none.nii: file: ")
    );
    assert!(
        convert(&at("mine.xyz"), &at("x.nii"))
            .exits_with(4)
            .error_line()
            .contains("mine.xyz: file: ")
    );
    assert!(
        convert(&image, &at("no/such/x.nii"))
            .exits_with(1)
            .error_line()
            .contains("x.nii: file: cannot be written")
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Headers of one name share a file of voxels.
#[test]
fn voxels_of_the_input_are_never_replaced() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    convert(&tiny().folder().join("c7.nii.gz"), &at("x.mhd")).exits_with(0);
    let voxels = std::fs::read(at("x.raw")).unwrap();
    for output in ["x.nhdr", "x.MHD", "x.mhd"] {
        let line = convert(&at("x.mhd"), &at(output)).exits_with(2);
        assert!(line.error_line().contains("OUT: is the input itself"), "{}", line.stderr);
    }
    assert_eq!(std::fs::read(at("x.raw")).unwrap(), voxels);
    convert(&at("x.mhd"), &at("y.nhdr")).exits_with(0);
}

#[test]
fn only_images_are_replaced_by_images() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    let image = tiny().folder().join("c7.nii.gz");
    std::fs::copy(tiny().model(), at("model.nii")).unwrap();
    std::fs::write(at("x.raw"), "somebody's voxels").unwrap();
    for (output, expected) in [
        ("model.nii", "model.nii: OUT: is a model already"),
        ("x.mhd", "x.raw: OUT: is there already"),
    ] {
        for command in ["convert", "components"] {
            let outcome = pbt([command, text(&image), text(&at(output))]).exits_with(2);
            assert!(outcome.error_line().contains(expected), "{}", outcome.stderr);
        }
    }
    assert_eq!(std::fs::read(at("x.raw")).unwrap(), b"somebody's voxels");
    let (output, model) = (at("out.nii"), tiny().model());
    let table = ["components", text(&image), text(&output), "--table", text(&model)];
    let outcome = pbt(table).exits_with(2);
    assert!(outcome.error_line().contains("gland.pbt: --table: is a model already"));
    for output in ["y.nii", "y.nii", "z.mhd", "z.mhd"] {
        convert(&image, &at(output)).exits_with(0);
    }
}
