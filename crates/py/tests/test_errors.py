"""Every error is an exception that says what, where and what to do."""

import multiprocessing
import pickle
import sys

import nibabel
import numpy as np
import pytest
import SimpleITK

import pbt

AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])
VOXELS = np.zeros((8, 9, 10), np.float32)


def raised(kind, call, *arguments, **keywords):
    with pytest.raises(kind) as caught:
        call(*arguments, **keywords)
    assert type(caught.value) is kind and "\n" not in str(caught.value)
    return caught.value


def test_images(model, tiny, tmp_path):
    missing = tmp_path / "missing.nii.gz"
    error = raised(pbt.InputError, model.detect, missing)
    assert (error.file, error.field) == (str(missing), "file")
    assert raised(pbt.InputError, pbt.read_image, missing).file == str(missing)
    text = tmp_path / "text.nii"
    text.write_text("not an image")
    assert raised(pbt.InputError, model.detect, text).file == str(text)
    assert raised(pbt.UsageError, model.detect, 5).field == "image"
    assert raised(pbt.UsageError, model.detect, tiny.image, AFFINE).field == "affine"


@pytest.mark.parametrize(
    "voxels, field",
    [
        (VOXELS[0], "shape"),
        (np.zeros((4, 4, 4, 2)), "shape"),
        (np.zeros((0, 4, 4)), "shape"),
        (VOXELS.astype(complex), "dtype"),
        (VOXELS.astype(object), "dtype"),
        (VOXELS.astype("U1"), "dtype"),
    ],
)
def test_arrays(model, voxels, field):
    error = raised(pbt.InputError, model.detect, voxels, AFFINE)
    assert (error.file, error.field) == ("array", field)


@pytest.mark.parametrize(
    "affine",
    [
        np.full((4, 4), np.nan),
        np.diag([2.0, 2.0, np.inf, 1.0]),
        np.diag([2.0, 2.0, 0.0, 1.0]),
        np.diag([2.0, 2.0, 1e12, 1.0]),
        np.diag([2.0, 2.0, 2.0, 2.0]),
        np.eye(3),
        "LPS",
        [[1, 2], [3]],
    ],
)
def test_affines(model, affine):
    error = raised(pbt.InputError, model.detect, VOXELS, affine)
    assert (error.file, error.field) == ("array", "affine")


def test_geometry_is_never_guessed(model):
    assert raised(pbt.UsageError, model.detect, VOXELS).field == "affine"
    assert raised(pbt.UsageError, model.detect, VOXELS, AFFINE, "XYZ").field == "space"
    assert raised(pbt.InputError, model.detect, nibabel.Nifti1Image(VOXELS, None)).field == "affine"
    itk = SimpleITK.GetImageFromArray(VOXELS)
    assert raised(pbt.UsageError, model.detect, itk, AFFINE).field == "affine"
    flat = SimpleITK.GetImageFromArray(VOXELS[0])
    assert raised(pbt.InputError, model.detect, flat).field == "shape"
    colour = SimpleITK.GetImageFromArray(np.zeros((4, 5, 6, 3)), isVector=True)
    assert raised(pbt.InputError, model.detect, colour).field == "shape"


def test_constant_and_empty_images_end_well(model):
    for value in [0.0, np.nan, np.inf]:
        try:
            model.detect(np.full((40, 40, 40), value), AFFINE)
        except pbt.Error as error:
            assert error.file == "array"


def test_models(tmp_path):
    text = tmp_path / "text.pbt"
    text.write_text("this is no model, but long enough to have a header")
    assert raised(pbt.ModelError, pbt.load, text).file == str(text)
    assert raised(pbt.InputError, pbt.load, tmp_path / "missing.pbt").field == "file"
    assert raised(pbt.InputError, pbt.load, tmp_path).file == str(tmp_path)


def test_devices_and_threads(model, tiny):
    raised(pbt.DeviceError, model.detect, tiny.image, device="gpu:99")
    raised(pbt.UsageError, model.detect, tiny.image, device="tpu")
    for threads in [0, -1, 5000]:
        assert raised(pbt.UsageError, model.detect, tiny.image, threads=threads).field == "threads"


def test_commands(tiny, tmp_path):
    out = tmp_path / "out.pbt"
    raised(pbt.InputError, pbt.train, tmp_path / "nothing", out)
    raised(pbt.UsageError, pbt.train, tiny.folder, out, classifier="oak")
    raised(pbt.UsageError, pbt.evaluate, tiny.folder)
    error = raised(pbt.InputError, pbt.evaluate, tiny.folder, tiny.model, split="nowhere")
    assert error.field == "cases"
    raised(pbt.ModelError, pbt.batch, tiny.config, tiny.folder, tmp_path / "found")
    assert not out.exists()


def test_errors_are_one_family_and_travel():
    for kind in [pbt.UsageError, pbt.InputError, pbt.ModelError, pbt.DeviceError]:
        assert issubclass(kind, pbt.Error)
        again = pickle.loads(pickle.dumps(kind("a: b: c", "a", "b")))
        assert (type(again), str(again), again.file, again.field) == (kind, "a: b: c", "a", "b")


def in_child(path, image):
    try:
        pbt.load(path).detect(image)
    except pbt.UsageError as error:
        return str(error)


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_does_not_hang(model, tiny):
    model.detect(tiny.image)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert "spawn" in pool.apply_async(in_child, (tiny.model, tiny.image)).get(60)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(in_child, (tiny.model, tiny.image)).get(60) is None
