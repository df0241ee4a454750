"""The images of a batch. Paths travel between processes, voxels never."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

import pandas
import ray.data

from .. import _pbt


class Case(NamedTuple):
    """An image of a batch."""

    #: Name of its result files.
    case_id: str
    path: str
    #: Which of several volumes.
    series: str | None = None
    frame: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Case:
        """The case of a row with the columns ``case_id`` and ``path``, and perhaps ``series`` and
        ``frame``."""
        series, frame = _present(row.get("series")), _present(row.get("frame"))
        return cls(
            str(row["case_id"]),
            str(row["path"]),
            None if series is None else str(series),
            None if frame is None else int(frame),
        )


def list_cases(input: str | os.PathLike[str], channels: int) -> list[Case]:
    """The cases that ``pbt batch`` would go through with a model of so many channels, in its order,
    with absolute paths: other machines have other working folders."""
    return [
        Case(case_id, os.path.abspath(path), series, frame)
        for case_id, path, series, frame in _pbt.cases(input, channels)
    ]


def read_cases(input: str | os.PathLike[str], *, channels: int = 1) -> ray.data.Dataset:
    """The images of a folder or of a CSV list, as ``pbt batch`` takes them: a data set with the
    columns ``case_id``, ``path``, ``series`` and ``frame``. For a model of several ``channels``,
    ``CASE_0000`` and those beside it are one image."""
    table = pandas.DataFrame(list_cases(input, channels), columns=Case._fields)
    texts = {name: "string" for name in ("case_id", "path", "series")}
    return ray.data.from_pandas(table.astype({**texts, "frame": "Int64"}))


def _present(value: Any) -> Any:
    """None for what tables have in place of nothing."""
    return None if pandas.isna(value) or value == "" else value
