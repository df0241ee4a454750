"""Images of other libraries as arrays. None of these libraries is imported here: whoever has such
an image has imported it."""

from __future__ import annotations

import os
import sys
from typing import Any, Literal, Union

import numpy as np
import numpy.typing as npt

from . import _pbt
from ._errors import InputError, UsageError

Space = Literal["LPS", "RAS"]

#: A path, an array indexed [i, j, k], a nibabel image or a SimpleITK image.
ImageLike = Union[str, "os.PathLike[str]", npt.NDArray[Any], Any]

#: How results and errors call an image that is in no file.
_IN_MEMORY = "array"


def read_image(
    path: str | os.PathLike[str], *, series: str | None = None, frame: int | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Reads an image file or a DICOM folder.

    Returns the voxels, indexed ``[i, j, k]``, and the 4×4 affine from index to LPS mm.
    """
    return _pbt.read_image(path, series, frame)


def is_path(image: ImageLike) -> bool:
    return isinstance(image, (str, os.PathLike))


def in_memory(
    image: ImageLike, affine: npt.ArrayLike | None, space: Space, channels: bool
) -> tuple[list[npt.NDArray[np.float32]], list[list[float]], bool]:
    """The voxels of an image, of each of its channels where there may be several, its affine, and
    whether that leads to RAS."""
    if space not in ("LPS", "RAS"):
        raise UsageError(f"space: is {space!r} (give 'LPS' or 'RAS')", field="space")
    if hasattr(image, "GetDirection") and hasattr(image, "GetSpacing"):
        _refuse_affine(affine, "a SimpleITK image")
        voxels, matrix = _of_simple_itk(image)
        is_ras = False
    elif hasattr(image, "dataobj") and hasattr(image, "affine"):
        _refuse_affine(affine, "a nibabel image")
        voxels, matrix = _of_nibabel(image)
        is_ras = True
    elif hasattr(image, "__array__"):
        if affine is None:
            raise UsageError(
                "affine: an array does not say where its voxels lie (give the 4×4 matrix from"
                " [i, j, k] to mm)",
                field="affine",
            )
        voxels, matrix, is_ras = np.asarray(image), affine, space == "RAS"
    else:
        raise UsageError(
            f"image: is a {type(image).__name__} (give a path, a numpy array, a nibabel or a"
            " SimpleITK image)",
            field="image",
        )
    if channels and voxels.ndim == 4:
        each = [_voxels(voxels[..., n]) for n in range(voxels.shape[-1])]
    else:
        each = [_voxels(voxels)]
    return each, _matrix(matrix), is_ras


def case_id_of(image: ImageLike) -> str | None:
    """The name that the case of an image in memory has, where it knows its file, as those of nibabel do."""
    file = getattr(image, "get_filename", lambda: None)()
    return (_pbt.case_name(file) or None) if file else None


def _refuse_affine(affine: npt.ArrayLike | None, what: str) -> None:
    if affine is not None:
        raise UsageError(f"affine: {what} has its own (leave it out)", field="affine")


def _of_nibabel(image: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Indexed [i, j, k], with an affine to RAS mm."""
    if image.affine is None:
        raise InputError("array: affine: the nibabel image has none", _IN_MEMORY, "affine")
    affine = np.array(image.affine, dtype=np.float64)
    units = getattr(image.header, "get_xyzt_units", lambda: ("mm",))()[0]
    affine[:3] *= {"meter": 1e3, "micron": 1e-3}.get(units, 1.0)
    return np.asarray(image.dataobj), affine


def _of_simple_itk(image: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Indexed [k, j, i] there, with spacing, direction and origin in LPS mm."""
    if image.GetDimension() != 3 or image.GetNumberOfComponentsPerPixel() != 1:
        raise InputError(
            f"array: shape: has {image.GetDimension()} dimensions with"
            f" {image.GetNumberOfComponentsPerPixel()} values a voxel (give a 3D image of one)",
            _IN_MEMORY,
            "shape",
        )
    library = sys.modules[type(image).__module__.partition(".")[0]]
    affine = np.eye(4)
    affine[:3, :3] = np.reshape(image.GetDirection(), (3, 3)) * image.GetSpacing()
    affine[:3, 3] = image.GetOrigin()
    return library.GetArrayFromImage(image).T, affine


def _voxels(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    while array.ndim > 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim != 3:
        raise InputError(
            f"array: shape: is {array.shape} (give three dimensions, [i, j, k])",
            _IN_MEMORY,
            "shape",
        )
    if array.dtype.kind not in "buif":
        raise InputError(
            f"array: dtype: is {array.dtype} (give real numbers)", _IN_MEMORY, "dtype"
        )
    # A number too large for float32 becomes infinite, of which the result then warns.
    with np.errstate(over="ignore"):
        return array.astype(np.float32, order="F", copy=False)


def _matrix(affine: npt.ArrayLike) -> list[list[float]]:
    wrong = "give the 4×4 matrix from [i, j, k] to mm, its last row 0 0 0 1"
    try:
        matrix = np.asarray(affine, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"array: affine: is no matrix ({wrong})", _IN_MEMORY, "affine") from None
    if matrix.shape != (4, 4):
        raise InputError(
            f"array: affine: has the shape {matrix.shape} ({wrong})", _IN_MEMORY, "affine"
        )
    if not (np.isfinite(matrix).all() and np.array_equal(matrix[3], [0, 0, 0, 1])):
        raise InputError(
            f"array: affine: has a number that is not finite, or another last row ({wrong})",
            _IN_MEMORY,
            "affine",
        )
    return matrix.tolist()
