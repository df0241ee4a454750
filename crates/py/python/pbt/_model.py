"""Models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy.typing as npt

from . import _pbt
from ._errors import UsageError
from ._images import ImageLike, Space, case_id_of, in_memory, is_path
from ._result import Result


class Structure(NamedTuple):
    """A structure that a model finds."""

    name: str
    #: ``box``, ``landmark`` or ``region``
    kind: str
    #: The box in whose frame a landmark is found.
    parent: str | None


class Model:
    """A trained model; made by :func:`load`."""

    def __init__(self, model: _pbt.Model) -> None:
        self._model = model

    @property
    def path(self) -> str:
        """Its file; of a model that is in the package its name."""
        return os.fspath(self._model.path)

    @property
    def name(self) -> str:
        """Its name in results: that of its file."""
        return self._model.name

    @property
    def sha256(self) -> str:
        """Hash of its file."""
        return self._model.sha256

    @property
    def version(self) -> str:
        """The version of pbt that trained it."""
        return self._model.version

    @property
    def channels(self) -> list[str]:
        """Names of the channels that images must have, in their order; empty where there is only
        one."""
        return self._model.channels

    @property
    def structures(self) -> list[Structure]:
        """What it finds."""
        boxes = [
            structure
            for box, landmarks in self._model.structures
            for structure in (
                Structure(box, "box", None),
                *(Structure(name, "landmark", box) for name in landmarks),
            )
        ]
        return boxes + [Structure(name, "region", None) for name in self._model.regions]

    def detect(
        self,
        image: ImageLike | Sequence[str | os.PathLike[str]],
        affine: npt.ArrayLike | None = None,
        space: Space = "LPS",
        *,
        device: str = "auto",
        threads: int | None = None,
        case_id: str | None = None,
        series: str | None = None,
        frame: int | None = None,
        labels: bool = False,
    ) -> Result:
        """Finds every structure in an image.

        ``image`` is the path of a file or DICOM folder, an array indexed ``[i, j, k]``, a nibabel
        image or a SimpleITK image. An array needs the 4×4 ``affine`` from index to millimetres,
        which leads to ``space``. Results are in LPS, whatever the image.

        For a model of several :attr:`channels` it is a file that holds them all, a list of the files
        of the channels, or an array or nibabel image indexed ``[i, j, k, channel]``.

        ``device`` is ``auto``, ``cpu``, ``gpu`` or ``gpu:N``; ``threads`` those of the CPU, all
        cores by default. Results depend on neither. ``case_id`` names the case and the
        files of :meth:`Result.write`, by default after the file, also that of a nibabel image; other images in memory are
        called ``array``. ``series`` and ``frame`` choose one of several volumes of a file or folder.
        ``labels`` asks for the labels about the boxes, where the model has learned them:
        :meth:`Result.labels`, and ``volume_ml`` and ``predicted_dice`` of the detections.
        """
        threads = check_threads(threads)
        if is_path(image):
            if affine is not None:
                raise UsageError("affine: a file has its own (leave it out)", field="affine")
            return self._detect_files([image], case_id, series, frame, labels, device, threads)
        if isinstance(image, (list, tuple)) and image and all(is_path(path) for path in image):
            if affine is not None:
                raise UsageError("affine: files have their own (leave it out)", field="affine")
            return self._detect_files(image, case_id, series, frame, labels, device, threads)
        if series is not None or frame is not None:
            raise UsageError("series, frame: are for files (give one volume)", field="series")
        case_id = case_id_of(image) if case_id is None else case_id
        voxels, matrix, is_ras = in_memory(image, affine, space, len(self.channels) > 1)
        return Result(
            self._model.detect_array(
                voxels, matrix, is_ras, case_id, labels, device, threads
            )
        )

    def _detect_files(
        self,
        files: Sequence[str | os.PathLike[str]],
        case_id: str | None,
        series: str | None,
        frame: int | None,
        labels: bool,
        device: str,
        threads: int | None,
    ) -> Result:
        path, *further = map(os.fspath, files)
        return Result(
            self._model.detect_file(
                path, further, case_id, series, frame, labels, device, threads
            )
        )

    def __repr__(self) -> str:
        names = ", ".join(structure.name for structure in self.structures[:5])
        more = len(self.structures) - 5
        return f"<pbt.Model {self.name}: {names}{f' and {more} more' if more > 0 else ''}>"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        # Other processes read the file anew.
        return load, (self._absolute_path,)

    @property
    def _absolute_path(self) -> str:
        """Its path for processes in other folders."""
        return os.path.abspath(self.path) if os.path.exists(self.path) else self.path


def load(path: str | os.PathLike[str]) -> Model:
    """Reads a model: a file, or one that has this name in ``models`` of the current folder, in the
    folders that the variable ``PBT_MODELS`` lists, or in the package: ``phantom-ct``, ``phantom-mr``,
    ``phantom-us``."""
    return Model(_pbt.Model.load(path))


def check_threads(threads: int | None) -> int | None:
    if threads is not None and not 1 <= threads <= 1024:
        raise UsageError(f"threads: is {threads} (give 1 to 1024)", field="threads")
    return threads
