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
        return _tell(f"error: pbt-ray: needs Ray: {error} (pip install 'ray[data]>=2.60,<3')")
    progress = _Progress(quiet)
    try:
        record = run(**options, progress=progress.show)
    except KeyboardInterrupt:
        progress.end()
        what = "error: interrupted (finished parts are kept; go on with --resume)"
        return _tell(what, _INTERRUPTED)
    except Error as error:
        progress.end()
        return _tell(f"error: {error}", _CODES.get(type(error), _FAILURE))
    progress.end()
    for failed in record["failed"]:
        _tell(f"error: case {failed['case_id']}: {failed['reason']}")
    counts = record["counts"]
    if not quiet:
        earlier = f", {counts['resumed']} had a result already" if options["resume"] else ""
        table = os.path.join(options["out"], "detections.parquet")
        _tell(
            f"{counts['cases']} cases: {counts['detected']} done{earlier},"
            f" {counts['failed']} failed; {record['seconds']['total']:.1f} s; table: {table}"
        )
    return _SOME_FAILED if counts["failed"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "pbt-ray",
        description="Detects in very many images with Ray, as `pbt batch` does on one machine.",
        epilog="Example: pbt-ray -m liver.pbt -i list.csv -o found --resume",
    )
    add = parser.add_argument
    required = {"required": True}
    flag = {"action": "store_true"}
    add("-m", "--model", metavar="MODEL.pbt", help="model", **required)
    help = "a folder of images, or a CSV file with the columns case_id and path"
    add("-i", "--input", metavar="MANIFEST_OR_FOLDER", help=help, **required)
    help = "folder for the results; made if missing"
    add("-o", "--output", metavar="FOLDER", dest="out", help=help, **required)
    help = "leave out what an earlier run has finished; failed cases are tried again"
    add("--resume", help=help, **flag)
    add("--labels", help="write a label map of each case, too", **flag)
    add("--no-paths", help="leave paths out of results and tables", **flag)
    add("--tables-only", help="write the table, and no files of single cases", **flag)
    help = "cases that an actor takes at a time [default: 32]"
    add("--part", type=int, default=32, metavar="N", help=help)
    help = "CPUs, and threads, of an actor [default: 1]"
    add("--cpus", type=int, default=1, metavar="N", help=help)
    help = "GPUs of an actor; 0.5: two actors share one [default: 0]"
    add("--gpus", type=float, default=0, metavar="N", help=help)
    help = "number of actors [default: as many as there is room for]"
    add("--actors", type=int, metavar="N", help=help)
    help = "cluster; auto: that of this machine [default: RAY_ADDRESS, or else a Ray of its own]"
    add("--address", metavar="ADDRESS", help=help)
    add("-q", "--quiet", help="print errors only", **flag)
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
        begin, end = ("\r", "") if self._terminal else ("", "\n")
        print(begin, what, sep="", end=end, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._terminal and not self._quiet:
            print("\r\x1b[K", end="", file=sys.stderr)
