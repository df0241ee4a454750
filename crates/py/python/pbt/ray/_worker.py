"""What an actor of `pbt-ray` does: a part at a time, from its cases to its file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Mapping, NamedTuple

import numpy.typing as npt

from .._errors import Error
from .._table import Row
from ._cases import Case
from ._detector import Detector, Found, table_of
from ._parts import Journal, Part, read_record, read_rows, write_part

#: How many processes a case may take along before it has failed. The first may have ended for the
#: sake of another case beside it, or with its machine; the second had this case alone.
_DEATHS = 2


class Job(NamedTuple):
    """What all parts of a run have in common."""

    model: str
    model_sha256: str
    out: Path
    labels: bool
    no_paths: bool
    tables_only: bool

    def key(self, part: Part) -> str:
        """What a part of this run is known by."""
        return part.key(self.model_sha256, self.labels, self.no_paths, self.tables_only)


class Worker:
    """Detects in parts, for ``Dataset.map_batches`` with one part a batch. What ends the whole run
    comes back as a row, too: of an exception, Ray would leave only the text."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._detector: Detector | Error
        try:
            self._detector = Detector(
                job.model,
                out=None if job.tables_only else job.out,
                labels=job.labels,
                no_paths=job.no_paths,
                sha256=job.model_sha256,
            )
        except Error as error:
            self._detector = error

    def __call__(self, batch: Mapping[str, npt.NDArray[Any]]) -> dict[str, list[str]]:
        told = []
        for number, cases in zip(batch["number"], batch["cases"]):
            part = Part(int(number), [Case(*case) for case in json.loads(cases)])
            told.append(json.dumps(self._tell(part)))
        return {"told": told}

    def _tell(self, part: Part) -> dict[str, Any]:
        try:
            if isinstance(self._detector, Error):
                raise self._detector
            return self._run(part, self._detector)
        except Error as error:
            return {"error": [type(error).__name__, str(error), error.file, error.field]}
        except OSError as error:
            file = str(part.path(self._job.out))
            what = f"{file}: file: cannot be written: {error.strerror}"
            return {"error": [Error.__name__, what, file, "file"]}

    def _run(self, part: Part, detector: Detector) -> dict[str, Any]:
        """Writes the part's file, and returns what the run's record needs of it. Cases that have
        rows already keep them, but for failed ones."""
        begun = time.time()
        job = self._job
        key = job.key(part)
        path, journal = part.path(job.out), Journal(part.journal(job.out, key))
        kept = _kept(path, key)
        to_do = [n for n, case in enumerate(part.cases) if case.case_id not in kept]
        found = _detect(detector, part, to_do, journal)
        rows = [
            row
            for n, case in enumerate(part.cases)
            for row in (found[n].rows if n in found else kept[case.case_id])
        ]
        failed = [
            {"case_id": case.case_id, "path": case.path, "reason": found[n].reason}
            for n, case in enumerate(part.cases)
            if n in found and found[n].reason is not None
        ]
        write_part(path, table_of(rows), {"key": key, "failed": len(failed)})
        journal.remove()
        return {
            "begun": begun,
            "cases": len(part.cases),
            "resumed": len(part.cases) - len(to_do),
            "failed": failed,
            "load_seconds": sum(each.load_seconds for each in found.values()),
            "detect_seconds": sum(each.detect_seconds for each in found.values()),
            "device": next((each.device for each in found.values() if each.device), None),
        }


def _detect(
    detector: Detector, part: Part, to_do: list[int], journal: Journal
) -> dict[int, Found]:
    """What comes of the cases with these indices. Those that may have ended a process go first
    and alone."""

    def detect(n: int) -> Found:
        journal.begin(n)
        try:
            return detector.detect(part.cases[n])
        finally:
            journal.end(n)

    deaths = journal.deaths()
    found = {}
    for n in filter(deaths.__contains__, to_do):
        if deaths[n] < _DEATHS:
            found[n] = detect(n)
        else:
            case = part.cases[n]
            what = (
                f"process: ended {deaths[n]} times in the middle of this image"
                " (it may need more memory than there is)"
            )
            error = Error(f"{case.path}: {what}", case.path, "process")
            error._without_file = what
            found[n] = detector.failed(case, error)
    others = [n for n in to_do if n not in deaths]
    found.update(zip(others, detector.map(detect, others)))
    return found


def _kept(path: Path, key: str) -> dict[str, list[Row]]:
    """Rows of the cases that an earlier run has finished, by case."""
    kept: dict[str, list[Row]] = {}
    record = read_record(path)
    if record is not None and record["key"] == key:
        for row in read_rows(path).to_pylist():
            if row["status"] != "failed":
                kept.setdefault(row["case_id"], []).append(row)
    return kept
