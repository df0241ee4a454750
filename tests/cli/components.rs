//! `pbt components`

use crate::support::{Outcome, pbt, scratch};
use nalgebra::Matrix3;
use pbt_io::{RawImage, VoxelType, read_raw, write_image};
use pbt_volume::{Geometry, PointLps};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Two planes of 6 x 3 voxels, whose spacings, mm, are 0.5, 2 and 1.5, oblique.
fn grid() -> Geometry {
    let matrix = Matrix3::new(0.3, -1.6, 0.0, 0.4, 1.2, 0.0, 0.0, 0.0, 1.5);
    Geometry::new([6, 3, 2], matrix, PointLps::new(-8.0, 4.0, 100.0)).unwrap()
}

/// There are four components by faces, three by edges and two by corners.
#[rustfmt::skip]
const MASK: [u8; 36] = [
    1, 1, 0, 0, 0, 2,
    0, 0, 1, 0, 0, 2,
    0, 0, 0, 0, 0, 0,

    0, 0, 0, 0, 0, 3,
    0, 0, 0, 0, 0, 0,
    0, 3, 0, 0, 0, 0,
];

/// A folder with files of one grid.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(scratch());
        files.write("mask.nrrd", &MASK);
        files
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, voxels: &[u8]) {
        self.write_image(name, &grid(), VoxelType::U8, voxels.to_vec());
    }

    fn write_image(&self, name: &str, grid: &Geometry, voxel_type: VoxelType, bytes: Vec<u8>) {
        let image = RawImage::new(grid.clone(), voxel_type, bytes, None).unwrap();
        write_image(&self.at(name), &image).unwrap();
    }

    /// `pbt components` with names of files in the folder.
    fn run(&self, arguments: &[&str]) -> Outcome {
        let is_file = |argument: &str| {
            Path::new(argument).extension().is_some() && argument.parse::<f64>().is_err()
        };
        let path = |&argument: &&str| {
            if is_file(argument) { self.at(argument).into_os_string() } else { argument.into() }
        };
        pbt(std::iter::once("components".into()).chain(arguments.iter().map(path)))
    }

    fn voxels(&self, name: &str) -> Vec<f64> {
        let raw = read_raw(&self.at(name)).unwrap().raw;
        raw.to_f64()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn numbers(voxels: &[u8]) -> Vec<f64> {
    voxels.iter().copied().map(f64::from).collect()
}

#[test]
fn components_are_numbered_on_the_grid_of_the_input() {
    let files = Files::new();
    for (connectivity, count) in [("6", 4), ("18", 3), ("26", 2)] {
        let outcome =
            files.run(&["mask.nrrd", "out.nrrd", "--connectivity", connectivity]).exits_with(0);
        assert_eq!(outcome.stderr, format!("{count} components\n"));
        assert_eq!(outcome.stdout, "");
        let raw = read_raw(&files.at("out.nrrd")).unwrap().raw;
        assert_eq!((raw.geometry(), raw.voxel_type()), (&grid(), VoxelType::U8));
    }
    #[rustfmt::skip]
    let by_corners = [
        1, 1, 0, 0, 0, 2,
        0, 0, 1, 0, 0, 2,
        0, 0, 0, 0, 0, 0,

        0, 0, 0, 0, 0, 2,
        0, 0, 0, 0, 0, 0,
        0, 1, 0, 0, 0, 0,
    ];
    // 26 is the default; nothing is printed where nobody wants it.
    let quiet = files.run(&["mask.nrrd", "again.nii.gz", "-q"]).exits_with(0);
    assert_eq!(quiet.stderr, "");
    assert_eq!(files.voxels("out.nrrd"), files.voxels("again.nii.gz"));
    assert_eq!(files.voxels("out.nrrd"), numbers(&by_corners));
}

#[test]
fn labels_and_steps_part_what_touches() {
    let files = Files::new();
    let outcome = files.run(&["mask.nrrd", "labels.nrrd", "--labels"]).exits_with(0);
    assert_eq!(outcome.stderr, "4 components\n");
    let labels = files.voxels("labels.nrrd");
    assert_eq!((labels[5], labels[11], labels[23], labels[31]), (2.0, 2.0, 3.0, 4.0));

    let mut intensity = vec![10u8; 36];
    (intensity[1], intensity[8]) = (14, 17);
    files.write("ct.nrrd", &intensity);
    for (step, count) in [("4", 3), ("3.5", 4), ("2", 5), ("0", 5)] {
        let step = ["mask.nrrd", "steps.nrrd", "--intensity", "ct.nrrd", "--step", step];
        let found = files.run(&step).exits_with(0).stderr;
        assert_eq!(found, format!("{count} components\n"), "{step:?}");
    }
}

#[test]
fn the_table_has_a_row_a_component() {
    let files = Files::new();
    let intensity: Vec<u8> = (0..36).collect();
    files.write("ct.nrrd", &intensity);
    let rows = |arguments: &[&str]| {
        files
            .run(&[&["mask.nrrd", "out.nrrd", "--table", "t.csv"], arguments].concat())
            .exits_with(0);
        let text = std::fs::read_to_string(files.at("t.csv")).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let header = "label,value,voxels,volume_mm3,i_min,i_max,j_min,j_max,k_min,k_max,\
x_lps_mm,y_lps_mm,z_lps_mm,intensity_sum,intensity_mean";
    let of_labels = rows(&["--labels", "--intensity", "ct.nrrd", "--step", "100"]);
    assert_eq!((of_labels.len(), of_labels[0].as_str()), (5, header));
    let cells: Vec<&str> = of_labels[2].split(',').collect();
    assert_eq!(cells[..3], ["2", "2", "2"]);
    assert_eq!(cells[4..10], ["5", "5", "0", "1", "0", "0"]);
    // Two voxels of 1.5 mm³ with the centroid (5, 1/2, 0).
    let number = |n: usize| cells[n].parse::<f64>().unwrap();
    for (n, expected) in [(3, 3.0), (10, -8.0 + 1.5 - 0.8), (11, 4.0 + 2.0 + 0.6), (12, 100.0)] {
        assert!((number(n) - expected).abs() < 1e-9, "{cells:?}");
    }
    assert_eq!(cells[13..], ["16", "8"]);
    // What was not asked for is empty.
    let plain = rows(&[]);
    let cells: Vec<&str> = plain[1].split(',').collect();
    assert_eq!((plain.len(), cells[1], &cells[13..]), (3, "", &["", ""][..]));
}

#[test]
fn the_largest_are_kept_and_numbered_anew() {
    let files = Files::new();
    let kept = |arguments: &[&str]| {
        let all = [&["mask.nrrd", "out.nrrd", "--connectivity", "6"], arguments].concat();
        let said = files.run(&all).exits_with(0).stderr;
        (said, files.voxels("out.nrrd"))
    };
    let (said, voxels) = kept(&["--largest", "1"]);
    assert_eq!(said, "1 of 4 components kept\n");
    // Three voxels at the right, two of them in the first plane.
    assert_eq!((voxels[0], voxels[5], voxels[23]), (0.0, 1.0, 1.0));
    assert_eq!(voxels.iter().sum::<f64>(), 3.0);
    // A voxel has 1.5 mm³.
    let (said, voxels) = kept(&["--min-mm3", "2.9"]);
    assert_eq!(said, "2 of 4 components kept\n");
    assert_eq!((voxels[0], voxels[8], voxels[5]), (1.0, 0.0, 2.0));
    let (said, voxels) = kept(&["--min-mm3", "1000"]);
    assert!(said.starts_with("warning: ") && said.contains("no component of 4"), "{said}");
    assert_eq!(voxels, [0.0; 36]);
}

#[test]
fn empty_full_and_thin_grids_are_masks_too() {
    let files = Files::new();
    files.write("empty.nrrd", &[0; 36]);
    let outcome =
        files.run(&["empty.nrrd", "out.nrrd", "--table", "t.csv", "--largest", "3"]).exits_with(0);
    assert!(
        outcome.stderr.contains("empty.nrrd: voxel data: all voxels are 0"),
        "{}",
        outcome.stderr
    );
    assert_eq!(files.voxels("out.nrrd"), [0.0; 36]);
    assert_eq!(std::fs::read_to_string(files.at("t.csv")).unwrap().lines().count(), 1);

    files.write("full.nrrd", &[7; 36]);
    let outcome = files.run(&["full.nrrd", "out.nrrd"]).exits_with(0);
    assert_eq!(
        (outcome.stderr.as_str(), files.voxels("out.nrrd")),
        ("1 component\n", vec![1.0; 36])
    );

    let line = Geometry::isotropic([1, 300, 1], 1.0).unwrap();
    let every_second = (0..300).map(|n| u8::from(n % 2 == 0)).collect();
    files.write_image("line.nrrd", &line, VoxelType::U8, every_second);
    assert_eq!(files.run(&["line.nrrd", "out.nrrd"]).exits_with(0).stderr, "150 components\n");
}

/// More components than 16 bits number, and the output as an input again.
#[test]
fn seventy_thousand_components_have_seventy_thousand_numbers() {
    let files = Files::new();
    let grid = Geometry::isotropic([280, 250, 4], 1.0).unwrap();
    let mask =
        (0..280 * 250 * 4).map(|n| u8::from(n / 280 % 2 == 0 && n % 2 == 0 && n / 70_000 % 2 == 0));
    files.write_image("dust.nrrd", &grid, VoxelType::U8, mask.collect());
    files.run(&["dust.nrrd", "dots.nrrd"]).exits_with(0);
    assert_eq!(read_raw(&files.at("dots.nrrd")).unwrap().raw.voxel_type(), VoxelType::U16);

    let labels = (1..=280_000u32).flat_map(u32::to_le_bytes).collect();
    files.write_image("many.nrrd", &grid, VoxelType::U32, labels);
    let outcome =
        files.run(&["many.nrrd", "out.nrrd", "--labels", "--table", "t.csv"]).exits_with(0);
    assert_eq!(outcome.stderr, "280000 components\n");
    let out = read_raw(&files.at("out.nrrd")).unwrap().raw;
    assert_eq!(out, read_raw(&files.at("many.nrrd")).unwrap().raw);
    assert_eq!(std::fs::read_to_string(files.at("t.csv")).unwrap().lines().count(), 280_001);
    files.run(&["out.nrrd", "again.nrrd", "--labels"]).exits_with(0);
    assert_eq!(read_raw(&files.at("again.nrrd")).unwrap().raw, out);
}

#[test]
fn what_is_no_label_map_is_named() {
    let files = Files::new();
    let values = |change: f32| {
        let mut values = [1f32; 36];
        values[20] = change;
        values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()
    };
    for (value, shown) in [(0.5, "0.5"), (-1.0, "-1"), (f32::NAN, "NaN"), (5e9, "5000000000")] {
        files.write_image("odd.nrrd", &grid(), VoxelType::F32, values(value));
        let outcome = files.run(&["odd.nrrd", "out.nrrd"]).exits_with(4);
        let expected =
            format!("odd.nrrd: voxel data: a voxel has the value {shown}, which is no label");
        assert!(outcome.error_line().contains(&expected), "{}", outcome.stderr);
    }
    // Whole numbers may be stored as any type.
    files.write_image("fine.nrrd", &grid(), VoxelType::F32, values(3.0));
    files.run(&["fine.nrrd", "fine-out.nrrd"]).exits_with(0);

    let whole = std::fs::read(files.at("mask.nrrd")).unwrap();
    std::fs::write(files.at("cut.nrrd"), &whole[..whole.len() - 8]).unwrap();
    let outcome = files.run(&["cut.nrrd", "out.nrrd"]).exits_with(4);
    assert!(outcome.error_line().contains("cut.nrrd: "), "{}", outcome.stderr);
    let outcome = files.run(&["none.nrrd", "out.nrrd"]).exits_with(4);
    assert!(outcome.error_line().contains("none.nrrd: file: "), "{}", outcome.stderr);
    assert!(!files.at("out.nrrd").exists());
}

#[test]
fn intensities_on_another_grid_are_refused() {
    let files = Files::new();
    let shifted = Geometry::new(grid().shape(), *grid().matrix(), PointLps::new(-7.0, 4.0, 100.0));
    files.write_image("ct.nrrd", &shifted.unwrap(), VoxelType::U8, vec![0; 36]);
    let step = ["mask.nrrd", "out.nrrd", "--intensity", "ct.nrrd", "--step", "1"];
    let outcome = files.run(&step).exits_with(4);
    let line = outcome.error_line();
    assert!(
        line.contains("ct.nrrd: grid: 6 x 3 x 2 voxels of 0.500 x 2.000 x 1.500 mm from (-7.0"),
        "{line}"
    );
    assert!(
        line.contains("mask.nrrd has 6 x 3 x 2 voxels") && line.contains("from (-8.0"),
        "{line}"
    );
    assert!(!files.at("out.nrrd").exists());
}

#[test]
fn arguments_that_make_no_sense_are_refused_before_anything_is_written() {
    let files = Files::new();
    files.write("ct.nrrd", &MASK);
    let before = files.names();
    for (arguments, expected) in [
        (&["mask.nrrd", "mask.nrrd"] as &[&str], "mask.nrrd: OUT: is the input itself"),
        (&["mask.nrrd", "t.nrrd", "--table", "t.nrrd"], "t.nrrd: --table: is OUT, too"),
        (&["mask.nrrd", "out.nrrd", "--table", "mask.nrrd"], "mask.nrrd: --table: is the input"),
        (
            &["mask.nrrd", "ct.nrrd", "--intensity", "ct.nrrd", "--step", "1"],
            "ct.nrrd: OUT: is the image of --intensity",
        ),
        (&["mask.nrrd", "out.nrrd", "--step", "1"], "--intensity"),
        (&["mask.nrrd", "out.nrrd", "--intensity", "ct.nrrd"], "--step"),
        (&["mask.nrrd", "out.nrrd", "--intensity", "ct.nrrd", "--step=-1"], "a number from 0 on"),
        (&["mask.nrrd", "out.nrrd", "--min-mm3", "nan"], "a number from 0 on"),
        (&["mask.nrrd", "out.nrrd", "--largest", "0"], "--largest"),
        (&["mask.nrrd", "out.nrrd", "--connectivity", "8"], "possible values: 6, 18, 26"),
        (&["mask.nrrd", "out.xyz"], "out.xyz: OUT: has no extension of a format"),
    ] {
        let outcome = files.run(arguments).exits_with(2);
        assert!(outcome.error_line().contains(expected), "{arguments:?}: {}", outcome.stderr);
    }
    for (arguments, expected) in [
        (&["mask.nrrd", "no/such/out.nrrd"] as &[&str], "out.nrrd: file: cannot be written"),
        (&["mask.nrrd", "out.nrrd", "--table", "no/such/t.csv"], "t.csv: file: cannot be written"),
    ] {
        let outcome = files.run(arguments).exits_with(1);
        assert!(outcome.error_line().contains(expected), "{arguments:?}: {}", outcome.stderr);
    }
    assert_eq!(files.names(), before);
    assert_eq!(files.voxels("mask.nrrd"), numbers(&MASK));
}

#[test]
fn more_voxels_than_can_be_numbered_or_held_are_refused() {
    let files = Files::new();
    // A header of 2048 x 1024 x 1024 voxels, and a file with a hole for them.
    let mut header = Vec::new();
    header.extend_from_slice(
        b"NRRD0004\ntype: uint8\ndimension: 3\nspace: left-posterior-superior\n",
    );
    header.extend_from_slice(b"sizes: 2048 1024 1024\nencoding: raw\n");
    header
        .extend_from_slice(b"space directions: (1,0,0) (0,1,0) (0,0,1)\nspace origin: (0,0,0)\n\n");
    let large = std::fs::File::create(files.at("large.nrrd")).unwrap();
    std::io::Write::write_all(&mut &large, &header).unwrap();
    large.set_len(header.len() as u64 + (1 << 31)).unwrap();
    let outcome = files.run(&["large.nrrd", "out.nrrd"]).exits_with(4);
    let expected = "large.nrrd: shape: 2048 x 1024 x 1024 are 2^31 voxels or more (crop";
    assert!(outcome.error_line().contains(expected), "{}", outcome.stderr);

    let cube = Geometry::isotropic([160; 3], 1.0).unwrap();
    files.write_image("cube.nrrd", &cube, VoxelType::U8, vec![1; 160 * 160 * 160]);
    let outcome = files.run(&["cube.nrrd", "out.nrrd", "--memory", "10M"]).exits_with(4);
    let line = outcome.error_line();
    assert!(line.contains("cube.nrrd: memory: needs about") && line.contains("--memory"), "{line}");
}

#[test]
fn threads_change_no_byte() {
    let files = Files::new();
    let grid = Geometry::isotropic([90, 80, 70], 1.0).unwrap();
    let voxel = |n: u32| u8::from(n.wrapping_mul(2_654_435_761) >> 24 < 60);
    files.write_image("noise.nrrd", &grid, VoxelType::U8, (0..90 * 80 * 70).map(voxel).collect());
    let with = |threads: &str| {
        let fixed = ["noise.nrrd", "out.nii", "--table", "t.csv", "--connectivity", "18"];
        files.run(&[&fixed[..], &["--threads", threads]].concat()).exits_with(0);
        ["out.nii", "t.csv"].map(|name| std::fs::read(files.at(name)).unwrap())
    };
    let one = with("1");
    for threads in ["2", "7"] {
        assert!(with(threads) == one, "{threads} threads");
    }
}
