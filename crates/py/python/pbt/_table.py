"""The rows of the table of a batch, as `pbt batch` writes them: one a detection, or one for a case
that failed."""

from __future__ import annotations

from typing import Any, Union

#: A row; every one has all columns.
Row = dict[str, Union[str, float, None]]

#: Name of each column, in order, and whether it holds numbers. Positions are LPS mm, sizes full
#: edges in mm.
COLUMNS = {
    "case_id": False,
    "status": False,
    "name": False,
    "kind": False,
    "score": True,
    "x_lps_mm": True,
    "y_lps_mm": True,
    "z_lps_mm": True,
    "qw": True,
    "qx": True,
    "qy": True,
    "qz": True,
    "size_1_mm": True,
    "size_2_mm": True,
    "size_3_mm": True,
    "tolerance_mm": True,
    "radius_90_mm": True,
    "corner_radius_90_mm": True,
    "n_calibration": True,
    "visible": True,
    "instance": True,
    "volume_ml": True,
    "predicted_dice": True,
    "components": True,
    "input_sha256": False,
    "model_sha256": False,
    "reason": False,
}


def rows_of_result(result: dict[str, Any]) -> list[Row]:
    """The rows of a case with a result, one for each detection."""

    def row(d: dict[str, Any]) -> Row:
        quaternion = d["orientation"] and d["orientation"]["quaternion_wxyz"]
        cells = {
            "case_id": result["case_id"],
            **{key: d.get(key) for key in ("status", "name", "kind", "score")},
            **_columns(["x_lps_mm", "y_lps_mm", "z_lps_mm"], d["position_lps_mm"]),
            **_columns(["qw", "qx", "qy", "qz"], quaternion),
            **_columns(["size_1_mm", "size_2_mm", "size_3_mm"], d["size_mm"]),
            "input_sha256": result["input"]["sha256"],
            "model_sha256": result["model"]["sha256"],
        }
        # The other columns are keys of a detection, some of which it may lack.
        return {name: cells.get(name, d.get(name)) for name in COLUMNS}

    return [row(detection) for detection in result["detections"]]


def row_of_failure(case_id: str, model_sha256: str, reason: str) -> Row:
    """The row of a case that failed."""
    cells = {
        "case_id": case_id,
        "status": "failed",
        "model_sha256": model_sha256,
        "reason": reason,
    }
    return {name: cells.get(name) for name in COLUMNS}


def _columns(names: list[str], values: list[float] | None) -> dict[str, float | None]:
    return dict(zip(names, values or [None] * len(names)))
