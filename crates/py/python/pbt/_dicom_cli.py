"""The command ``pbt-dicom``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import __version__
from ._errors import DeviceError, Error, InputError, ModelError, UsageError

#: Exit codes, those of ``pbt``.
_FAILURE = 1
_CODES = {UsageError: 2, InputError: 4, ModelError: 5, DeviceError: 6}


def main() -> int:
    """Runs ``pbt-dicom`` with the arguments of the process and returns its exit code."""
    options = _parser().parse_args()
    try:
        from . import dicom
    except ImportError as error:
        return _tell(f"error: pbt-dicom: needs highdicom: {error} (pip install 'pbt[dicom]')")
    try:
        written = _write(dicom, options)
    except Error as error:
        return _tell(f"error: {error}", _CODES.get(type(error), _FAILURE))
    if not options.quiet:
        print(*written, sep="\n", file=sys.stderr)
    return 0


def _write(dicom: object, options: argparse.Namespace) -> list[Path]:
    result = Path(options.result)
    codes = _codes(options.codes)
    case = Path(options.output) / result.name.removesuffix(".json")
    report = case.with_name(case.name + ".sr.dcm")
    dicom.write_sr(result, report, options.source, codes=codes)
    labels = Path(options.labels) if options.labels else result.with_suffix(".pbt.seg.nrrd")
    if not (options.labels or labels.is_file()):
        return [report]
    segmentation = case.with_name(case.name + ".seg.dcm")
    dicom.write_seg(result, segmentation, options.source, labels=labels, codes=codes)
    return [report, segmentation]


def _codes(path: str | None) -> dict[str, list[str]] | None:
    if path is None:
        return None
    try:
        codes = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: file: cannot be read: {error}", path, "file") from None
    if not isinstance(codes, dict):
        raise InputError(f"{path}: codes: is no table (see --help)", path, "codes")
    return codes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "pbt-dicom",
        description="Writes a result of `pbt detect` as DICOM: a structured report (TID 1500),"
        " CASE.sr.dcm, and, where CASE.pbt.seg.nrrd lies beside it, a segmentation, CASE.seg.dcm.",
        epilog="Example: pbt detect -m liver -i ct_series -o found --labels &&"
        " pbt-dicom found/ct_series.json -o found",
    )
    add = parser.add_argument
    add("result", metavar="RESULT.json", help="result of an image that was read from DICOM")
    help = "folder for the files; made if missing"
    add("-o", "--output", metavar="FOLDER", required=True, help=help)
    help = "DICOM file, folder or zip archive of the image [default: where it was detected in]"
    add("-s", "--source", metavar="SERIES", help=help)
    help = "label map, as `pbt detect --labels` writes it [default: CASE.pbt.seg.nrrd, if it is there]"
    add("--labels", metavar="FILE.seg.nrrd", help=help)
    help = 'codes of structures: {"liver": ["10200004", "SCT", "Liver"]}'
    add("--codes", metavar="CODES.json", help=help)
    add("-q", "--quiet", action="store_true", help="print errors only")
    add("--version", action="version", version=f"pbt-dicom {__version__}")
    return parser


def _tell(text: str, code: int = _FAILURE) -> int:
    print(text, file=sys.stderr)
    return code
