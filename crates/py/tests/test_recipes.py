"""The recipes of the documentation work as they stand there, one after the other, on phantoms. Only the
settings of trainings are small ones."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nibabel
import numpy as np
import pytest
from dicom_series import write_series

import pbt

RECIPES = Path(__file__).parents[3] / "docs" / "how-to" / "recipes.md"
#: Lines of a recipe, at most.
MOST = 5


def recipes():
    """Title, and language and text of each block."""
    sections = re.split(r"^## ", RECIPES.read_text(encoding="utf-8"), flags=re.M)[1:]
    blocks = re.compile(r"^```(sh|python)\n(.*?)^```$", re.M | re.S)
    return [(section.splitlines()[0], blocks.findall(section)) for section in sections]


def box_of(path):
    """Centre, axes as columns, and edges of the box in a file of markups, LPS mm."""
    box = json.loads(path.read_text())["markups"][0]
    return np.array(box["center"]), np.array(box["orientation"]).reshape(3, 3), np.array(box["size"])


def mask_of(image, annotation):
    """The ellipsoid in the annotated box."""
    centre, axes, size = box_of(annotation)
    index = np.stack(np.meshgrid(*map(np.arange, image.shape), indexing="ij"), axis=-1)
    ras = index @ image.affine[:3, :3].T + image.affine[:3, 3]
    inside = np.linalg.norm((ras * [-1, -1, 1] - centre) @ axes / (size / 2), axis=-1) <= 1
    return nibabel.Nifti1Image(inside.astype(np.uint8), image.affine)


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """What a newcomer has: scans, an nnU-Net folder, a data set without a test set, a DICOM series."""
    folder = tmp_path_factory.mktemp("newcomer")
    cases = [f"c{n}" for n in range(9)]
    nnunet = folder / "Dataset005_Gland"
    for part in ["imagesTr", "labelsTr"]:
        (nnunet / part).mkdir(parents=True)
    (folder / "scans").mkdir()
    for n, case in enumerate(cases):
        image = nibabel.load(tiny.folder / f"{case}.nii.gz")
        if n < 6:
            mask = mask_of(image, tiny.folder / f"{case}.mrk.json")
            shutil.copy(tiny.folder / f"{case}.nii.gz", nnunet / "imagesTr" / f"{case}_0000.nii.gz")
            nibabel.save(mask, nnunet / "labelsTr" / f"{case}.nii.gz")
        else:
            shutil.copy(tiny.folder / f"{case}.nii.gz", folder / "scans" / f"p0{n - 5}.nii.gz")
    (nnunet / "dataset.json").write_text(
        json.dumps(
            {
                "channel_names": {"0": "US"},
                "labels": {"background": 0, "gland": 1},
                "numTraining": 6,
                "file_ending": ".nii.gz",
            }
        )
    )
    shutil.copytree(tiny.folder, folder / "my_scans")
    image = nibabel.load(tiny.image)
    write_series(folder / "ct_series", np.asarray(image.dataobj), np.diag([-1, -1, 1, 1]) @ image.affine)
    # Slicer itself is not here: what it would be given must be there.
    programs = folder / "programs"
    programs.mkdir()
    slicer = programs / "Slicer"
    slicer.write_text('#!/bin/sh\nfor file; do test -s "$file" || exit 1; done\n')
    slicer.chmod(0o755)
    return folder


def test_there_are_ten_of_few_lines():
    titles = [title for title, _ in recipes()]
    assert len(titles) == 10, titles
    for title, blocks in recipes():
        lines = [line for _, text in blocks for line in text.splitlines()]
        assert blocks and len(lines) <= MOST, title


def test_they_work_as_they_stand_there(folder, tiny):
    small = f"pbt train --config '{tiny.config}' "
    search = [folder / "programs", Path(sys.executable).parent, os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(map(str, search))}
    for title, blocks in recipes():
        for language, text in blocks:
            program = {"sh": ["sh", "-eu", "-c"], "python": [sys.executable, "-c"]}[language]
            done = subprocess.run(
                [*program, text.replace("pbt train ", small)], cwd=folder, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{title}:\n{text}\n{done.stdout}\n{done.stderr}"
    # What they say that they leave behind.
    written = [
        "models/gland.pbt",
        "found/detections.csv",
        "found.html",
        "found/p01.gland.nii.gz",
        "found/p01.labels.nii.gz",
        "dicom/ct_series.seg.dcm",
        "dicom/ct_series.sr.dcm",
        "report.json",
    ]
    assert [name for name in written if not (folder / name).is_file()] == []


def test_labels_are_written_as_they_were_asked_for(folder, tmp_path):
    """With the model of the recipes, which has learned masks."""
    model, scan = pbt.load(folder / "models" / "gland.pbt"), folder / "scans" / "p01.nii.gz"
    bare, asked = model.detect(scan), model.detect(scan, labels=True)
    with pytest.raises(pbt.UsageError, match="labels: were not asked for"):
        bare.write(tmp_path, labels=True)
    assert list(tmp_path.iterdir()) == []
    for result, options, there in [
        (asked, {}, True),
        (asked, {"labels": False}, False),
        (asked, {"labels": True, "no_paths": True}, True),
        (bare, {}, False),
    ]:
        result.write(tmp_path, **options)
        for name in ["p01.labels.nii.gz", "p01.pbt.seg.nrrd"]:
            assert (tmp_path / name).exists() == there, (options, name)
