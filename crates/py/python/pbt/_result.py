"""Results."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np
import numpy.typing as npt

from . import _pbt
from ._table import COLUMNS, rows_of_result

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Detection:
    """What was found of one structure. Names are those of the result JSON; lengths are mm, places
    LPS. What does not apply is None."""

    name: str
    #: ``box``, ``landmark`` or ``region``
    kind: str
    #: ``found``, ``doubtful``, ``absent``, or ``outside`` of the image
    status: str
    #: Probability that it is right, 0 to 1.
    score: float
    #: Centre of the box, or the landmark.
    position_lps_mm: npt.NDArray[np.float64] | None
    #: 3×3; its columns are the axes of the box.
    matrix: npt.NDArray[np.float64] | None
    #: The same rotation, w first.
    quaternion_wxyz: npt.NDArray[np.float64] | None
    #: Full edges of the box.
    size_mm: npt.NDArray[np.float64] | None
    #: Share of the box that lies in the image, 0 to 1.
    visible: float | None
    #: Which of several instances of a structure, from 1, the surest first.
    instance: int | None
    #: Volume of a region, or of all labels about a box, millilitres.
    volume_ml: float | None
    #: The Dice coefficient to expect of the labels about a box.
    predicted_dice: float | None
    #: Each of these labels, as the result has it; none without ``labels=True`` and a model that has
    #: learned them.
    labels: list[dict[str, Any]]
    #: Number of its connected components.
    components: int | None
    #: Up to which distance a position counts as right.
    tolerance_mm: float | None
    #: The distance within which 90 of 100 such positions are right.
    radius_90_mm: float | None
    #: The same of the corners of a box.
    corner_radius_90_mm: float | None
    #: Everything that the result says of it.
    record: dict[str, Any]

    @classmethod
    def of(cls, record: dict[str, Any]) -> Detection:
        """A detection of the result JSON."""

        def numbers(value: Any) -> npt.NDArray[np.float64] | None:
            return None if value is None else np.array(value, dtype=np.float64)

        orientation = record["orientation"] or {}
        return cls(
            name=record["name"],
            kind=record["kind"],
            status=record["status"],
            score=record["score"],
            position_lps_mm=numbers(record["position_lps_mm"]),
            matrix=numbers(orientation.get("matrix")),
            quaternion_wxyz=numbers(orientation.get("quaternion_wxyz")),
            size_mm=numbers(record["size_mm"]),
            visible=record.get("visible"),
            instance=record.get("instance"),
            volume_ml=record.get("volume_ml"),
            predicted_dice=record.get("predicted_dice"),
            labels=record.get("labels", []),
            components=record.get("components"),
            tolerance_mm=record.get("tolerance_mm"),
            radius_90_mm=record.get("radius_90_mm"),
            corner_radius_90_mm=record.get("corner_radius_90_mm"),
            record=record,
        )

    def corners_lps_mm(self) -> npt.NDArray[np.float64] | None:
        """The eight corners of a box, a row each."""
        if self.position_lps_mm is None or self.matrix is None or self.size_mm is None:
            return None
        signs = np.array(np.meshgrid(*[(-0.5, 0.5)] * 3, indexing="ij")).reshape(3, 8).T
        return self.position_lps_mm + (signs * self.size_mm) @ self.matrix.T

    def __repr__(self) -> str:
        place = "-"
        if self.position_lps_mm is not None:
            place = "({:.2f}, {:.2f}, {:.2f})".format(*self.position_lps_mm)
        return f"<{self.name}: {self.status}, score {self.score:.3f}, {place}>"


class Result:
    """What was found in one image."""

    def __init__(self, result: _pbt.Result) -> None:
        self._result = result
        self._dict: dict[str, Any] = json.loads(result.to_json())

    @property
    def case_id(self) -> str:
        """Name of the case."""
        return self._dict["case_id"]

    @property
    def detections(self) -> list[Detection]:
        """One of each structure of the model, in its order."""
        return [Detection.of(record) for record in self._dict["detections"]]

    @property
    def warnings(self) -> list[str]:
        """What you should know about the image."""
        return list(self._dict["warnings"])

    @property
    def affine_lps(self) -> npt.NDArray[np.float64]:
        """The 4×4 matrix from [i, j, k] of the image to LPS mm."""
        return np.array(self._dict["input"]["affine_lps"])

    def __getitem__(self, name: str) -> Detection:
        """The detection of this name."""
        for detection in self.detections:
            if detection.name == name:
                return detection
        known = ", ".join(repr(detection.name) for detection in self.detections)
        raise KeyError(f"{name!r}: this result has {known or 'no detections'}")

    def __iter__(self) -> Iterator[Detection]:
        return iter(self.detections)

    def __len__(self) -> int:
        return len(self._dict["detections"])

    def to_dict(self) -> dict[str, Any]:
        """The result as the file has it."""
        return json.loads(self._result.to_json())

    def to_json(self) -> str:
        """The text of the result file."""
        return self._result.to_json()

    def to_dataframe(self) -> pandas.DataFrame:
        """A row a detection, with the columns of ``detections.csv``. Needs pandas."""
        import pandas

        columns = [name for name in COLUMNS if name != "reason"]
        table = pandas.DataFrame(rows_of_result(self._dict), columns=columns)
        # A column without any value is one of numbers, as in the file.
        numbers = [name for name in columns if COLUMNS[name]]
        return table.astype(dict.fromkeys(numbers, float))

    def labels(self) -> npt.NDArray[np.uint16]:
        """What each voxel of the image's grid belongs to, indexed ``[i, j, k]``. After
        ``detect(..., labels=True)`` with a model that has learned labels, and of a model of regions:
        the value of its label. Else boxes and landmarks as the number of their detection, from 1.
        0 is neither."""
        return self._result.labels()

    def write(
        self,
        folder: str | os.PathLike[str],
        *,
        labels: bool | None = None,
        no_paths: bool = False,
    ) -> None:
        """Writes ``FOLDER/<case_id>.json`` and ``FOLDER/<case_id>.mrk.json``, and the files of
        ``labels`` where they are wanted: by default if ``detect`` was asked for them. Of a model that
        has learned labels there are none otherwise; one of regions always writes them. ``no_paths``
        leaves the paths of image and model out."""
        self._result.write(folder, labels, no_paths)

    def __repr__(self) -> str:
        return f"<pbt.Result {self.case_id}: {self.detections}>"
