//! Several volumes in one MetaImage or NRRD file: one is chosen, whole and in its place.

mod support;

use pbt_io::{IoError, Loaded, ReadOptions, read_image_with, read_raw_with};
use pbt_volume::{PointLps, VoxelIndex};
use std::path::Path;
use std::process::Command;
use support::python;

const SHAPE: [usize; 3] = [3, 2, 2];
const FRAMES: usize = 4;
const FRAME_BYTES: usize = 24;

/// 16-bit voxels, big-endian, of four volumes one after the other.
fn voxels() -> Vec<u8> {
    (0..(FRAMES * FRAME_BYTES / 2) as i16).flat_map(|n| (n * 7 - 100).to_be_bytes()).collect()
}

fn read(path: &Path, frame: Option<usize>) -> Result<Loaded, IoError> {
    read_raw_with(path, &ReadOptions { frame, ..ReadOptions::default() })
}

/// Checks that a file holds the four volumes, its first axis towards posterior, its second towards
/// the right.
fn check(path: &Path) {
    for frame in 0..FRAMES {
        let raw = read(path, Some(frame)).unwrap().raw;
        assert_eq!(raw.geometry().shape(), SHAPE);
        let here = raw.geometry().to_lps(VoxelIndex::new(1.0, 1.0, 1.0));
        assert!(
            here.distance_mm(&PointLps::new(-12.0, 21.0, 33.0)) < 1e-12,
            "{}: {here:?}",
            path.display()
        );
        let expected: Vec<f64> =
            (0..12).map(|n| f64::from((frame * 12 + n) as i16 * 7 - 100)).collect();
        assert_eq!(raw.to_f64(), expected, "{}: frame {frame}", path.display());
    }
    let channels = |names: &[&str]| {
        let channels = names.iter().map(|name| (*name).to_owned()).collect();
        read_image_with(path, &ReadOptions { channels, ..ReadOptions::default() })
    };
    let all = channels(&["a", "b", "c", "d"]).unwrap();
    for (frame, channel) in all.channels().iter().enumerate() {
        let alone = read(path, Some(frame)).unwrap().raw.to_f32().unwrap();
        assert_eq!(channel.numbers(), alone, "{}: channel {frame}", path.display());
    }
    let text = channels(&["a", "b", "c", "d", "e"]).unwrap_err().to_string();
    assert!(text.contains("channel `e`: is missing: the file has 4 channels"), "{text}");
    let text = channels(&["a", "b"]).unwrap_err().to_string();
    assert!(text.contains("channels: has 4 channels; 2, `a`, `b`, are needed"), "{text}");
    let text = read(path, None).map(drop).unwrap_err().to_string();
    assert!(text.contains("has 4 time points") && text.contains("--frame 0 to 3"), "{text}");
    let text = read(path, Some(FRAMES)).map(drop).unwrap_err().to_string();
    assert!(text.contains("no frame 4"), "{text}");
}

fn deflated(zlib: bool) -> Vec<u8> {
    use std::io::Write;
    let level = flate2::Compression::fast();
    if zlib {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
        encoder.write_all(&voxels()).unwrap();
        return encoder.finish().unwrap();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(&voxels()).unwrap();
    encoder.finish().unwrap()
}

const MHA: &str = "ObjectType = Image\nNDims = 4\nBinaryData = True\nBinaryDataByteOrderMSB = True\nCompressedData = False\n\
    TransformMatrix = 0 1 0 0 -1 0 0 0 0 0 1 0 0 0 0 1\nOffset = -10 20 30 7\nElementSpacing = 1 2 3 0.5\nDimSize = 3 2 2 4\n\
    ElementType = MET_SHORT\nElementDataFile = LOCAL\n";

const NRRD: &str = "NRRD0004\ntype: short\ndimension: 4\nspace: left-posterior-superior\nsizes: 3 2 2 4\n\
    space directions: (0,1,0) (-2,0,0) (0,0,3) none\nkinds: domain domain domain list\nendian: big\nencoding: raw\n\
    space origin: (-10,20,30)\n";

#[test]
fn of_several_volumes_one_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, header: &str, data: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, [header.as_bytes(), data].concat()).unwrap();
        path
    };
    write("a.raw", "", &voxels());
    check(&write("a.mha", MHA, &voxels()));
    check(&write(
        "b.mha",
        &MHA.replace("CompressedData = False", "CompressedData = True"),
        &deflated(true),
    ));
    check(&write("c.mhd", &MHA.replace("LOCAL", "a.raw"), &[]));
    check(&write("a.nrrd", &format!("{NRRD}\n"), &voxels()));
    check(&write("b.nrrd", &format!("{}\n", NRRD.replace("raw", "gzip")), &deflated(false)));
    check(&write("c.nhdr", &format!("{NRRD}data file: a.raw\n"), &[]));
    // Time as a dimension of the space.
    let with_time = NRRD
        .replace("(0,1,0) (-2,0,0) (0,0,3) none", "(0,1,0,0) (-2,0,0,0) (0,0,3,0) (0,0,0,0.5)")
        .replace("superior\n", "superior-time\n")
        .replace("(-10,20,30)", "(-10,20,30,7)");
    check(&write("d.nrrd", &format!("{with_time}\n"), &voxels()));
}

#[test]
fn time_that_is_not_the_slowest_axis_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    // A fifth volume is asked for, which is not there whatever the header says.
    let refusal = |name: &str, header: &str, from: &str, to: &str| {
        assert!(header.contains(from), "{from}");
        let path = folder.path().join(name);
        std::fs::write(
            &path,
            [header.replace(from, to).as_bytes(), &b"\n"[..], &voxels()].concat(),
        )
        .unwrap();
        read(&path, Some(FRAMES)).map(drop).expect_err(to)
    };
    for (from, to, field) in [
        ("0 1 0 0 -1", "0 1 0 0.5 -1", "TransformMatrix"),
        ("DimSize = 3 2 2 4", "DimSize = 3 2 2 0", "DimSize"),
        ("DimSize = 3 2 2 4", "DimSize = 3 2 2 5", "voxel data"),
        ("NDims = 4", "NDims = 5", "NDims"),
    ] {
        assert_eq!(refusal("a.mha", MHA, from, to).field(), field, "{to}");
    }
    for (from, to, field) in [
        ("(0,1,0) (-2,0,0) (0,0,3) none", "none (0,1,0) (-2,0,0) (0,0,3)", "sizes"),
        (
            "(0,1,0) (-2,0,0) (0,0,3) none",
            "(0,1,0,0) (-2,0,0,0) (0,0,3,1) (0,0,0,1)",
            "space directions",
        ),
        ("sizes: 3 2 2 4", "sizes: 3 2 2 0", "sizes"),
        ("sizes: 3 2 2 4", "sizes: 3 2 2 5", "voxel data"),
    ] {
        assert_eq!(refusal("a.nrrd", NRRD, from, to).field(), field, "{to}");
    }
}

/// Files as SimpleITK writes them.
#[test]
fn series_of_simpleitk_are_read() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "import sys, numpy, SimpleITK as sitk\n\
        a = (numpy.arange(48) * 7 - 100).astype('int16').reshape(4, 2, 2, 3)\n\
        image = sitk.JoinSeries([sitk.GetImageFromArray(v) for v in a])\n\
        image.SetSpacing((1, 2, 3, 0.5)), image.SetOrigin((-10, 20, 30, 0))\n\
        image.SetDirection((0, -1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1))\n\
        [sitk.WriteImage(image, sys.argv[1] + '/' + n, n[0] == 'c') for n in ('a.mha', 'c.mha', 'b.mhd', 'a.nrrd', 'c.nrrd', 'd.nhdr')]\n";
    assert!(
        Command::new(python)
            .args(["-c", script])
            .arg(folder.path())
            .status()
            .expect("it starts")
            .success()
    );
    for name in ["a.mha", "c.mha", "b.mhd", "a.nrrd", "c.nrrd", "d.nhdr"] {
        check(&folder.path().join(name));
    }
}
