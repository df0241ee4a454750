//! Affines and voxels against nibabel (NIfTI) and SimpleITK (MetaImage, NRRD), in the Python that
//! PBT_ORACLE_PYTHON names.

mod support;

use pbt_io::{read_image, read_raw, write_image};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{data, python};

/// Compares our reading of each file with the oracle's: the affine within 1e-5 mm, the voxels
/// exactly.
fn compare(python: &str, files: &[PathBuf]) {
    let out = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle.py");
    let status = Command::new(python)
        .arg(script)
        .arg(out.path())
        .args(files)
        .status()
        .expect("PBT_ORACLE_PYTHON starts");
    assert!(status.success());
    for (n, file) in files.iter().enumerate() {
        let image = read_image(file).unwrap();
        let geometry = image.volume.geometry();
        let text = std::fs::read_to_string(out.path().join(format!("{n}.txt"))).unwrap();
        let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        // nalgebra iterates by columns; the transpose's columns are the rows.
        for (ours, theirs) in geometry.affine().transpose().iter().zip(&numbers) {
            assert!(
                (ours - theirs).abs() < 1e-5,
                "{}: {} is {text}",
                file.display(),
                geometry.affine()
            );
        }
        assert_eq!(geometry.shape().map(|n| n as f64), numbers[16..], "{}", file.display());
        let voxels = std::fs::read(out.path().join(format!("{n}.f32"))).unwrap();
        let theirs = voxels.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let differing = image
            .volume
            .numbers()
            .data()
            .iter()
            .zip(theirs)
            .filter(|(a, b)| a.to_bits() != b.to_bits())
            .count();
        assert_eq!(differing, 0, "{}", file.display());
    }
}

#[test]
fn reads_as_nibabel_and_simpleitk() {
    let (Some(python), Some(data)) = (python(), data()) else { return };
    let files = [
        "hippocampus/images/hippocampus_001.nii.gz",
        "hippocampus/images/hippocampus_088.nii.gz",
        "mouse_skull/images/A_J.nii.gz",
        "lumbar_spine_mr/images/lumbar_04.nii.gz",
        "prostate_us_mr/us_images/case000000.nii.gz",
        "large/abdomen_ct.nii.gz",
        "nifti_orientation/PIL.nii.gz",
        "odd_files/nifti/anatomical.nii",
        "odd_files/nifti/reoriented_anat_moved.nii",
        "odd_files/nifti/low_res.nii.gz",
        "odd_files/nifti/minimal.nii.gz",
        "odd_files/nifti/t2.nii.gz",
        "odd_files/nifti/t2_seg-manual_labeled.nii.gz",
        "odd_files/other/mha.mha",
        "odd_files/other/breast1_image.nrrd",
        "odd_files/other/breast1_label.nrrd",
    ];
    compare(&python, &files.map(|file| data.join(file)));
}

/// Volumes of the set, in every format that we write, are read by others as we read them.
#[test]
fn others_read_what_is_written() {
    let (Some(python), Some(data)) = (python(), data()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (n, source) in [
        "nifti_orientation/PIL.nii.gz",
        "odd_files/nifti/anatomical.nii",
        "odd_files/other/mha.mha",
    ]
    .iter()
    .enumerate()
    {
        let source = read_raw(&data.join(source)).unwrap().raw;
        for extension in ["nii", "nii.gz", "mha", "nrrd", "mhd", "nhdr"] {
            let file = folder.path().join(format!("{n}.{extension}"));
            write_image(&file, &source).unwrap();
            let back = read_raw(&file).unwrap().raw;
            assert_eq!(back.to_f32().unwrap().data(), source.to_f32().unwrap().data());
            files.push(file);
        }
    }
    compare(&python, &files);
}
