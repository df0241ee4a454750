//! Files with spoilt bytes: every outcome is a value or a one-line error, never a panic, and never
//! memory that the file does not justify.

#[path = "support/dicom.rs"]
#[allow(dead_code, reason = "not every test makes every file")]
mod made;
mod support;

use made::{EXPLICIT, IMPLICIT, dose_grid, dose_grid_in};
use pbt_io::{
    Dataset, RawImage, ReadOptions, Scaling, VoxelType, list_series, read_image, read_image_with,
    read_labels, read_markups, read_points, read_raw, read_result, write_image,
};
use pbt_volume::Geometry;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::path::Path;
use support::data;

/// Files to spoil, for each format; `PBT_MUTATIONS` sets another number for a long run.
fn rounds(default: usize) -> usize {
    std::env::var("PBT_MUTATIONS")
        .ok()
        .map_or(default, |text| text.parse().expect("PBT_MUTATIONS is a number"))
}

/// Most memory that this process ever had, on Linux. The files here have a few kilobytes, so that
/// reading one may take 64 MiB; the test program itself takes 10.
fn check_memory() {
    const MOST_MIB: usize = 64;
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return };
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the system says it");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    println!("most memory so far: {} MiB", kib / 1024);
    assert!(kib / 1024 < MOST_MIB, "{kib} KiB");
}

fn below(random: &mut ChaCha8Rng, n: usize) -> usize {
    (random.next_u32() as usize) % n
}

/// Some bytes changed (bits, extremes, digits), sometimes the end cut off, a part doubled or the
/// start swapped to the other byte order.
fn spoil(file: &[u8], head: usize, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..1 + below(random, 4) {
        // Headers decide most; half of the changes fall there.
        let reach = if below(random, 2) == 0 { head.min(bytes.len()) } else { bytes.len() };
        let at = below(random, reach);
        bytes[at] = match below(random, 5) {
            0 => bytes[at] ^ (1 << below(random, 8)),
            1 => 0xff,
            2 => 0x7f,
            3 => b'0' + below(random, 10) as u8,
            _ => random.next_u32() as u8,
        };
    }
    match below(random, 8) {
        0 => bytes.truncate(1 + below(random, file.len() - 1)),
        1 => {
            let at = below(random, bytes.len());
            let copy = bytes[at..].to_vec();
            bytes.extend(copy);
        }
        _ => {}
    }
    bytes
}

fn check(error: &pbt_io::IoError) {
    let text = error.to_string();
    assert!(error.is_input() && !text.contains('\n') && text.matches(": ").count() >= 2, "{text}");
}

#[test]
fn spoilt_images_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let geometry = Geometry::isotropic([5, 4, 3], 1.5).unwrap();
    let bytes = (0..120).collect();
    let image = RawImage::new(
        geometry,
        VoxelType::I16,
        bytes,
        Some(Scaling { slope: 2.0, intercept: 1.0 }),
    )
    .unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut outcomes = [0usize; 2];
    for (name, head) in [
        ("a.nii", 352),
        ("a.nii.gz", 40),
        ("a.mha", 400),
        ("a.nrrd", 250),
        ("a.mhd", 400),
        ("a.nhdr", 250),
    ] {
        let path = folder.path().join(name);
        write_image(&path, &image).unwrap();
        let good = std::fs::read(&path).unwrap();
        for _ in 0..rounds(500) {
            std::fs::write(&path, spoil(&good, head, &mut random)).unwrap();
            match read_image(&path) {
                Ok(image) => {
                    outcomes[0] += 1;
                    // Nothing here can hold more than the file times the best ratio of deflate.
                    assert!(image.volume.geometry().len() < 1 << 20);
                }
                Err(error) => {
                    outcomes[1] += 1;
                    check(&error);
                }
            }
            if let Err(error) = read_labels(&path) {
                check(&error);
            }
        }
    }
    // Both kinds occur, so the test reaches behind the first check and the checks bite.
    assert!(outcomes[0] > 100 && outcomes[1] > 500, "{outcomes:?}");
    check_memory();
}

#[test]
fn spoilt_dicom_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    let mut random = ChaCha8Rng::seed_from_u64(4);
    for syntax in [EXPLICIT, IMPLICIT] {
        let good = dose_grid_in(syntax);
        std::fs::write(&path, &good).unwrap();
        assert_eq!(read_image(&path).unwrap().volume.shape(), [4, 3, 5]);
        let mut read = 0;
        for _ in 0..rounds(1000) {
            // The preamble means nothing.
            let mut bytes = good[..132].to_vec();
            bytes.extend(spoil(&good[132..], good.len() - 132 - 120, &mut random));
            std::fs::write(&path, bytes).unwrap();
            match read_image(&path) {
                Ok(image) => {
                    read += 1;
                    assert!(image.volume.geometry().len() < 1 << 12);
                }
                Err(error) => check(&error),
            }
            if let Err(error) = list_series(&path) {
                check(&error);
            }
        }
        assert!(read > rounds(1000) / 20, "{syntax}: {read} could be read");
    }
    check_memory();
}

/// The least that shifts a parser: of a number of three bytes `dicom-rs` reads two, and takes the
/// third and the head of the next element for an element of 1.3 GB.
#[test]
fn a_number_of_three_bytes_asks_for_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    let mut bytes = dose_grid();
    let at = bytes.windows(6).position(|b| b == [0x28, 0, 0x02, 0, b'U', b'S']).unwrap();
    bytes[at + 6] = 3;
    bytes.insert(at + 10, 0);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(
        read_image(&path).unwrap().volume.shape(),
        [4, 3, 5],
        "without the element an image has one value a pixel"
    );
    check_memory();
}

#[test]
fn spoilt_compressed_pixels_never_panic() {
    let Some(data) = data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    let mut random = ChaCha8Rng::seed_from_u64(5);
    // RLE, JPEG lossless, JPEG-LS, JPEG 2000: each one file that is a whole volume.
    for name in ["ts_4/dicom/4.dcm", "ts_5/dicom/5.dcm", "ts_8/dicom/8.dcm", "ts_9/dicom/9.dcm"] {
        let good = std::fs::read(data.join("dicom_conformance").join(name)).unwrap();
        let marker = [0xe0, 0x7f, 0x10, 0x00];
        let pixels = good.windows(4).position(|bytes| bytes == marker).unwrap();
        for _ in 0..rounds(60).min(20_000) {
            // The head of the compressed stream decides most.
            let mut bytes = good[..pixels].to_vec();
            bytes.extend(spoil(&good[pixels..], 400, &mut random));
            std::fs::write(&path, bytes).unwrap();
            if let Err(error) = read_image(&path) {
                check(&error);
            }
        }
    }
    check_memory();
}

#[test]
fn spoilt_archives_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in ["a.dcm", "notes.txt"] {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut writer, &dose_grid()).unwrap();
    }
    let good = writer.finish().unwrap().into_inner();
    std::fs::write(&path, &good).unwrap();
    for frame in [None, Some(0)] {
        let options = ReadOptions { frame, ..ReadOptions::default() };
        let refusal = read_image_with(&path, &options).unwrap_err().to_string();
        assert!(refusal.contains("same instance number"), "each plane is there twice: {refusal}");
    }
    let mut random = ChaCha8Rng::seed_from_u64(6);
    for _ in 0..rounds(1000) {
        std::fs::write(&path, spoil(&good, good.len(), &mut random)).unwrap();
        if let Err(error) = read_image(&path) {
            check(&error);
        }
    }
    check_memory();
}

#[test]
fn headers_of_every_size_and_byte_order_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nii");
    let mut random = ChaCha8Rng::seed_from_u64(2);
    for round in 0..rounds(500) {
        let mut bytes = vec![0u8; 600];
        random.fill_bytes(&mut bytes);
        let size: i32 = if round % 2 == 0 { 348 } else { 540 };
        bytes[..4].copy_from_slice(&if round % 4 < 2 {
            size.to_le_bytes()
        } else {
            size.to_be_bytes()
        });
        bytes[344..348].copy_from_slice(b"n+1\0");
        if size == 540 {
            bytes[4..12].copy_from_slice(b"n+2\0\r\n\x1a\n");
        }
        // A plausible rank and type, in whichever order, lets some headers get on to the affine and
        // the voxels.
        for at in [40, 41, 16, 23] {
            bytes[at] = [3, 0][round / 4 % 2];
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Err(error) = read_raw(&path) {
            check(&error);
        }
    }
}

#[test]
fn spoilt_json_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.nii", "");
    let set = r#"{"schema": "pbt-dataset/1", "name": "s", "modality": "CT", "structures": [{"name": "a", "kind": "box", "parent": "b"},
        {"name": "b", "kind": "landmark"}], "labels": {"1": "a"}, "cases": [{"id": "x", "image": "a.nii", "split": "train"}]}"#;
    let markups = r#"{"markups": [{"type": "ROI", "coordinateSystem": "RAS", "name": "a", "center": [1, 2, 3], "size": [4, 5, 6],
        "orientation": [1, 0, 0, 0, 1, 0, 0, 0, 1]}, {"type": "Fiducial", "controlPoints": [{"label": "b", "position": [1, 2, 3]}]}]}"#;
    let result = r#"{"schema": "pbt-result/1", "case_id": "x", "coordinate_system": "LPS", "detections": []}"#;
    type Read = fn(&Path) -> Option<pbt_io::IoError>;
    let nnunet = r#"{"channel_names": {"0": "CT"}, "labels": {"background": 0, "liver": 1}, "file_ending": ".nii"}"#;
    let points =
        "# CoordinateSystem = RAS\nlabel,x,y,z,status\na,1,2.5,-3e2,defined\nb,4,5,6,missing\n";
    // A BIDS folder: the files that are spoilt are its description and the table of names.
    let bids = folder.path().join("bids");
    std::fs::create_dir_all(bids.join("sub-1")).unwrap();
    for file in ["sub-1/sub-1_T1w.nii", "sub-1/sub-1_dseg.nii"] {
        std::fs::write(bids.join(file), "").unwrap();
    }
    let description = r#"{"Name": "s", "BIDSVersion": "1.10.0", "DatasetType": "raw"}"#;
    let names = "index\tname\tabbreviation\n0\tbackground\tBG\n1\tliver\tL\n300\tspleen\tS\n";
    let load_bids = |description: &[u8], names: &[u8]| {
        std::fs::write(bids.join("dataset_description.json"), description).unwrap();
        std::fs::write(bids.join("dseg.tsv"), names).unwrap();
        Dataset::load(&bids)
    };
    assert_eq!(load_bids(description.as_bytes(), names.as_bytes()).unwrap().cases.len(), 1);
    let readers: [(&str, Read); 5] = [
        (set, |p| Dataset::load(p).err()),
        (markups, |p| read_markups(p).err()),
        (result, |p| read_result(p).err()),
        (nnunet, |p| Dataset::load(p).err()),
        (points, |p| read_points(p).err()),
    ];
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let spoilt = |text: &str, random: &mut ChaCha8Rng| spoil(text.as_bytes(), text.len(), random);
    for _ in 0..rounds(500) {
        let read = [
            load_bids(&spoilt(description, &mut random), names.as_bytes()),
            load_bids(description.as_bytes(), &spoilt(names, &mut random)),
        ];
        read.iter().filter_map(|result| result.as_ref().err()).for_each(check);
    }
    let path = folder.path().join("spoilt.json");
    for (text, read) in readers {
        for _ in 0..rounds(500) {
            std::fs::write(&path, spoil(text.as_bytes(), text.len(), &mut random)).unwrap();
            if let Some(error) = read(&path) {
                check(&error);
            }
        }
    }
    check_memory();
}
