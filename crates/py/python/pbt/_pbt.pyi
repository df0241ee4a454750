import os
from typing import Callable

import numpy as np
import numpy.typing as npt

__version__: str

class Model:
    @staticmethod
    def load(path: str | os.PathLike[str]) -> Model: ...
    @property
    def path(self) -> os.PathLike[str]: ...
    @property
    def name(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def structures(self) -> list[tuple[str, list[str]]]: ...
    @property
    def channels(self) -> list[str]: ...
    @property
    def regions(self) -> list[str]: ...
    def detect_file(
        self,
        path: str | os.PathLike[str],
        further: list[str],
        case_id: str | None,
        series: str | None,
        frame: int | None,
        labels: bool,
        device: str,
        threads: int | None,
    ) -> Result: ...
    def detect_array(
        self,
        arrays: list[npt.NDArray[np.float32]],
        affine: list[list[float]],
        is_ras: bool,
        case_id: str | None,
        labels: bool,
        device: str,
        threads: int | None,
    ) -> Result: ...

class Result:
    def to_json(self) -> str: ...
    def write(
        self, folder: str | os.PathLike[str], labels: bool | None, no_paths: bool
    ) -> None: ...
    def labels(self) -> npt.NDArray[np.uint16]: ...

def read_image(
    path: str | os.PathLike[str], series: str | None = None, frame: int | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]: ...
def case_name(path: str | os.PathLike[str]) -> str: ...
def run(
    arguments: list[str], progress: Callable[[str, float], object] | None = None
) -> None: ...
def cases(
    input: str | os.PathLike[str], channels: int = 1
) -> list[tuple[str, os.PathLike[str], str | None, int | None]]: ...
def main(arguments: list[str]) -> int: ...
