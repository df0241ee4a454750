"""The labels of a result as a DICOM segmentation."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import highdicom as hd
import numpy as np
import numpy.typing as npt
from highdicom.seg import (
    SegmentAlgorithmTypeValues,
    Segmentation,
    SegmentationTypeValues,
    SegmentDescription,
)
from pydicom.uid import generate_uid

from .._errors import InputError, UsageError
from .._images import read_image
from .._result import Result
from . import _codes as code
from ._codes import Codes
from ._equipment import MANUFACTURER, parameters, quietly, save
from ._source import PathLike, ResultLike, SourceLike, images_of, record_of


@quietly
def write_seg(
    result: ResultLike,
    out: PathLike,
    source: SourceLike | None = None,
    *,
    labels: PathLike | None = None,
    codes: Codes | None = None,
    series_number: int = 901,
) -> None:
    """Writes the labels of a result as a DICOM segmentation: a binary segment for each label that has
    voxels.

    Of a result of ``Model.detect`` these are its labels: those that the model has learned
    (``detect(…, labels=True)``), else boxes and landmarks. Of a result file they are in
    ``CASE.pbt.seg.nrrd`` beside it, which ``pbt detect --labels`` writes, or in the file ``labels``.
    ``source`` and ``codes`` are those of :func:`write_sr`.
    """
    record = record_of(result)
    images = images_of(record, source)
    names, voxels, affine = _labels(result, record, labels)
    there = [(value, name) for value, name in sorted(names.items()) if (voxels == value).any()]
    if not there:
        raise InputError("labels: voxels: there are none, so that no segment has any", None, "voxels")
    numbered = np.zeros(voxels.shape, np.uint16 if len(there) > 255 else np.uint8)
    for number, (value, _) in enumerate(there, 1):
        numbered[voxels == value] = number
    version = record["run"]["pbt_version"]
    algorithm = hd.AlgorithmIdentificationSequence(
        MANUFACTURER, code.FAMILY, version, parameters=parameters(record)
    )
    described = [
        SegmentDescription(
            segment_number=number,
            segment_label=code.text(name, 64),
            segmented_property_category=code.CATEGORY,
            segmented_property_type=code.structure(name, codes),
            algorithm_type=SegmentAlgorithmTypeValues.AUTOMATIC,
            algorithm_identification=algorithm,
            tracking_uid=generate_uid(),
            tracking_id=name,
            display_color=_color(number),
        )
        for number, (_, name) in enumerate(there, 1)
    ]
    try:
        # Indexed by slice, row and column, as DICOM stores it.
        volume = hd.Volume(
            numbered.transpose(2, 1, 0),
            affine[:, [2, 1, 0, 3]],
            coordinate_system="PATIENT",
            frame_of_reference_uid=images[0].FrameOfReferenceUID,
        )
        segmentation = Segmentation(
            source_images=images,
            pixel_array=volume,
            segmentation_type=SegmentationTypeValues.BINARY,
            segment_descriptions=described,
            series_instance_uid=generate_uid(),
            series_number=series_number,
            sop_instance_uid=generate_uid(),
            instance_number=1,
            manufacturer=MANUFACTURER,
            manufacturer_model_name=MANUFACTURER,
            software_versions=version,
            device_serial_number=record["model"]["sha256"][:16],
            series_description=code.text(f"pbt: {record['model']['name']}", 64),
            content_label="PBT",
            # Names are Unicode.
            specific_character_set="ISO_IR 192",
        )
    except ValueError as error:
        # Grids that DICOM has no segmentation for, such as sheared ones.
        raise InputError(f"labels: affine: {error}", None, "affine") from None
    save(segmentation, out)


def _labels(
    result: ResultLike, record: dict[str, Any], labels: PathLike | None
) -> tuple[dict[int, str], npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Names of the values, voxels, and the affine to LPS mm."""
    if labels is not None:
        names, (voxels, affine) = _names(Path(labels)), read_image(labels)
    elif isinstance(result, Result):
        with tempfile.TemporaryDirectory() as folder:
            result.write(folder, labels=True)
            path = Path(folder) / f"{result.case_id}.pbt.seg.nrrd"
            names, (voxels, affine) = _names(path), read_image(path)
    elif isinstance(result, dict):
        raise UsageError("labels: a dictionary has none (give the file)", field="labels")
    else:
        path = Path(result).with_suffix(".pbt.seg.nrrd")
        if not path.is_file():
            what = "is not there (write it with `pbt detect --labels`, or name another)"
            raise InputError(f"{path}: file: {what}", str(path), "file")
        names, (voxels, affine) = _names(path), read_image(path)
    if list(voxels.shape) != record["input"]["shape"]:
        what = f"is {voxels.shape}, not that of the result (give the labels of this result)"
        raise InputError(f"labels: shape: {what}", None, "shape")
    return names, voxels, affine


def _names(path: Path) -> dict[int, str]:
    """The names of values from the header of a segmentation of 3D Slicer."""
    fields: dict[str, str] = {}
    with path.open("rb") as file:
        for line in file:
            if not line.strip():
                break
            key, separator, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(":=")
            if separator:
                # In NRRD `\n` is a line break, and `\\` a backslash.
                fields[key] = re.sub(r"\\([\\n])", lambda m: {"n": "\n"}.get(m[1], m[1]), value)
    names = {}
    n = 0
    while f"Segment{n}_Name" in fields:
        names[int(fields[f"Segment{n}_LabelValue"])] = fields[f"Segment{n}_Name"]
        n += 1
    if not names:
        what = "there are no names of segments (give CASE.pbt.seg.nrrd)"
        raise InputError(f"{path}: Segment0_Name: {what}", str(path), "Segment0_Name")
    return names


def _color(number: int) -> hd.color.CIELabColor:
    """Colours that neighbours in the list can be told apart by: hues a golden angle apart."""
    angle = np.radians(137.508 * number)
    return hd.color.CIELabColor(65.0, 60.0 * np.cos(angle), 60.0 * np.sin(angle))
