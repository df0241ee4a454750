"""Detection as a step of Ray Data."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, TypeVar

import numpy.typing as npt
import pyarrow
import ray

from .._errors import DeviceError, Error, ModelError
from .._model import load
from .._table import COLUMNS, Row, row_of_failure, rows_of_result
from ._cases import Case

_T = TypeVar("_T")

#: The columns of `detections.parquet`.
SCHEMA = pyarrow.schema(
    (name, pyarrow.float64() if is_number else pyarrow.string())
    for name, is_number in COLUMNS.items()
)

#: Images in detection at a time where there are several threads: while one is being read, or at
#: work that does not divide, the other has the cores.
_AT_A_TIME = 2


class Found(NamedTuple):
    """What came of a case."""

    rows: list[Row]
    #: Why it failed, if it did.
    reason: str | None
    #: Seconds of reading the image, and of all that followed.
    load_seconds: float
    detect_seconds: float
    #: What it ran on, as in the result.
    device: dict[str, Any] | None


class Detector:
    """Detects in batches of images, for ``Dataset.map_batches``: a model that each actor reads once,
    on the CPUs and the GPU that Ray gives to the actor.

    A batch has the columns ``case_id`` and ``path``, and, where they are needed, ``series`` and
    ``frame``. It becomes the rows of ``detections.parquet``: one a detection, or one with the status
    ``failed`` and the reason for an image that cannot be used.

    ``model`` is the path of the model file, which every machine must be able to read; with
    ``sha256``, a file with another hash is refused. With ``out``, a folder, the files of ``pbt
    detect`` are written for each case, with its ``labels`` and ``no_paths``.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        out: str | os.PathLike[str] | None = None,
        labels: bool = False,
        no_paths: bool = False,
        sha256: str | None = None,
    ) -> None:
        self._model = load(model)
        if sha256 is not None and self._model.sha256 != sha256:
            raise ModelError(
                f"{model}: sha256: is not that of the first machine's file (give all the same)",
                os.fspath(model),
                "sha256",
            )
        self._out, self._labels, self._no_paths = out, labels, no_paths
        cpus, self._device = _share()
        self._threads = max(1, int(cpus))
        self._pool = ThreadPoolExecutor(_AT_A_TIME if self._threads > 1 else 1)

    def __call__(self, batch: Mapping[str, npt.NDArray[Any]]) -> pyarrow.Table:
        names = [name for name in Case._fields if name in batch]
        columns = zip(*(batch[name] for name in names))
        cases = [Case.of(dict(zip(names, cells))) for cells in columns]
        return table_of(row for found in self.map(self.detect, cases) for row in found.rows)

    def map(self, detect: Callable[[_T], Found], each: Iterable[_T]) -> Iterator[Found]:
        """What comes of each, in their order, two at a time where there are threads for it."""
        return self._pool.map(detect, each)

    def detect(self, case: Case) -> Found:
        """What comes of a case. An image that cannot be used, and a result that cannot be written,
        are failed cases.

        Raises :class:`DeviceError`, since without the device no other case would fare better.
        """
        try:
            result = self._model.detect(
                case.path,
                device=self._device,
                threads=self._threads,
                case_id=case.case_id,
                series=case.series,
                frame=case.frame,
                labels=self._labels,
            )
            if self._out is not None:
                result.write(self._out, labels=self._labels, no_paths=self._no_paths)
        except DeviceError:
            raise
        except Error as error:
            return self.failed(case, error)
        record = result.to_dict()
        timing_ms = record["run"]["timing_ms"]
        load = timing_ms["load"] / 1e3
        rest = timing_ms["total"] / 1e3 - load
        return Found(rows_of_result(record), None, load, rest, record["run"]["device"])

    def failed(self, case: Case, error: Error) -> Found:
        """A case that failed for this reason."""
        reason = error._without_file if self._no_paths else str(error)
        row = row_of_failure(case.case_id, self._model.sha256, reason)
        return Found([row], reason, 0.0, 0.0, None)


def table_of(rows: Iterable[Row]) -> pyarrow.Table:
    """Rows as a table with all columns, however few there are."""
    return pyarrow.Table.from_pylist(list(rows), schema=SCHEMA)


def _share() -> tuple[float, str]:
    """The CPUs of this actor and the device it computes on; outside of Ray all cores, and whatever
    there is."""
    if not ray.is_initialized():
        return os.cpu_count() or 1, "auto"
    resources = ray.get_runtime_context().get_assigned_resources()
    return resources.get("CPU", 1), "gpu" if resources.get("GPU", 0) > 0 else "cpu"
