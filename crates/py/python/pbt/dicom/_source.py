"""The images that a result was detected in, and the result itself."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any, Iterator, Sequence, Union

import numpy as np
import numpy.typing as npt
import pydicom
from pydicom.dataset import Dataset

from .._errors import InputError, UsageError
from .._result import Result

PathLike = Union[str, "os.PathLike[str]"]
#: A result, its dictionary, or the path of its file.
ResultLike = Union[Result, dict[str, Any], PathLike]
#: The DICOM file, folder or zip archive of a series, or its data sets.
SourceLike = Union[PathLike, Sequence[Dataset]]

#: How far an image may lie off the grid of the result, voxels.
_OFF_GRID = 0.02

#: What every object of a study repeats of its images, empty where they lack it, as anonymous ones do.
_MAY_BE_EMPTY = [
    "AccessionNumber",
    "PatientBirthDate",
    "PatientID",
    "PatientName",
    "PatientSex",
    "ReferringPhysicianName",
    "StudyDate",
    "StudyID",
    "StudyTime",
]
#: What refers to an image, and where its file says it once more.
_NEEDED = {
    "SOPClassUID": "MediaStorageSOPClassUID",
    "SOPInstanceUID": "MediaStorageSOPInstanceUID",
    "SeriesInstanceUID": None,
    "StudyInstanceUID": None,
}


def record_of(result: ResultLike) -> dict[str, Any]:
    """The dictionary of a result, whose places must be LPS mm."""
    if isinstance(result, Result):
        record = result.to_dict()
    elif isinstance(result, dict):
        record = result
    else:
        record = _read_json(Path(result))
    if record.get("schema") != "pbt-result/1":
        raise InputError("result: schema: is not pbt-result/1", None, "schema")
    if record["coordinate_system"] != "LPS":
        what = "a report needs millimetres (detect in an image with a scale)"
        raise InputError(f"result: coordinate_system: is pixel, and {what}", None, "coordinate_system")
    return record


def _read_json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: file: cannot be read: {error}", str(path), "file") from None
    if not isinstance(record, dict):
        raise InputError(f"{path}: schema: is not pbt-result/1", str(path), "schema")
    return record


def images_of(record: dict[str, Any], source: SourceLike | None) -> list[Dataset]:
    """The images that the result was detected in, in the order of its grid: each lies on it. Where a
    series has several time points, those of the one that was chosen."""
    if source is None:
        source = record["run"]["input_path"]
        if not source:
            what = "the result does not say where its images are (name them)"
            raise UsageError(f"source: {what}", field="source")
    if isinstance(source, (str, os.PathLike)):
        shown = os.fspath(source)
        images = list(_read(Path(source)))
    else:
        shown, images = "source", list(source)
    if not images:
        what = "there is no DICOM image (give the series that the result was detected in)"
        raise InputError(f"{shown}: file: {what}", shown, "file")
    chosen = [_complete(image, shown) for image in _on_grid(record, images, shown)]
    frames = {image.get("FrameOfReferenceUID") for image in chosen}
    if len(frames) != 1 or not next(iter(frames)):
        what = "is missing or differs (places cannot be said without it)"
        raise InputError(f"{shown}: FrameOfReferenceUID: {what}", shown, "FrameOfReferenceUID")
    return chosen


def _complete(image: Dataset, shown: str) -> Dataset:
    """The image with all that is repeated of it or refers to it."""
    meta, image = getattr(image, "file_meta", {}), Dataset(image)
    for key in _MAY_BE_EMPTY:
        if key not in image:
            setattr(image, key, None)
    for key, of_file in _NEEDED.items():
        value = image.get(key) or (meta.get(of_file) if of_file else None)
        if not value:
            what = f"{key}: is missing in an image (give files as a scanner writes them)"
            raise InputError(f"{shown}: {what}", shown, key)
        setattr(image, key, value)
    return image


def _read(path: Path) -> Iterator[Dataset]:
    """Every DICOM image of a file, a folder or a zip archive."""
    if path.is_file() and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                yield from _image(io.BytesIO(archive.read(name)))
        return
    if not path.exists():
        raise InputError(f"{path}: file: cannot be read: not found (name it)", str(path), "file")
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        yield from _image(file)


def _image(file: Any) -> Iterator[Dataset]:
    try:
        image = pydicom.dcmread(file, stop_before_pixels=True)
    except (pydicom.errors.InvalidDicomError, OSError, EOFError):
        return
    if "Rows" in image and "Columns" in image:
        yield image


def _on_grid(record: dict[str, Any], images: list[Dataset], shown: str) -> list[Dataset]:
    shape = record["input"]["shape"]
    if len(images) == 1 and "NumberOfFrames" in images[0]:
        # An image of many frames; its frames are where they are.
        if (images[0].Columns, images[0].Rows) != tuple(shape[:2]):
            raise _elsewhere(shown)
        return images
    to_index = np.linalg.inv(np.array(record["input"]["affine_lps"]))
    #: By series, then by slice of the grid.
    series: dict[str, dict[int, list[Dataset]]] = {}
    for image in images:
        k = _slice_of(image, to_index, shape)
        if k is not None:
            series.setdefault(image.get("SeriesInstanceUID", ""), {}).setdefault(k, []).append(image)
    whole = {uid: slices for uid, slices in series.items() if len(slices) == shape[2]}
    wanted = record["run"]["options"].get("series")
    if len(whole) > 1 and wanted is not None:
        number = str(wanted).partition(".")[0]
        named = {
            uid: slices
            for uid, slices in whole.items()
            if uid == wanted or str(slices[min(slices)][0].get("SeriesNumber")) == number
        }
        whole = named or whole
    if not whole:
        raise _elsewhere(shown)
    if len(whole) > 1:
        what = f"{len(whole)} have the grid of the result (give the files of one)"
        raise InputError(f"{shown}: series: {what}", shown, "series")
    (slices,) = whole.values()
    frame = record["run"]["options"].get("frame", 0)
    return [_time_point(slices[k], frame) for k in sorted(slices)]


def _slice_of(image: Dataset, to_index: npt.NDArray[Any], shape: Sequence[int]) -> int | None:
    """Which slice of the grid an image is; None where it is none."""
    if "ImagePositionPatient" not in image or "ImageOrientationPatient" not in image:
        return None
    if (image.Columns, image.Rows) != tuple(shape[:2]):
        return None
    place = np.array([float(x) for x in image.ImagePositionPatient])
    rows, columns = (np.array([float(x) for x in image.ImageOrientationPatient[n : n + 3]]) for n in (0, 3))
    spacing = [float(x) for x in image.PixelSpacing]
    last = place + rows * spacing[1] * (shape[0] - 1) + columns * spacing[0] * (shape[1] - 1)
    ends = np.array([to_index @ [*point, 1.0] for point in (place, last)])[:, :3]
    k = round(float(ends[0, 2]))
    expected = np.array([[0, 0, k], [shape[0] - 1, shape[1] - 1, k]])
    fits = np.abs(ends - expected).max() <= _OFF_GRID and 0 <= k < shape[2]
    return k if fits else None


def _time_point(images: list[Dataset], frame: int) -> Dataset:
    keys = ("TemporalPositionIdentifier", "AcquisitionNumber", "InstanceNumber")
    order = sorted(images, key=lambda image: [int(image.get(key) or 0) for key in keys])
    return order[min(frame, len(order) - 1)]


def _elsewhere(shown: str) -> InputError:
    what = "no series has the grid of the result (give the images that it was detected in)"
    return InputError(f"{shown}: ImagePositionPatient: {what}", shown, "ImagePositionPatient")
