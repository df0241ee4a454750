"""The parts of a run: neighbours of the list that one actor detects in at a time. What came of a
part is a Parquet file of its own, so that a run that ends early loses only the parts at hand."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple

import pyarrow
import pyarrow.parquet

from ._cases import Case

#: Below the folder of results.
FOLDER = "parts"

#: The key of a part's own record among the metadata of its file.
_RECORD = b"pbt"


class Part(NamedTuple):
    """Some cases of the list."""

    number: int
    cases: list[Case]

    def path(self, out: Path) -> Path:
        """Its file."""
        return out / FOLDER / f"{self.number:06}.parquet"

    def journal(self, out: Path, key: str) -> Path:
        """The file of its journal, which is about these very cases."""
        return out / FOLDER / f"{self.number:06}-{key[:16]}.journal"

    def key(self, model_sha256: str, *options: bool) -> str:
        """Hash of all that its rows and files depend on, but for the images' voxels."""
        of = [self.cases, model_sha256, *options]
        return hashlib.sha256(json.dumps(of).encode()).hexdigest()


def parts_of(cases: list[Case], size: int) -> list[Part]:
    """The list in parts of so many cases."""
    starts = range(0, len(cases), size)
    return [Part(number, cases[start : start + size]) for number, start in enumerate(starts)]


def write_part(path: Path, table: pyarrow.Table, record: dict[str, Any]) -> None:
    """Writes a part's rows, and with them its record, under another name first."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.pbt-tmp")
    metadata = {_RECORD: json.dumps(record).encode()}
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), beside)
    os.replace(beside, path)


def read_record(path: Path) -> dict[str, Any] | None:
    """The record of a part's file; None where there is no such file, or a damaged one."""
    try:
        return json.loads(pyarrow.parquet.read_metadata(path).metadata[_RECORD])
    except (OSError, ValueError, KeyError, TypeError, pyarrow.ArrowException):
        return None


def read_rows(path: Path) -> pyarrow.Table:
    """The rows of a part's file."""
    return pyarrow.parquet.read_table(path).replace_schema_metadata(None)


def gather(paths: Iterable[Path], schema: pyarrow.Schema, to: Path) -> None:
    """Writes the rows of all parts, one after the other, into one file."""
    beside = to.with_name(f".{to.name}.{os.getpid()}.pbt-tmp")
    with pyarrow.parquet.ParquetWriter(beside, schema) as writer:
        for table in _together(map(read_rows, paths)):
            writer.write_table(table)
    os.replace(beside, to)


def _together(tables: Iterable[pyarrow.Table], rows: int = 100_000) -> Iterator[pyarrow.Table]:
    """Tables of about so many rows: what is read a row group at a time should not be tiny."""
    waiting: list[pyarrow.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= rows:
            yield pyarrow.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pyarrow.concat_tables(waiting)


class Journal:
    """Which cases of a part were begun and ended. It outlives the process: an image that takes its
    process along, because the system ends what needs too much memory, would do so for ever, since
    Ray starts another process and gives it the same part."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, index: int) -> None:
        """The case with this index is about to be detected in."""
        self._note("begin", index)

    def end(self, index: int) -> None:
        """The process has outlived it."""
        self._note("end", index)

    def deaths(self) -> Counter[int]:
        """How many times a case was begun and did not end."""
        deaths: Counter[int] = Counter()
        try:
            lines = self._path.read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return deaths
        for line in lines:
            what, _, index = line.partition(" ")
            # The last line may have been cut off.
            if what in ("begin", "end") and index.isdigit():
                deaths[int(index)] += 1 if what == "begin" else -1
        return +deaths

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def _note(self, what: str, index: int) -> None:
        with open(self._path, "a", encoding="ascii") as file:
            file.write(f"{what} {index}\n")
