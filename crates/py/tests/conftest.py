"""A data set of phantoms and a model, made by `cargo test --test cli python_package`, which runs
these tests."""

import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import nibabel
import numpy as np
import pytest

import pbt

# Where tests run in the background of a shell, Ctrl-C is ignored, and so it would be by every program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure():
    if "PBT_TINY" not in os.environ:
        pytest.exit("PBT_TINY is not set: run `cargo xtask test`", returncode=4)


@pytest.fixture(scope="session")
def tiny():
    """Folder, model, settings of a training in seconds, a test image and its voxels."""
    folder = Path(os.environ["PBT_TINY"])
    image = folder / "c7.nii.gz"
    return SimpleNamespace(
        folder=folder,
        model=folder / "gland.pbt",
        config=folder / "small.toml",
        image=image,
        nibabel=nibabel.load(image),
        voxels=np.asarray(nibabel.load(image).dataobj),
    )


@pytest.fixture(scope="session")
def model(tiny):
    return pbt.load(tiny.model)


@pytest.fixture(scope="session")
def command():
    """Runs the program that Cargo built."""

    def run(*arguments, code=0):
        program = [os.environ["PBT_PROGRAM"], *map(str, arguments)]
        done = subprocess.run(program, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done

    return run


def found(result, input_too=True):
    """What a result says of an image, however that came to be in memory."""
    parts = result.to_dict()
    del parts["run"], parts["case_id"]
    if not input_too:
        del parts["input"]
    return parts
