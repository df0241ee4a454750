"""Results as DICOM: a structured report of what was found, and a segmentation of the labels.

>>> import pbt.dicom
>>> result = model.detect("ct_series")
>>> pbt.dicom.write_sr(result, "found/liver.sr.dcm")
>>> pbt.dicom.write_seg(result, "found/liver.seg.dcm")

Needs the extra ``dicom`` (highdicom and pydicom).
"""

from ._codes import Codes
from ._report import write_sr
from ._segmentation import write_seg

__all__ = ["Codes", "write_seg", "write_sr"]
