"""What every written object says of the program that made it."""

from __future__ import annotations

import functools
import os
import warnings
from pathlib import Path
from typing import Any, Callable, TypeVar

from pydicom.dataset import Dataset

from .._errors import Error
from ._source import PathLike

MANUFACTURER = "pbt"

_F = TypeVar("_F", bound=Callable[..., Any])


def quietly(function: _F) -> _F:
    """Keeps warnings of the libraries about the images to ourselves: they show values of the images, such
    as the patient's name, and nobody here can mend them."""

    @functools.wraps(function)
    def quiet(*arguments: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments, **options)

    return quiet  # type: ignore[return-value]


def parameters(record: dict[str, Any]) -> dict[str, str]:
    """Which model made a result, so that it can be made again."""
    model = record["model"]
    return {"model": model["name"], "model_sha256": model["sha256"], "input_sha256": record["input"]["sha256"]}


def save(data: Dataset, out: PathLike) -> None:
    """Writes a file under a temporary name and renames it; its folder is made if missing."""
    path = Path(out)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            data.save_as(part)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise Error(f"{path}: file: {what} (check the folder and the disk)", str(path), "file") from None
