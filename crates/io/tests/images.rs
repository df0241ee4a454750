//! Real image files, usual and odd, against what mature readers make of them.

mod support;

use nalgebra::Matrix3;
use pbt_io::{Image, IoError, ReadOptions, read_image, read_labels, read_raw, read_raw_with};
use pbt_volume::{PointLps, VoxelIndex};
use std::path::{Path, PathBuf};
use support::data;

fn files(folder: PathBuf) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_orientation_is_the_same_volume_in_the_world() {
    let Some(data) = data() else { return };
    let reference = read_image(&data.join("nifti_orientation/RAS.nii.gz")).unwrap().volume;
    // RAS files step to the right, anterior and superior: in LPS the first two steps are negative.
    assert_eq!(reference.shape(), [64, 79, 67]);
    let signs = reference.geometry().matrix().map(f64::signum);
    assert_eq!([signs[(0, 0)], signs[(1, 1)], signs[(2, 2)]], [-1.0, -1.0, 1.0]);
    let files = files(data.join("nifti_orientation"));
    assert_eq!(files.len(), 36);
    for file in files {
        let Image { volume, warnings, .. } = read_image(&file).unwrap();
        assert!(warnings.is_empty(), "{}: {warnings:?}", file.display());
        // The step matrices differ by a signed permutation, so each voxel of one file has its twin
        // in the other.
        let relative: Matrix3<f64> =
            volume.geometry().matrix().try_inverse().unwrap() * reference.geometry().matrix();
        assert!(relative.iter().all(|v| (v - v.round()).abs() < 1e-5), "{}", file.display());
        let [nx, ny, nz] = reference.shape();
        for (i, j, k) in
            (0..nz).flat_map(|k| (0..ny).flat_map(move |j| (0..nx).map(move |i| (i, j, k))))
        {
            let world = reference.geometry().to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
            let index = volume.geometry().to_index(world).0;
            assert!(
                index.iter().all(|v| (v - v.round()).abs() < 1e-3),
                "{}: {index}",
                file.display()
            );
            let [a, b, c] = [0, 1, 2].map(|n| index[n].round() as usize);
            assert_eq!(
                volume.at(a, b, c),
                reference.at(i, j, k),
                "{} at {i}, {j}, {k}",
                file.display()
            );
        }
    }
}

/// The first two of `33x41x25 >i2 LAS qform 2 sform 2`: shape, without trailing dimensions of one,
/// and nothing else.
fn stated_shape(what: &str) -> Vec<usize> {
    what.split_whitespace().next().unwrap().split('x').map(|n| n.parse().unwrap()).collect()
}

/// `LAS` of the same text: towards where i, j and k step.
fn orientation(image: &Image) -> String {
    let matrix = image.volume.geometry().matrix();
    let letter = |a: usize| {
        let column = matrix.column(a);
        let axis = column.iamax();
        [["R", "L"], ["A", "P"], ["I", "S"]][axis][usize::from(column[axis] > 0.0)]
    };
    (0..3).map(letter).collect()
}

#[test]
fn odd_files_are_read_as_stated_or_refused_clearly() {
    let Some(data) = data() else { return };
    let table = std::fs::read_to_string(data.join("odd_files/files.csv")).unwrap();
    let mut counts = [0; 2];
    for line in
        table.lines().skip(1).filter(|line| line.starts_with("nifti") || line.starts_with("other"))
    {
        let fields: Vec<&str> = line.split(',').collect();
        let (file, outcome) = (fields[0], fields[3]);
        let what = line.split_once(",,,").unwrap().1.trim_matches('"');
        match (read_image(&data.join("odd_files").join(file)), outcome) {
            (Ok(image), "parsed") => {
                counts[0] += 1;
                let shape: Vec<usize> = stated_shape(what).into_iter().filter(|&n| n > 1).collect();
                assert_eq!(shape, image.volume.shape(), "{file}");
                if file.starts_with("nifti") {
                    assert!(
                        what.contains(&orientation(&image)),
                        "{file}: {what}, read as {}",
                        orientation(&image)
                    );
                }
            }
            (Ok(_), _) => panic!("{file} must be refused"),
            (Err(error), _) => {
                counts[1] += 1;
                println!("{error}");
                assert!(error.is_input() && !error.to_string().contains('\n'), "{error}");
                assert!(error.to_string().contains(file.rsplit('/').next().unwrap()), "{error}");
            }
        }
    }
    // Refused: 7 files made broken, 2 headers without their .img, 3 of several time points, 1
    // complex.
    assert_eq!(counts, [10, 13]);
}

#[test]
fn odd_dicom_files_hold_a_volume_or_are_refused_clearly() {
    let Some(data) = data() else { return };
    let mut volumes = Vec::new();
    for file in files(data.join("odd_files/dicom")) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        match read_image(&file) {
            Ok(image) => volumes.push((name, image.volume.shape())),
            Err(error) => {
                println!("{error}");
                let text = error.to_string();
                assert!(error.is_input() && !text.contains('\n') && text.contains(&name), "{text}");
            }
        }
    }
    // A dose grid is the only file of several planes that says where they lie; the compressed copy
    // says it by elements of unknown kind.
    let shape = [10, 10, 15];
    // Single slices are 2D images; all copies of one of them, in any encoding, are the same.
    let slices: Vec<(String, [usize; 3])> = volumes.extract_if(.., |(_, n)| n[2] == 1).collect();
    let copies: Vec<&String> =
        slices.iter().map(|(name, _)| name).filter(|name| name.starts_with("MR_small")).collect();
    // One copy is JPEG-LS, which takes a decoder in C++.
    let with_jpeg_ls = usize::from(cfg!(feature = "jpeg-ls"));
    assert_eq!((slices.len(), copies.len()), (9 + with_jpeg_ls, 5 + with_jpeg_ls));
    let pixels = |name: &str| {
        let image = read_image(&data.join("odd_files/dicom").join(name)).unwrap();
        assert!(image.warnings.iter().any(|w| w.contains("a single slice, read as a 2D image")));
        image.volume
    };
    assert!(copies.iter().all(|name| pixels(name) == pixels("MR_small_RLE.dcm")));
    assert_eq!(volumes, [("rtdose.dcm".to_owned(), shape), ("rtdose_rle.dcm".to_owned(), shape)]);
    let dose = |name: &str| read_raw(&data.join("odd_files/dicom").join(name)).unwrap().raw;
    let raw = dose("rtdose.dcm");
    assert_eq!(raw.to_f32().unwrap(), dose("rtdose_rle.dcm").to_f32().unwrap());
    let slope = raw.scaling().unwrap().slope;
    let stored: Vec<f64> = raw.to_f64().iter().map(|v| (v / slope).round()).collect();
    let range =
        stored.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &v| (low.min(v), high.max(v)));
    assert_eq!(range, (795_000.0, 1_254_000.0));
}

#[test]
fn time_points_are_chosen() {
    let Some(data) = data() else { return };
    let file = data.join("odd_files/nifti/functional.nii");
    let frame = |frame| read_raw_with(&file, &ReadOptions { frame, ..ReadOptions::default() });
    assert!(frame(None).unwrap_err().to_string().contains("--frame 0 to 19"));
    assert!(frame(Some(20)).unwrap_err().to_string().contains("no frame 20"));
    let bytes = std::fs::read(&file).unwrap();
    let size = 17 * 21 * 3 * 2;
    for n in [0, 7, 19] {
        let start = bytes.len() - (20 - n) * size;
        assert_eq!(frame(Some(n)).unwrap().raw.bytes(), &bytes[start..start + size]);
    }
}

fn refusal(path: &Path) -> IoError {
    read_image(path).expect_err("must be refused")
}

#[test]
fn refusals_name_the_field() {
    let Some(data) = data() else { return };
    let odd = data.join("odd_files");
    for (file, field) in [
        ("nifti_made/truncated_gzip.nii.gz", "voxel data"),
        ("nifti_made/truncated_voxels.nii", "voxel data"),
        ("nifti_made/dim0_is_9.nii", "dim[0]"),
        ("nifti_made/negative_dim.nii", "dim[1]"),
        ("nifti_made/unknown_datatype.nii", "datatype"),
        ("nifti_made/bad_magic.nii", "magic"),
        ("nifti_made/empty.nii", "file"),
        ("nifti/example4d.nii.gz", "dim[4]"),
        ("nifti/example_nifti2.nii.gz", "dim[4]"),
        ("nifti/functional.nii", "dim[4]"),
        ("nifti/complex.nii.gz", "datatype"),
        ("nifti/nifti1.hdr", "file"),
        ("nifti/analyze.hdr", "magic"),
    ] {
        assert_eq!(refusal(&odd.join(file)).field(), field, "{file}");
    }
    assert!(refusal(&odd.join("nifti/functional.nii")).to_string().contains("has 20 time points"));
}

#[test]
fn every_image_of_the_sets_is_read_without_a_warning() {
    let Some(data) = data() else { return };
    let folders = [
        "hippocampus/images",
        "lumbar_spine_mr/images",
        "lumbar_spine_mr_t2/images",
        "mouse_skull/images",
    ];
    for file in folders.iter().flat_map(|folder| files(data.join(folder))) {
        let image = read_image(&file).unwrap();
        assert!(image.warnings.is_empty(), "{}: {:?}", file.display(), image.warnings);
        assert!(
            {
                let numbers = image.volume.numbers();
                numbers.data().iter().any(|v| *v != numbers.data()[0])
            },
            "{}",
            file.display()
        );
    }
}

#[test]
fn label_maps_are_integers() {
    let Some(data) = data() else { return };
    let labels = read_labels(&data.join("hippocampus/labels/hippocampus_001.nii.gz")).unwrap();
    let mut counts = [0; 3];
    labels.data().iter().for_each(|&v| counts[v as usize] += 1);
    assert!(counts.iter().all(|&n| n > 500), "{counts:?}");
    // A float64 label map, as sct writes them.
    assert!(read_labels(&data.join("odd_files/nifti/t2_seg-manual_labeled.nii.gz")).is_ok());
    let error = read_labels(&data.join("large/abdomen_ct_small.nii.gz")).unwrap_err();
    assert!(error.to_string().contains("no label"), "{error}");
}

/// The header of a tiny little-endian NIfTI-1 file with `voxels` as its data; `edit` may spoil it.
fn nifti(voxels: &[u8], edit: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut file = vec![0; 352];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &348i32.to_le_bytes());
    [3i16, 2, 3, 4, 1, 1, 1, 1]
        .iter()
        .enumerate()
        .for_each(|(n, v)| put(40 + 2 * n, &v.to_le_bytes()));
    put(70, &2i16.to_le_bytes());
    put(72, &8i16.to_le_bytes());
    [1f32, 0.5, 2.0, 3.0].iter().enumerate().for_each(|(n, v)| put(76 + 4 * n, &v.to_le_bytes()));
    put(108, &352f32.to_le_bytes());
    put(344, b"n+1\0");
    edit(&mut file);
    file.extend(voxels);
    file
}

fn f32_at(at: usize, value: f32) -> impl Fn(&mut [u8]) {
    move |file| file[at..at + 4].copy_from_slice(&value.to_le_bytes())
}

fn i16_at(at: usize, value: i16) -> impl Fn(&mut [u8]) {
    move |file| file[at..at + 2].copy_from_slice(&value.to_le_bytes())
}

fn both(a: impl Fn(&mut [u8]), b: impl Fn(&mut [u8])) -> impl Fn(&mut [u8]) {
    move |file| {
        a(file);
        b(file);
    }
}

fn read_bytes(bytes: &[u8], name: &str) -> Result<Image, IoError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    read_image(&path)
}

const VOXELS: [u8; 24] = [7; 24];

#[test]
fn bad_headers_are_refused_by_field() {
    let huge =
        |file: &mut [u8]| [1, 2, 3].into_iter().for_each(|a| i16_at(40 + 2 * a, 10_000)(file));
    let sform = i16_at(254, 1);
    type Edit = Box<dyn Fn(&mut [u8])>;
    let cases: [(&str, Edit); 14] = [
        ("pixdim[1]", Box::new(f32_at(80, 0.0))),
        ("pixdim[2]", Box::new(f32_at(84, f32::NAN))),
        ("pixdim[3]", Box::new(f32_at(88, -1.0))),
        ("pixdim[0]", Box::new(both(i16_at(252, 1), f32_at(76, 2.0)))),
        ("quatern_b, quatern_c, quatern_d", Box::new(both(i16_at(252, 1), f32_at(256, 3.0)))),
        ("qform", Box::new(both(i16_at(252, 1), f32_at(268, f32::INFINITY)))),
        ("sform", Box::new(sform)),
        ("dim[2]", Box::new(i16_at(44, 0))),
        ("voxel data", Box::new(huge)),
        ("vox_offset", Box::new(f32_at(108, 17.0))),
        ("vox_offset", Box::new(f32_at(108, f32::NAN))),
        ("scl_inter", Box::new(both(f32_at(112, 2.0), f32_at(116, f32::NAN)))),
        ("datatype", Box::new(i16_at(70, 128))),
        ("sizeof_hdr", Box::new(i16_at(0, 5))),
    ];
    for (field, edit) in cases {
        let error = read_bytes(&nifti(&VOXELS, edit), "case.nii").unwrap_err();
        assert_eq!(error.field(), field, "{error}");
    }
    assert_eq!(read_bytes(&nifti(&[], |_| ())[..200], "case.nii").unwrap_err().field(), "header");
    let error = read_bytes(&nifti(&VOXELS, f32_at(88, -0.7)), "case.nii").unwrap_err().to_string();
    assert!(error.contains("pixdim[3]: the spacing is -0.7, below zero"), "{error}");
}

#[test]
fn the_known_traps_of_nifti() {
    // No transform at all: the middle of the volume at the origin, x mirrored in RAS, so x and y
    // are both LPS-negative or mirrored.
    let image = read_bytes(&nifti(&VOXELS, |_| ()), "case.nii").unwrap();
    assert_eq!(image.warnings.len(), 1);
    assert!(image.volume.geometry().center().distance_mm(&PointLps::new(0.0, 0.0, 0.0)) < 1e-12);
    assert_eq!(*image.volume.geometry().matrix(), Matrix3::from_diagonal(&[0.5, -2.0, 3.0].into()));
    // A slope that is 0 or NaN means "no scaling".
    for slope in [0.0, f32::NAN] {
        let image =
            read_bytes(&nifti(&VOXELS, both(f32_at(112, slope), f32_at(116, 5.0))), "case.nii")
                .unwrap();
        assert!(image.volume.numbers().data().iter().all(|&v| v == 7.0));
    }
    let image =
        read_bytes(&nifti(&VOXELS, both(f32_at(112, 0.5), f32_at(116, 5.0))), "case.nii").unwrap();
    assert!(image.volume.numbers().data().iter().all(|&v| v == 8.5));
    // qfac 0 is 1; a qform of a half turn about x in µm.
    let qform = both(both(i16_at(252, 1), f32_at(256, 1.0)), |file: &mut [u8]| file[123] = 3);
    let image = read_bytes(&nifti(&VOXELS, both(qform, f32_at(76, 0.0))), "case.nii").unwrap();
    let expected = Matrix3::from_diagonal(&[-0.5e-3, 2.0e-3, -3.0e-3].into());
    assert!((image.volume.geometry().matrix() - expected).abs().max() < 1e-12);
    // A fourth dimension of one is none; of two it is refused.
    assert!(read_bytes(&nifti(&VOXELS, i16_at(40, 4)), "case.nii").is_ok());
    let error =
        read_bytes(&nifti(&VOXELS, both(i16_at(40, 4), i16_at(48, 2))), "case.nii").unwrap_err();
    assert!(error.to_string().contains("has 2 time points"), "{error}");
}

#[test]
fn nifti_2_in_both_byte_orders() {
    for big_endian in [false, true] {
        let mut file = vec![0u8; 544];
        let mut put = |at: usize, mut bytes: Vec<u8>| {
            if big_endian {
                bytes.reverse();
            }
            file[at..at + bytes.len()].copy_from_slice(&bytes);
        };
        put(0, 540i32.to_le_bytes().into());
        put(12, 4i16.to_le_bytes().into());
        [3i64, 2, 3, 4]
            .iter()
            .enumerate()
            .for_each(|(n, v)| put(16 + 8 * n, v.to_le_bytes().into()));
        [1f64, 0.5, 2.0, 3.0]
            .iter()
            .enumerate()
            .for_each(|(n, v)| put(104 + 8 * n, v.to_le_bytes().into()));
        put(168, 544i64.to_le_bytes().into());
        put(176, 2f64.to_le_bytes().into());
        put(184, 1f64.to_le_bytes().into());
        put(348, 1i32.to_le_bytes().into());
        let rows = [[0f64, 2.0, 0.0, 10.0], [-0.5, 0.0, 0.0, 20.0], [0.0, 0.0, 3.0, 30.0]];
        rows.as_flattened()
            .iter()
            .enumerate()
            .for_each(|(n, v)| put(400 + 8 * n, v.to_le_bytes().into()));
        put(500, 2i32.to_le_bytes().into());
        file[4..12].copy_from_slice(b"n+2\0\r\n\x1a\n");
        file.extend(if big_endian { [1u8, 2] } else { [2, 1] }.repeat(24));
        let image = read_bytes(&file, "case.nii").unwrap();
        assert!(image.warnings.is_empty());
        assert!(image.volume.numbers().data().iter().all(|&v| v == 2.0 * 258.0 + 1.0));
        assert_eq!(
            *image.volume.geometry().matrix(),
            Matrix3::new(0.0, -2.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 3.0)
        );
        assert_eq!(image.volume.geometry().origin(), PointLps::new(-10.0, -20.0, 30.0));
        // Line ends changed by a text transfer show in the magic.
        file[8] = b'\n';
        assert_eq!(read_bytes(&file, "case.nii").unwrap_err().field(), "magic");
    }
}

#[test]
fn voxels_that_are_not_numbers_are_counted() {
    let float = both(i16_at(70, 16), i16_at(72, 32));
    let mut voxels = [0; 96];
    voxels[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    voxels[4..8].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let image = read_bytes(&nifti(&voxels, float), "case.nii").unwrap();
    assert!(
        image.warnings.iter().any(|w| w.contains("2 of 24 voxels are NaN")),
        "{:?}",
        image.warnings
    );
}

#[test]
fn pairs_are_found_from_either_name() {
    let folder = tempfile::tempdir().unwrap();
    let pair = |file: &mut [u8]| {
        file[344..348].copy_from_slice(b"ni1\0");
        f32_at(108, 0.0)(file);
    };
    let (header, image) = (folder.path().join("case.hdr"), folder.path().join("case.img"));
    std::fs::write(&header, nifti(&[], pair)).unwrap();
    assert!(refusal(&header).to_string().contains("case.img is missing"));
    std::fs::write(&image, VOXELS).unwrap();
    let a = read_image(&header).unwrap();
    let b = read_image(&image).unwrap();
    assert_eq!(a.volume, b.volume);
    assert_eq!(a.sha256, b.sha256);
    assert!(a.volume.numbers().data().iter().all(|&v| v == 7.0));
    // The same header in a single file has no place for voxels.
    assert_eq!(read_bytes(&nifti(&VOXELS, pair), "case.nii").unwrap_err().field(), "magic");
}

#[test]
fn disagreeing_forms_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nii");
    let geometry = pbt_volume::Geometry::isotropic([3, 4, 5], 2.0).unwrap();
    let image = pbt_io::RawImage::new(geometry, pbt_io::VoxelType::U8, vec![1; 60], None).unwrap();
    pbt_io::write_image(&path, &image).unwrap();
    assert!(read_image(&path).unwrap().warnings.is_empty());
    let mut bytes = std::fs::read(&path).unwrap();
    // qoffset_x 3 mm farther.
    let x = f32::from_le_bytes(bytes[268..272].try_into().unwrap());
    bytes[268..272].copy_from_slice(&(x + 3.0).to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let read = read_image(&path).unwrap();
    assert!(
        read.warnings.len() == 1 && read.warnings[0].contains("up to 3.000"),
        "{:?}",
        read.warnings
    );
    assert_eq!(read.volume.geometry(), image.geometry());
}

#[test]
fn metaimage_and_nrrd_by_hand() {
    let mha = |edit: &dyn Fn(&str) -> String| {
        let header = "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = True\nTransformMatrix = 0 1 0 -1 0 0 0 0 1\nOffset = 10 20 30\nElementSpacing = 0.5 2 3\nDimSize = 2 3 4\nElementType = MET_SHORT\nElementDataFile = LOCAL\n";
        let mut file = edit(header).into_bytes();
        file.extend([[1u8, 2]; 24].concat());
        read_bytes(&file, "case.mha")
    };
    let image = mha(&|h| h.into()).unwrap();
    // The first listed direction, (0, 1, 0), is that of axis i.
    assert_eq!(image.volume.geometry().matrix().column(0).as_slice(), [0.0, 0.5, 0.0]);
    assert_eq!(image.volume.geometry().origin(), PointLps::new(10.0, 20.0, 30.0));
    assert!(image.volume.numbers().data().iter().all(|&v| v == 258.0));
    // 0 is no place of voxels behind a header.
    let image = mha(&|h| h.replace("NDims", "HeaderSize = 0\nNDims")).unwrap();
    assert!(image.volume.numbers().data().iter().all(|&v| v == 258.0));
    for (from, to, field) in [
        ("NDims = 3", "NDims = 5", "NDims"),
        ("0.5 2 3", "0.5 0 3", "ElementSpacing"),
        ("2 3 4", "2 3 4000000", "voxel data"),
        ("MET_SHORT", "MET_STRING", "ElementType"),
        ("LOCAL", "../x.raw", "ElementDataFile"),
        ("LOCAL", "/etc/hostname", "ElementDataFile"),
        ("LOCAL", "gone.raw", "ElementDataFile"),
        ("0 1 0 -1", "1 0 0 1", "TransformMatrix"),
        ("NDims", "DimSize = 2 2 2\nNDims", "DimSize"),
        ("NDims", "HeaderSize = 20\nNDims", "HeaderSize"),
    ] {
        assert_eq!(mha(&|h| h.replace(from, to)).unwrap_err().field(), field, "{to}");
    }

    let nrrd = |edit: &dyn Fn(&str) -> String| {
        let header = "NRRD0005\n# a comment\ntype: short\ndimension: 4\nspace: right-anterior-superior\nsizes: 1 2 3 4\nspace directions: none (0.5,0,0) (0,2,0) (0, 0, 3)\nendian: big\nencoding: raw\nspace origin: (10,20,30)\nwho:=me\n\n";
        let mut file = edit(header).into_bytes();
        file.extend([[1u8, 2]; 24].concat());
        read_bytes(&file, "case.nrrd")
    };
    let image = nrrd(&|h| h.into()).unwrap();
    assert_eq!(
        *image.volume.geometry().matrix(),
        Matrix3::from_diagonal(&[-0.5, -2.0, 3.0].into())
    );
    assert_eq!(image.volume.geometry().origin(), PointLps::new(-10.0, -20.0, 30.0));
    assert!(image.volume.numbers().data().iter().all(|&v| v == 258.0));
    for (from, to, field) in [
        ("sizes: 1", "sizes: 2", "sizes"),
        ("short", "block", "type"),
        ("right-anterior-superior", "scanner-xyz", "space"),
        ("raw", "bzip2", "encoding"),
        ("endian: big\n", "", "endian"),
        ("(0.5,0,0)", "(0,0,0)", "space directions"),
        ("(0.5,0,0)", "(0.5,0", "space directions"),
        ("2 3 4\n", "2 3 400000\n", "voxel data"),
        ("who:=me", "data file: ../x.raw", "data file"),
        ("who:=me", "data file: LIST", "data file"),
    ] {
        assert_eq!(nrrd(&|h| h.replace(from, to)).unwrap_err().field(), field, "{to}");
    }
}

#[test]
fn detached_data_lies_in_the_same_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("voxels.raw"), [5; 30]).unwrap();
    let header = folder.path().join("case.nhdr");
    let text = "NRRD0004\ntype: uchar\ndimension: 3\nspace: LPS\nsizes: 2 3 4\nspace directions: (1,0,0) (0,1,0) (0,0,1)\nencoding: raw\nbyte skip: -1\ndata file: voxels.raw";
    std::fs::write(&header, text).unwrap();
    assert!(read_raw(&header).unwrap().raw.bytes().iter().all(|&v| v == 5));
    let header = folder.path().join("case.mhd");
    let text = "NDims = 3\nDimSize = 2 3 4\nElementSpacing = 1 1 1\nElementType = MET_UCHAR\nHeaderSize = 6\nElementDataFile = voxels.raw";
    std::fs::write(&header, text).unwrap();
    assert_eq!(read_raw(&header).unwrap().raw.bytes(), [5; 24]);
}
