"""The same image in every form gives the same result."""

import json
import os
import pickle
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nibabel
import numpy as np
import pandas
import pytest
import SimpleITK
from conftest import found

import pbt

LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])


def part(tiny):
    """Voxels with three different edges, on an oblique grid of three different spacings, and the
    affine to LPS mm."""
    voxels = tiny.voxels[:, 1:43, 2:42]
    angle = 0.2
    turn = np.array(
        [
            [np.cos(angle), -np.sin(angle), 0.0],
            [np.sin(angle), np.cos(angle), 0.0],
            [0.0, 0.0, 1.0],
        ]
    )
    affine = np.eye(4)
    affine[:3, :3] = turn @ np.diag([1.8, 1.75, 1.85])
    affine[:3, 3] = [-31.0, 12.5, 7.0]
    # As a NIfTI file holds it.
    return voxels, affine.astype(np.float32).astype(np.float64)


def same(a, b):
    """Results of the same voxels, one of which may be of a file."""
    a, b = found(a), found(b)
    del a["input"]["sha256"], b["input"]["sha256"]
    assert a == b


def test_three_lines_give_what_the_command_writes(tiny, command, tmp_path):
    command("detect", "-m", tiny.model, "-i", tiny.image, "-o", tmp_path)
    written = (tmp_path / "c7.json").read_text()

    model = pbt.load(tiny.model)
    result = model.detect(tiny.image)
    gland = result["gland"]

    assert gland.status == "found" and gland.position_lps_mm.shape == (3,)
    until_run = written.index('  "run": ')
    assert result.to_json()[:until_run] == written[:until_run]
    of_run = result.to_dict()["run"]
    assert of_run["input_path"] == str(tiny.image) and of_run["model_path"] == str(tiny.model)


def test_files_written_are_those_of_the_command(tiny, model, command, tmp_path):
    command("detect", "-m", tiny.model, "-i", tiny.image, "-o", tmp_path / "a", "--labels")
    result = model.detect(str(tiny.image))
    result.write(tmp_path / "b", labels=True)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in ["c7.mrk.json", "c7.pbt.seg.nrrd"]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert (tmp_path / "b" / "c7.json").read_text() == result.to_json()
    # What was asked for is written where nothing is said.
    asked = model.detect(str(tiny.image), labels=True)
    for options, there in [({}, True), ({"labels": False}, False)]:
        asked.write(tmp_path / "c", **options)
        assert (tmp_path / "c" / "c7.pbt.seg.nrrd").exists() == there
    voxels, affine = pbt.read_image(tmp_path / "a" / "c7.pbt.seg.nrrd")
    labels = result.labels()
    assert labels.dtype == np.uint16 and labels.max() == 1
    assert np.array_equal(labels, voxels)
    np.testing.assert_allclose(affine, result.affine_lps, atol=1e-9)


def test_arrays_nibabel_and_simple_itk(tiny, model, tmp_path):
    voxels, affine = part(tiny)
    image = nibabel.Nifti1Image(voxels, LPS_TO_RAS @ affine)
    path = tmp_path / "part.nii.gz"
    nibabel.save(image, path)
    of_file = model.detect(path)
    assert of_file["gland"].position_lps_mm is not None

    of_array = model.detect(voxels, affine)
    same(of_file, of_array)
    ras = model.detect(voxels, LPS_TO_RAS @ affine, space="RAS")
    assert found(ras) == found(of_array)
    assert found(model.detect(image)) == found(of_array)
    of_nibabel = model.detect(nibabel.load(path))
    assert found(of_nibabel) == found(of_array)
    # An image that knows its file is called after it; what has no name cannot be.
    assert [r.case_id for r in (of_nibabel, of_array)] == ["part", "array"]
    assert model.detect(image).case_id == "part", "nibabel knows what it has saved"
    assert model.detect(nibabel.load(path), case_id="anna").case_id == "anna"
    nameless = nibabel.Nifti1Image(voxels, LPS_TO_RAS @ affine)
    assert model.detect(nameless).case_id == "array"

    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    itk = SimpleITK.GetImageFromArray(np.ascontiguousarray(voxels.T))
    itk.SetSpacing(spacing)
    itk.SetDirection((affine[:3, :3] / spacing).ravel())
    itk.SetOrigin(affine[:3, 3])
    of_itk = model.detect(itk)
    np.testing.assert_allclose(of_itk.affine_lps, affine, atol=1e-6)
    assert of_itk.to_dict()["input"]["shape"] == [44, 42, 40]
    for ours, theirs in zip(of_array, of_itk):
        assert ours.status == theirs.status
        np.testing.assert_allclose(theirs.position_lps_mm, ours.position_lps_mm, atol=0.01)


def test_what_is_read_is_what_others_read(tiny, model):
    voxels, affine = pbt.read_image(tiny.image)
    assert voxels.dtype == np.float32 and voxels.flags.f_contiguous
    assert np.array_equal(voxels, tiny.voxels)
    np.testing.assert_allclose(affine, LPS_TO_RAS @ tiny.nibabel.affine)
    same(model.detect(voxels, affine), model.detect(tiny.image))


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i2", "i4", "i8", "u8", "f2", "f4", ">f8", "f8"])
def test_every_type_of_real_numbers(tiny, model, dtype):
    voxels, affine = part(tiny)
    assert found(model.detect(voxels.astype(dtype), affine)) == found(model.detect(voxels, affine))


def test_memory_layout_does_not_count(tiny, model):
    voxels, affine = part(tiny)
    expected = found(model.detect(voxels, affine))
    wide = np.zeros((voxels.shape[0] * 2, *voxels.shape[1:]), voxels.dtype)
    wide[::2] = voxels
    for array in [np.ascontiguousarray(voxels), np.asfortranarray(voxels), wide[::2]]:
        before = array.copy()
        assert found(model.detect(array, affine)) == expected
        assert np.array_equal(array, before)
    assert found(model.detect(voxels[..., None], affine)) == expected


def test_units_of_nifti(tiny, model):
    voxels, affine = part(tiny)
    metres = (LPS_TO_RAS @ affine).copy()
    metres[:3] /= 1000
    image = nibabel.Nifti1Image(voxels, metres)
    image.header.set_xyzt_units("meter")
    found_in = model.detect(image)["gland"].position_lps_mm
    np.testing.assert_allclose(
        found_in, model.detect(voxels, affine)["gland"].position_lps_mm, atol=0.01
    )


def test_threads_and_callers_do_not_count(tiny, model):
    expected = found(model.detect(tiny.image))
    for threads in [1, 2, 5, None]:
        result = model.detect(tiny.image, threads=threads, device="cpu")
        assert found(result) == expected
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: found(model.detect(tiny.image)), range(8)))
    assert results == [expected] * 8


def test_voxels_that_are_not_finite_are_told(tiny, model):
    voxels, affine = part(tiny)
    voxels = voxels.astype(np.float32)
    voxels[3, 4, 5] = np.nan
    voxels[:2, 0, 0] = np.inf
    result = model.detect(voxels, affine)
    assert result.warnings == [
        f"voxel data: 3 of {voxels.size} voxels are NaN or infinite"
    ]


def test_a_table(tiny, model, command, tmp_path):
    command("batch", "-m", tiny.model, "-i", tiny.folder, "-o", tmp_path)
    written = pandas.read_csv(tmp_path / "detections.csv")
    written = written[written.case_id == "c7"].reset_index(drop=True)
    ours = model.detect(tiny.image).to_dataframe()
    assert list(ours.columns) == [c for c in written.columns if c != "reason"]
    for column in ours.columns:
        if ours[column].dtype == object:
            assert list(ours[column]) == list(written[column]), column
        else:
            np.testing.assert_allclose(ours[column], written[column], rtol=1e-12, atol=1e-9)


def test_corners_lie_in_the_frame(tiny, model):
    gland = model.detect(tiny.image)["gland"]
    corners = gland.corners_lps_mm()
    np.testing.assert_allclose(corners.mean(axis=0), gland.position_lps_mm)
    local = (corners - gland.position_lps_mm) @ gland.matrix
    np.testing.assert_allclose(np.abs(local), np.tile(gland.size_mm / 2, (8, 1)))
    assert gland.radius_90_mm == gland.record.get("radius_90_mm")


def test_a_model_says_what_it_is(tiny, model):
    assert (model.name, model.path) == ("gland", str(tiny.model))
    assert [tuple(s) for s in model.structures] == [("gland", "box", None)]
    assert model.sha256 == model.detect(tiny.image).to_dict()["model"]["sha256"]
    again = pickle.loads(pickle.dumps(model))
    assert again.sha256 == model.sha256
    assert "gland" in repr(model) and "gland" in repr(model.detect(tiny.image))


def test_models_by_name(tiny, tmp_path, monkeypatch):
    shutil.copy(tiny.model, tmp_path / "organ.pbt")
    monkeypatch.setenv("PBT_MODELS", str(tmp_path))
    organ = pbt.load("organ")
    assert organ.path == str(tmp_path / "organ.pbt")
    assert pickle.loads(pickle.dumps(organ)).sha256 == organ.sha256
    built_in = pbt.load("phantom-us")
    assert (built_in.name, built_in.path) == ("phantom-us", "phantom-us")
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(pickle.dumps(built_in)).sha256 == built_in.sha256
    run = pbt.batch(built_in, tiny.folder, tmp_path / "out")
    assert run["model"]["sha256"] == built_in.sha256 and run["failed"] == []
    with pytest.raises(pbt.InputError, match="did you mean `organ`") as caught:
        pbt.load("orgam")
    assert (caught.value.file, caught.value.field) == ("orgam", "model")


def test_neither_library_is_imported_for_it():
    import subprocess

    code = (
        "import sys, pbt; assert not {'nibabel', 'SimpleITK', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_channels(command, tmp_path):
    folder = Path(os.environ["PBT_TWO_CHANNELS"])
    model = pbt.load(folder / "two.pbt")
    assert model.channels == ["noise", "signal"]
    files = [folder / f"c7_{n:04}.nii.gz" for n in range(2)]
    command("detect", "-m", folder / "two.pbt", "-i", files[0], "-i", files[1], "-o", tmp_path)
    written = json.loads((tmp_path / "c7_0000.json").read_text())
    images = [nibabel.load(file) for file in files]
    voxels = np.stack([np.asarray(image.dataobj) for image in images], axis=-1)
    affine = images[0].affine
    for image, options in [
        (files, {}),
        (voxels, {"affine": affine, "space": "RAS"}),
        (nibabel.Nifti1Image(voxels, affine), {}),
    ]:
        result = model.detect(image, **options).to_dict()
        assert result["detections"] == written["detections"]
        assert result["input"] == written["input"]
    with pytest.raises(pbt.InputError, match="channel: `signal` is missing"):
        model.detect(voxels[..., 0], affine, "RAS")
    with pytest.raises(pbt.InputError, match="channel: the image has 3 channels"):
        model.detect(np.concatenate([voxels, voxels[..., :1]], axis=-1), affine, "RAS")
    with pytest.raises(pbt.InputError, match="shape: is .* .give three dimensions"):
        pbt.load("phantom-us").detect(voxels, affine, "RAS")
