"""A structured report by TID 1500: one group of measurements for each structure."""

from __future__ import annotations

from typing import Any

import highdicom.sr as sr
import numpy as np
import numpy.typing as npt
from pydicom.dataset import Dataset
from pydicom.sr.codedict import codes as dicom_codes
from pydicom.uid import generate_uid

from .._result import Detection
from . import _codes as code
from ._codes import Codes
from ._equipment import MANUFACTURER, parameters, quietly, save
from ._source import PathLike, ResultLike, SourceLike, images_of, record_of

#: The corners around each face of a box: lower and upper end of the first, second and third axis. Rows
#: of corners are in the order of the three ends, that of the third axis fastest.
_FACES = [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)]


@quietly
def write_sr(
    result: ResultLike,
    out: PathLike,
    source: SourceLike | None = None,
    *,
    codes: Codes | None = None,
    series_number: int = 900,
) -> None:
    """Writes what was found as a DICOM structured report (Comprehensive 3D SR, TID 1500).

    A landmark is a point, a box a surface of six faces, both in the frame of reference of the images,
    LPS mm. Each has its status, its score (*certainty of finding*, per cent) and, where the model
    knows it, its radius of 90 %; a box its edges, too. What is absent has a status and a score.

    ``source`` is the DICOM file, folder or zip archive that the result was detected in, by default
    where it was then, or its data sets. ``codes`` names structures by codes of a terminology:
    ``{"liver": ("10200004", "SCT", "Liver")}``; others get codes of the private scheme ``99PBT``.
    """
    record = record_of(result)
    images = images_of(record, source)
    frame = images[0].FrameOfReferenceUID
    groups = [
        _group(Detection.of(detection), record, images, frame, codes)
        for detection in record["detections"]
    ]
    device = sr.DeviceObserverIdentifyingAttributes(
        uid=generate_uid(entropy_srcs=[MANUFACTURER, record["run"]["pbt_version"]]),
        name=MANUFACTURER,
        manufacturer_name=MANUFACTURER,
        model_name=code.text(record["model"]["name"], 64),
        serial_number=record["model"]["sha256"][:16],
    )
    context = sr.ObservationContext(
        observer_device_context=sr.ObserverContext(dicom_codes.DCM.Device, device)
    )
    report = sr.Comprehensive3DSR(
        evidence=images,
        content=sr.MeasurementReport(
            observation_context=context,
            procedure_reported=code.procedure(images[0].get("Modality", "")),
            imaging_measurements=groups,
        ),
        series_instance_uid=generate_uid(),
        series_number=series_number,
        sop_instance_uid=generate_uid(),
        instance_number=1,
        manufacturer=MANUFACTURER,
        manufacturer_model_name=MANUFACTURER,
        software_versions=record["run"]["pbt_version"],
        series_description=code.text(f"pbt: {record['model']['name']}", 64),
        is_complete=True,
        # Names are Unicode.
        specific_character_set="ISO_IR 192",
    )
    save(report, out)


def _group(
    detection: Detection,
    record: dict[str, Any],
    images: list[Dataset],
    frame: str,
    codes: Codes | None,
) -> Any:
    """The group of one structure: volumetric of a box, planar of a landmark, else without a region."""
    instance = detection.record.get("instance")
    name = detection.name if instance is None else f"{detection.name} {instance}"
    about = {
        "tracking_identifier": sr.TrackingIdentifier(generate_uid(), name),
        "finding_type": code.structure(detection.name, codes),
        "finding_category": code.CATEGORY,
        "qualitative_evaluations": [
            sr.QualitativeEvaluation(code.STATUS, code.status(detection.status))
        ],
    }
    algorithm = sr.AlgorithmIdentification(
        name=MANUFACTURER,
        version=record["run"]["pbt_version"],
        parameters=[f"{key}={value}" for key, value in parameters(record).items()],
        family=code.FAMILY,
    )

    def measured(name: Any, value: float, unit: Any) -> sr.Measurement:
        return sr.Measurement(name, float(value), unit)

    measurements = [measured(code.SCORE, 100.0 * detection.score, code.PERCENT)]
    if detection.radius_90_mm is not None:
        measurements.append(measured(code.RADIUS, detection.radius_90_mm, code.MM))
    if detection.volume_ml is not None:
        measurements.append(measured(code.VOLUME, detection.volume_ml, code.ML))
    corners = detection.corners_lps_mm()
    if corners is not None:
        edges = zip(code.EDGES, detection.size_mm)
        measurements += [measured(edge, mm, code.MM) for edge, mm in edges]
        surface = sr.VolumeSurface(
            sr.GraphicTypeValues3D.POLYGON,
            faces(corners),
            frame,
            source_series=sr.SourceSeriesForSegmentation.from_source_image(images[0]),
        )
        return sr.VolumetricROIMeasurementsAndQualitativeEvaluations(
            referenced_volume_surface=surface,
            measurements=measurements,
            algorithm_id=algorithm,
            **about,
        )
    if detection.position_lps_mm is not None:
        point = np.array([detection.position_lps_mm])
        return sr.PlanarROIMeasurementsAndQualitativeEvaluations(
            referenced_region=sr.ImageRegion3D(sr.GraphicTypeValues3D.POINT, point, frame),
            measurements=measurements,
            algorithm_id=algorithm,
            **about,
        )
    return sr.MeasurementsAndQualitativeEvaluations(
        measurements=measurements, algorithm_id=algorithm, **about
    )


def faces(corners: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
    """The six faces of a box as closed polygons, lower and upper end of each axis in turn; from the
    eight corners of :meth:`pbt.Detection.corners_lps_mm`."""
    return [corners[[*face, face[0]]] for face in _FACES]
