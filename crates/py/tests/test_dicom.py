"""Results as DICOM: what is written is read back by highdicom, lies where it was found, and is what
other programs accept."""

import json
import os
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import highdicom
import numpy as np
import pydicom
import pytest
from dicom_series import write_series
from highdicom.sr import CodedConcept
from pydicom.sr.codedict import codes

import pbt
import pbt.dicom
from pbt.dicom._segmentation import _names

#: Row, column and slice direction of an oblique series, all different spacings. Lengths have few digits, since DICOM keeps 16 characters.
SPACING = [1.75, 1.8, 1.9]


def oblique():
    a, b = 0.2, -0.3
    about_z = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    about_x = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    affine = np.eye(4)
    affine[:3, :3] = about_z @ about_x @ np.diag(SPACING)
    affine[:3, 3] = [-31.0, 12.5, 7.0]
    return affine


@pytest.fixture(scope="module")
def series(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("series") / "phantom"
    write_series(folder, tiny.voxels[:, 1:43, 2:42], oblique(), number=3)
    return folder


@pytest.fixture(scope="module")
def result(model, series):
    result = model.detect(series)
    assert result["gland"].position_lps_mm is not None
    return result


def accepted(path):
    """Whether the checker of DICOM files accepts it, where there is one: it is in no package of Python."""
    checker = os.environ.get("PBT_DCIODVFY") or shutil.which("dciodvfy")
    if checker is None:
        return
    told = subprocess.run([checker, str(path)], capture_output=True, errors="replace").stderr
    errors = [line for line in told.splitlines() if line.startswith("Error")]
    assert not errors, told


def measured(group):
    return {m.name.meaning: (m.value, m.unit.value) for m in group.get_measurements()}


def status_of(group):
    (status,) = group.get_qualitative_evaluations(CodedConcept("status", "99PBT", "any"))
    return status.value.value


def test_a_box_is_a_surface_in_the_frame_of_the_images(series, result, tmp_path):
    pbt.dicom.write_sr(result, tmp_path / "gland.sr.dcm")
    accepted(tmp_path / "gland.sr.dcm")
    report = highdicom.sr.srread(tmp_path / "gland.sr.dcm")
    image = pydicom.dcmread(series / "000.dcm")
    assert report.StudyInstanceUID == image.StudyInstanceUID
    assert report.PatientID == "made" and report.SeriesInstanceUID != image.SeriesInstanceUID
    assert report.ContentTemplateSequence[0].TemplateIdentifier == "1500"
    evidence = report.CurrentRequestedProcedureEvidenceSequence[0].ReferencedSeriesSequence[0]
    assert len(evidence.ReferencedSOPSequence) == 40

    (group,) = report.content.get_volumetric_roi_measurement_groups()
    gland = result["gland"]
    surface = group.roi
    assert surface.frame_of_reference_uid == image.FrameOfReferenceUID
    faces = np.array(surface.graphic_data)
    assert faces.shape == (6, 5, 3) and np.array_equal(faces[:, 0], faces[:, 4])
    # Of the faces alone the box comes back: each is the lower or upper end of an axis.
    middles = faces[:, :4].mean(axis=1)
    np.testing.assert_allclose(middles.mean(axis=0), gland.position_lps_mm, atol=1e-4)
    edges = middles[1::2] - middles[::2]
    np.testing.assert_allclose(np.linalg.norm(edges, axis=1), gland.size_mm, atol=1e-4)
    np.testing.assert_allclose(
        edges / gland.size_mm[:, None], gland.matrix.T, atol=1e-4
    )
    for face in faces[:, :4]:
        sides = np.roll(face, -1, axis=0) - face
        np.testing.assert_allclose(np.einsum("ij,ij->i", sides, np.roll(sides, 1, axis=0)), 0, atol=1e-3)

    assert group.tracking_identifier == "gland"
    assert group.finding_type == CodedConcept("gland", "99PBT", "gland")
    values = measured(group)
    assert values["Certainty of Finding"] == (pytest.approx(100 * gland.score), "%")
    for n, name in enumerate(["Length", "Width", "Depth"]):
        assert values[name] == (pytest.approx(gland.size_mm[n]), "mm")
    assert status_of(group) == gland.status


def edited(result, detections, **more):
    record = result.to_dict()
    record["detections"] = detections
    record.update(more)
    return record


def landmark(name, status, position):
    return {
        "name": name,
        "kind": "landmark",
        "status": status,
        "score": 0.25,
        "position_lps_mm": position,
        "orientation": None,
        "size_mm": None,
        "radius_90_mm": 2.5,
    }


def test_landmarks_are_points_and_what_is_absent_has_a_status(result, tmp_path):
    names = ["tip", "a name that is longer than a code may be, über\\lang", "gone"]
    record = edited(
        result,
        [
            landmark(names[0], "doubtful", [1.5, -2.25, 3.0]),
            landmark(names[1], "found", [-100.0, 0.125, 7.5]),
            landmark(names[2], "absent", None),
        ],
    )
    out = tmp_path / "new" / "points.sr.dcm"
    pbt.dicom.write_sr(record, out, codes={"tip": ("10200004", "SCT", "Liver")})
    accepted(out)
    content = highdicom.sr.srread(out).content
    tip, long = content.get_planar_roi_measurement_groups()
    assert tip.roi.graphic_type == highdicom.sr.GraphicTypeValues3D.POINT
    np.testing.assert_allclose(tip.roi.value, [[1.5, -2.25, 3.0]])
    assert tip.finding_type == codes.SCT.Liver
    assert status_of(tip) == "doubtful"
    assert measured(tip)["Certainty of Finding"] == (25.0, "%")
    assert 2.5 in [value for value, _ in measured(tip).values()]
    np.testing.assert_allclose(long.roi.value, [[-100.0, 0.125, 7.5]])
    assert long.tracking_identifier == names[1]
    assert len(long.finding_type.value) == 16
    (gone,) = content.get_image_measurement_groups()
    assert gone.tracking_identifier == "gone"
    assert status_of(gone) == "absent"


def test_labels_are_segments_on_the_grid_of_the_images(series, result, tmp_path):
    out = tmp_path / "gland.seg.dcm"
    pbt.dicom.write_seg(result, out)
    accepted(out)
    read = highdicom.seg.segread(out)
    assert [d.segment_label for d in (read.get_segment_description(1),)] == ["gland"]
    assert read.number_of_segments == 1
    images = [pydicom.dcmread(series / f"{k:03}.dcm") for k in range(40)]
    assert read.FrameOfReferenceUID == images[0].FrameOfReferenceUID
    uids = [image.SOPInstanceUID for image in images]
    slices = read.get_pixels_by_source_instance(
        uids, assert_missing_frames_are_empty=True, combine_segments=True
    )
    # Indexed by slice, row and column.
    assert np.array_equal(slices.transpose(2, 1, 0), result.labels())
    volume = read.get_volume(combine_segments=True)
    inside = np.argwhere(volume.array > 0)
    middle = volume.affine @ [*inside.mean(axis=0), 1]
    ours = result.affine_lps @ [*np.argwhere(result.labels() > 0).mean(axis=0), 1]
    np.testing.assert_allclose(middle, ours, atol=1e-3)


def test_the_command_writes_both(tiny, series, command, tmp_path):
    command("detect", "-m", tiny.model, "-i", series, "-o", tmp_path, "--labels")
    command_line = [sys.executable, "-c", "from pbt._dicom_cli import main; raise SystemExit(main())"]

    def run(*arguments, code=0):
        done = subprocess.run([*command_line, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stderr

    (tmp_path / "codes.json").write_text(json.dumps({"gland": ["41216001", "SCT", "Prostate"]}))
    codes = ["--codes", tmp_path / "codes.json"]
    told = run(tmp_path / "phantom.json", "-o", tmp_path / "dicom", *codes)
    report, segmentation = (tmp_path / "dicom" / f"phantom.{kind}.dcm" for kind in ("sr", "seg"))
    assert told.split() == [str(report), str(segmentation)]
    assert sorted((tmp_path / "dicom").iterdir()) == sorted([report, segmentation])
    (group,) = highdicom.sr.srread(report).content.get_volumetric_roi_measurement_groups()
    assert group.finding_type.value == "41216001"
    described = highdicom.seg.segread(segmentation).get_segment_description(1)
    assert described.segmented_property_type.value == "41216001"

    # Without labels only the report; from the archive of the series; the paths left out.
    command("detect", "-m", tiny.model, "-i", series, "-o", tmp_path / "bare", "--no-paths")
    bare = tmp_path / "bare" / "phantom.json"
    line = run(bare, "-o", tmp_path, code=2)
    assert line.startswith("error: source: ") and line.count("\n") == 1
    with zipfile.ZipFile(tmp_path / "series.zip", "w") as archive:
        for file in sorted(series.iterdir()):
            archive.write(file, file.name)
    assert run(bare, "-o", tmp_path, "-s", tmp_path / "series.zip").split() == [
        str(tmp_path / "phantom.sr.dcm")
    ]
    assert run(tmp_path / "none.json", "-o", tmp_path, code=4).startswith("error: ")


def test_images_of_another_grid_are_refused(tiny, result, series, tmp_path):
    moved = oblique()
    moved[0, 3] += 1.0
    write_series(tmp_path / "moved", tiny.voxels[:, 1:43, 2:42], moved)
    out = tmp_path / "out.dcm"
    with pytest.raises(pbt.InputError, match="ImagePositionPatient: no series has the grid"):
        pbt.dicom.write_sr(result, out, tmp_path / "moved")
    # A slice is missing.
    shutil.copytree(series, tmp_path / "cut")
    (tmp_path / "cut" / "017.dcm").unlink()
    with pytest.raises(pbt.InputError, match="no series has the grid"):
        pbt.dicom.write_seg(result, out, tmp_path / "cut")
    # No DICOM, nothing, nowhere.
    with pytest.raises(pbt.InputError, match="there is no DICOM image"):
        pbt.dicom.write_sr(result, out, tiny.image)
    with pytest.raises(pbt.InputError, match="not found"):
        pbt.dicom.write_sr(result, out, tmp_path / "nowhere")
    no_frame = [pydicom.dcmread(file) for file in sorted(series.iterdir())]
    for image in no_frame:
        del image.FrameOfReferenceUID
    with pytest.raises(pbt.InputError) as caught:
        pbt.dicom.write_sr(result, out, no_frame)
    assert caught.value.field == "FrameOfReferenceUID"
    with pytest.raises(pbt.InputError, match="coordinate_system"):
        pbt.dicom.write_sr(edited(result, [], coordinate_system="pixel"), out)
    with pytest.raises(pbt.UsageError, match="codes: gland"):
        pbt.dicom.write_sr(result, out, codes={"gland": "liver"})
    assert not out.exists() and not list(tmp_path.glob(".*"))


def test_of_two_series_in_a_folder_the_one_that_was_searched_is_meant(tiny, model, series, tmp_path):
    study = pydicom.dcmread(series / "000.dcm").StudyInstanceUID
    shutil.copytree(series, tmp_path / "both" / "a")
    write_series(tmp_path / "both" / "b", tiny.voxels[:, 1:43, 2:42], oblique(), 7, study)
    result = model.detect(tmp_path / "both", series="7")
    pbt.dicom.write_sr(result, tmp_path / "sr.dcm")
    report = pydicom.dcmread(tmp_path / "sr.dcm")
    used = report.CurrentRequestedProcedureEvidenceSequence[0].ReferencedSeriesSequence[0]
    wanted = pydicom.dcmread(tmp_path / "both" / "b" / "000.dcm").SeriesInstanceUID
    assert used.SeriesInstanceUID == wanted


def test_a_disk_that_takes_nothing_is_an_error(result, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(pbt.Error, match="file: cannot be written"):
        pbt.dicom.write_sr(result, tmp_path / "file" / "sr.dcm")
    assert (tmp_path / "file").read_text() == "mine"


def test_series_of_scanners(result, tmp_path):
    """Real series, where they are: what is written is accepted and refers to their images."""
    data = os.environ.get("PBT_DATA")
    for case in ["hippocrop_study1", "ct_axial_5mm", "position_HFDL"] if data else []:
        folder = Path(data) / "dicom_conformance" / case / "dicom"
        voxels, affine = pbt.read_image(folder)
        shape = list(voxels.shape)
        middle = affine @ [*((n - 1) / 2 for n in shape), 1]
        box = {
            **landmark("gland", "found", list(middle[:3])),
            "kind": "box",
            "orientation": {"matrix": np.eye(3).tolist(), "quaternion_wxyz": [1, 0, 0, 0]},
            "size_mm": [20.0, 10.0, 15.0],
        }
        image = {"sha256": "0" * 64, "shape": shape, "affine_lps": affine.tolist()}
        found = [box, landmark("tip", "found", list(middle[:3]))]
        record = edited(result, found, input=image)
        out = tmp_path / f"{case}.sr.dcm"
        with warnings.catch_warnings():
            # Libraries would show the patient's name.
            warnings.simplefilter("error")
            pbt.dicom.write_sr(record, out, folder)
        accepted(out)
        report = highdicom.sr.srread(out)
        (series,) = report.CurrentRequestedProcedureEvidenceSequence[0].ReferencedSeriesSequence
        assert len(series.ReferencedSOPSequence) == shape[2], case
        (tip,) = report.content.get_planar_roi_measurement_groups()
        np.testing.assert_allclose(tip.roi.value[0], middle[:3], atol=1e-3)

        voxels = np.zeros(shape, np.uint8)
        voxels[shape[0] // 3, : shape[1] // 2] = 7
        labels = tmp_path / f"{case}.seg.nrrd"
        write_labels(labels, voxels, affine, {7: "half a plane"})
        segmentation = tmp_path / f"{case}.seg.dcm"
        pbt.dicom.write_seg(record, segmentation, folder, labels=labels)
        accepted(segmentation)
        read = highdicom.seg.segread(segmentation)
        volume = read.get_volume(combine_segments=True)
        assert read.get_segment_description(1).segment_label == "half a plane"
        middle = volume.affine @ [*np.argwhere(volume.array > 0).mean(axis=0), 1]
        ours = affine @ [*np.argwhere(voxels > 0).mean(axis=0), 1]
        np.testing.assert_allclose(middle, ours, atol=1e-3)
    if data:
        # Its series has no identifier, so that nothing can refer to it.
        folder = Path(data) / "dicom_conformance" / "ct_body_j2k" / "dicom"
        voxels, affine = pbt.read_image(folder)
        image = {"sha256": "0" * 64, "shape": list(voxels.shape), "affine_lps": affine.tolist()}
        with pytest.raises(pbt.InputError, match="InstanceUID: is missing"):
            pbt.dicom.write_sr(edited(result, [], input=image), tmp_path / "sr.dcm", folder)


def test_names_of_segments_are_those_that_were_written(tmp_path):
    path = tmp_path / "a.seg.nrrd"
    write_labels(path, np.zeros((1, 1, 1), np.uint8), np.eye(4), {7: r"half\\new\na plane"})
    assert _names(path) == {7: "half\\new\na plane"}


def write_labels(path, voxels, affine, names):
    """A segmentation as 3D Slicer stores it."""
    axes = " ".join("({},{},{})".format(*affine[:3, a]) for a in range(3))
    fields = [
        "NRRD0004",
        "type: uint8",
        "dimension: 3",
        "space: left-posterior-superior",
        "sizes: {} {} {}".format(*voxels.shape),
        f"space directions: {axes}",
        "space origin: ({},{},{})".format(*affine[:3, 3]),
        "encoding: raw",
        *(
            f"Segment{n}_{key}:={value}"
            for n, (label, name) in enumerate(names.items())
            for key, value in [("Name", name), ("LabelValue", label)]
        ),
    ]
    path.write_bytes(("\n".join(fields) + "\n\n").encode() + voxels.tobytes(order="F"))
