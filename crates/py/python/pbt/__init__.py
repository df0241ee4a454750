"""Finds anatomy in 3D medical volumes.

>>> import pbt
>>> model = pbt.load("liver.pbt")
>>> result = model.detect("scan.nii.gz")
>>> result["liver"].position_lps_mm
"""

from ._commands import batch, evaluate, train
from ._errors import DeviceError, Error, InputError, ModelError, UsageError
from ._images import read_image
from ._model import Model, load
from ._pbt import __version__
from ._result import Detection, Result

__all__ = [
    "Detection",
    "DeviceError",
    "Error",
    "InputError",
    "Model",
    "ModelError",
    "Result",
    "UsageError",
    "__version__",
    "batch",
    "evaluate",
    "load",
    "read_image",
    "train",
]
