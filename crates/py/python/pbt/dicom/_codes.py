"""Which code stands for what. Names of structures are free; who has codes for them gives a table."""

from __future__ import annotations

import hashlib
from typing import Mapping, Sequence

from highdicom.sr import CodedConcept
from pydicom.sr.coding import Code
from pydicom.sr.codedict import codes

from .._errors import UsageError

#: For names of structures, their codes: ``{"liver": ("10200004", "SCT", "Liver")}``, each a value, the
#: designator of its scheme and a meaning.
Codes = Mapping[str, Sequence[str]]

#: The scheme of our own codes, for what no standard has one.
_OWN = "99PBT"

#: Most characters of a code's value and of its meaning (value representations SH and LO).
_VALUE, _MEANING = 16, 64

FAMILY = codes.DCM.ArtificialIntelligence
CATEGORY = codes.SCT.AnatomicalStructure
SCORE = codes.DCM.CertaintyOfFinding
#: Lengths of a box's edges along its first, second and third axis.
EDGES = (codes.SCT.Length, codes.SCT.Width, codes.SCT.Depth)
VOLUME = codes.SCT.Volume
MM, PERCENT = codes.UCUM.Millimeter, codes.UCUM.Percent
ML = Code("ml", "UCUM", "milliliter")
RADIUS = CodedConcept("radius_90", _OWN, "Radius that holds 90 of 100 such positions")
STATUS = CodedConcept("status", _OWN, "Status of the detection")
_STATUSES = {
    "found": "Found",
    "doubtful": "Doubtful: have a look",
    "outside": "Outside the image, place extrapolated",
    "absent": "Absent",
}
_PROCEDURES = {
    "CT": codes.SCT.ComputedTomography,
    "MR": Code("113091000", "SCT", "Magnetic resonance imaging"),
    "US": codes.SCT.DiagnosticUltrasonography,
}


def status(name: str) -> CodedConcept:
    return CodedConcept(name, _OWN, _STATUSES.get(name, name))


def procedure(modality: str) -> Code:
    return _PROCEDURES.get(modality, codes.SCT.ImagingProcedure)


def structure(name: str, known: Codes | None) -> CodedConcept:
    """The code of a structure: the one that is known, or one of our own that the name alone decides."""
    if known is not None and name in known:
        code = known[name]
        if isinstance(code, str) or len(code) != 3 or not all(isinstance(c, str) and c for c in code):
            what = "is no code (give value, scheme and meaning)"
            raise UsageError(f"codes: {name}: {what}", field="codes")
        return CodedConcept(*code)
    fits = len(name) <= _VALUE and name.isascii() and name.isprintable() and "\\" not in name
    value = name if fits else hashlib.sha256(name.encode()).hexdigest()[:_VALUE]
    return CodedConcept(value, _OWN, text(name, _MEANING))


def text(name: str, most: int) -> str:
    """A name as a value may have it: no backslash and no control characters, and not too long."""
    shown = "".join(c if c.isprintable() and c != "\\" else "_" for c in name).strip() or "_"
    return shown if len(shown) <= most else shown[: most - 1] + "…"
