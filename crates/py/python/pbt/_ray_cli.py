"""The command ``pbt-ray``."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time

from . import __version__
from ._errors import DeviceError, Error, InputError, ModelError, UsageError

#: Exit codes, those of ``pbt``.
_FAILURE, _SOME_FAILED, _INTERRUPTED = 1, 3, 130
_CODES = {UsageError: 2, InputError: 4, ModelError: 5, DeviceError: 6}


def main() -> int:
    """Runs ``pbt-ray`` with the arguments of the process and returns its exit code."""
    options = vars(_parser().parse_args())
    quiet = options.pop("quiet")
    # Nothing is told to anybody unless the user wants it, and to the user only what went wrong.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    logging.disable(logging.WARNING)
    try:
        from .ray import run
    except ImportError as error:
        return _tell(f"error: pbt-ray: needs Ray: {error} (pip install 'pbt[ray]')")
    progress = _Progress(quiet)
    try:
        record = run(**options, progress=progress.show)
    except KeyboardInterrupt:
        progress.end()
        return _tell("error: interrupted (finished parts are kept; go on with --resume)", _INTERRUPTED)
    except Error as error:
        progress.end()
        return _tell(f"error: {error}", _CODES.get(type(error), _FAILURE))
    progress.end()
    for failed in record["failed"]:
        _tell(f"error: case {failed['case_id']}: {failed['reason']}")
    counts = record["counts"]
    if not quiet:
        earlier = f", {counts['resumed']} had a result already" if options["resume"] else ""
        _tell(
            f"{counts['cases']} cases: {counts['detected']} done{earlier}, {counts['failed']} failed;"
            f" {record['seconds']['total']:.1f} s;"
            f" table: {os.path.join(options['out'], 'detections.parquet')}"
        )
    return _SOME_FAILED if counts["failed"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "pbt-ray", description="Detects in very many images with Ray, as `pbt batch` does."
    )
    add = parser.add_argument
    add("-m", "--model", required=True, metavar="MODEL.pbt", help="model")
    add("-i", "--input", required=True, metavar="LIST_OR_FOLDER", help="a CSV file with the columns case_id and path, or a folder")
    add("-o", "--output", required=True, metavar="FOLDER", dest="out", help="folder for the results; made if missing")
    add("--resume", action="store_true", help="leave out what an earlier run has finished; failed cases are tried again")
    add("--labels", action="store_true", help="write a label map of each case, too")
    add("--no-paths", action="store_true", help="leave paths out of results and tables")
    add("--tables-only", action="store_true", help="write the table alone, and no files of single cases")
    add("--part", type=int, default=32, metavar="N", help="cases that an actor takes at a time [default: 32]")
    add("--cpus", type=int, default=1, metavar="N", help="CPUs, and threads, of an actor [default: 1]")
    add("--gpus", type=float, default=0, metavar="N", help="GPUs of an actor; 0.5: two actors share one [default: 0]")
    add("--actors", type=int, metavar="N", help="actors [default: as many as there is room for]")
    add("--address", metavar="ADDRESS", help="the cluster; auto: that of this machine [default: RAY_ADDRESS, or else a Ray of its own]")
    add("-q", "--quiet", action="store_true", help="print errors only")
    add("--version", action="version", version=f"pbt-ray {__version__}")
    return parser


def _tell(text: str, code: int = _FAILURE) -> int:
    print(text, file=sys.stderr)
    return code


class _Progress:
    """One line that is written over on a terminal; elsewhere a line a minute."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._terminal = quiet, sys.stderr.isatty()
        self._next = time.monotonic()

    def show(self, what: str, done: float) -> None:
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.5 if self._terminal else 60)
        print(f"\r{what}" if self._terminal else what, end="" if self._terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._terminal and not self._quiet:
            print("\r\x1b[K", end="", file=sys.stderr)
