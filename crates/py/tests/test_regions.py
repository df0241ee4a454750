"""Models of regions: the label map is an array on the image's grid."""

import json
from types import SimpleNamespace

import nibabel
import numpy as np
import pytest
from conftest import found

import pbt

SMALL = """\
[working]
spacing_mm = 2.0
[regions]
features = 120
samples = 6000
radius_mm = 12.0
forest = { trees = 8, depth = 9, features_per_node = 0.15 }
"""

AFFINE_RAS = np.array(
    [
        [1.5, -0.2, 0.0, -30.0],
        [-0.2, -1.5, 0.0, 5.0],
        [0.0, 0.0, 1.7, 8.0],
        [0.0, 0.0, 0.0, 1.0],
    ]
)


def case(seed):
    """A bright core (3) in a darker shell (7) in noise."""
    random = np.random.default_rng(seed)
    shape = (26, 24, 22)
    middle = np.array([13.0, 12.0, 11.0]) + random.uniform(-3, 3, 3)
    distance = np.linalg.norm(np.moveaxis(np.indices(shape), 0, -1) - middle, axis=-1)
    radius = random.uniform(5, 7)
    labels = np.where(distance < radius - 2.5, 3, np.where(distance < radius, 7, 0))
    values = np.select([labels == 3, labels == 7], [170.0, 60.0], 110.0)
    noisy = np.clip(values + random.normal(0, 15, shape), 0, 255)
    return noisy.astype(np.uint8), labels.astype(np.uint8)


@pytest.fixture(scope="module")
def regions(tmp_path_factory, command):
    """Five cases, and the model that the command trains on the first three."""
    folder = tmp_path_factory.mktemp("regions")
    cases = []
    for n in range(5):
        image, labels = (f"c{n}.nii.gz", f"c{n}.mask.nii.gz")
        for name, voxels in zip((image, labels), case(n)):
            nibabel.save(nibabel.Nifti1Image(voxels, AFFINE_RAS), folder / name)
        split = "train" if n < 3 else "test"
        cases.append({"id": f"c{n}", "image": image, "labels": labels, "split": split})
    dataset = {
        "schema": "pbt-dataset/1",
        "name": "made",
        "modality": "MR",
        "structures": [{"name": name, "kind": "region"} for name in ("core", "shell")],
        "labels": {"3": "core", "7": "shell"},
        "cases": cases,
    }
    (folder / "dataset.json").write_text(json.dumps(dataset))
    (folder / "small.toml").write_text(SMALL)
    model = folder / "ball.pbt"
    command(
        "train", "-q", "-i", folder, "-o", model, "--config", folder / "small.toml",
        "--device", "cpu", "--threads", 2,
    )  # fmt: skip
    return SimpleNamespace(folder=folder, path=model, image=folder / "c4.nii.gz")


def test_labels_are_the_voxels_that_the_command_writes(regions, command, tmp_path):
    command("detect", "-m", regions.path, "-i", regions.image, "-o", tmp_path / "a")
    written = (tmp_path / "a" / "c4.json").read_text()
    result = pbt.load(regions.path).detect(regions.image)
    until_run = written.index('  "run": ')
    assert result.to_json()[:until_run] == written[:until_run]

    theirs = nibabel.load(tmp_path / "a" / "c4.labels.nii.gz")
    labels = result.labels()
    assert labels.dtype == np.uint16 and set(np.unique(labels)) == {0, 3, 7}
    assert np.array_equal(labels, np.asarray(theirs.dataobj))
    np.testing.assert_allclose(
        np.diag([-1.0, -1.0, 1.0, 1.0]) @ result.affine_lps, theirs.affine, atol=1e-5
    )

    result.write(tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in names:
        if name != "c4.json":
            a, b = ((tmp_path / side / name).read_bytes() for side in "ab")
            assert a == b, name


def test_regions_have_volumes_and_no_place(regions):
    model = pbt.load(regions.path)
    assert [tuple(s) for s in model.structures] == [
        ("core", "region", None),
        ("shell", "region", None),
    ]
    result = model.detect(regions.image)
    voxel_ml = abs(np.linalg.det(result.affine_lps[:3, :3])) / 1000
    for region, value in zip(result, (3, 7)):
        assert (region.kind, region.status) == ("region", "found")
        assert region.position_lps_mm is None and region.matrix is None and region.size_mm is None
        count = np.count_nonzero(result.labels() == value)
        np.testing.assert_allclose(region.volume_ml, count * voxel_ml, rtol=1e-6)
    table = result.to_dataframe()
    assert list(table.volume_ml) == [region.volume_ml for region in result]
    assert table.x_lps_mm.isna().all()


def test_arrays_and_threads_give_the_same_labels(regions):
    model = pbt.load(regions.path)
    expected = model.detect(regions.image)
    voxels = np.asarray(nibabel.load(regions.image).dataobj)
    of_array = model.detect(voxels, nibabel.load(regions.image).affine, space="RAS")
    assert found(of_array, input_too=False) == found(expected, input_too=False)
    for result in [of_array, *(model.detect(regions.image, threads=n) for n in (1, 3))]:
        assert np.array_equal(result.labels(), expected.labels())


def test_training_and_evaluation_are_those_of_the_command(regions, command, tmp_path):
    out = tmp_path / "ball.pbt"
    news = []
    model = pbt.train(
        regions.folder, out, config=regions.folder / "small.toml", device="cpu", threads=1,
        progress=lambda *told: news.append(told),
    )  # fmt: skip
    assert out.read_bytes() == regions.path.read_bytes() and news
    command("evaluate", "-m", regions.path, "-i", regions.folder, "-o", tmp_path / "report.json")
    theirs = json.loads((tmp_path / "report.json").read_text())
    ours = pbt.evaluate(regions.folder, model)
    assert ours.keys() == theirs.keys()
    assert ours["schema"] == theirs["schema"] and ours["records"] == theirs["records"]
