"""The commands that work on many cases. Options have the names that they have there; what the
commands print is left out but for warnings, which are a ``UserWarning`` each, and Ctrl-C stops them
at their next step."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Callable, Sequence, Union

from . import _pbt
from ._model import Model, check_threads, load

PathLike = Union[str, "os.PathLike[str]"]

#: Called with what is being worked on, and the share of the whole that is done, 0 to 1.
Progress = Callable[[str, float], object]


def train(
    dataset: PathLike,
    out: PathLike,
    *,
    structure: str | Sequence[str] = (),
    config: PathLike | None = None,
    classifier: str | None = None,
    seed: int = 0,
    cases: int | None = None,
    resume: bool = False,
    no_segmentation: bool = False,
    quick: bool = False,
    device: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Model:
    """Trains a model on the cases of a data set whose split is ``train``, as ``pbt train`` does.

    Writes ``out`` and, beside it, ``.train.toml`` and ``.train.json``. After Ctrl-C, finished
    stages are kept: go on with ``resume=True``.
    """
    options = _options(
        input=dataset,
        output=out,
        structure=structure,
        config=config,
        classifier=classifier,
        seed=seed,
        cases=cases,
        resume=resume,
        no_segmentation=no_segmentation,
        quick=quick,
        device=device,
        threads=check_threads(threads),
    )
    _pbt.run(["train", *options], progress)
    return load(out)


def evaluate(
    dataset: PathLike,
    model: Model | PathLike | None = None,
    *,
    split: str | None = None,
    output: PathLike | None = None,
    results: PathLike | None = None,
    compare: tuple[Model | PathLike, Model | PathLike] | None = None,
    leave_one_out: bool = False,
    labels: bool = False,
    folds: int | None = None,
    structure: str | Sequence[str] = (),
    cases: int | None = None,
    tolerance: float | None = None,
    config: PathLike | None = None,
    seed: int | None = None,
    models: PathLike | None = None,
    quick: bool = False,
    device: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Detects in the cases of a split (``test`` by default) and compares with the annotations, as
    ``pbt evaluate`` does; ``labels`` compares label maps. Returns the report; ``output`` is a file
    for it. ``models`` is a folder for the models of a cross-validation, which goes on there after
    Ctrl-C."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(output if output is not None else Path(folder) / "report.json")
        options = _options(
            input=dataset,
            model=model.path if isinstance(model, Model) else model,
            split=split,
            output=report,
            results=results,
            leave_one_out=leave_one_out,
            labels=labels,
            folds=folds,
            structure=structure,
            cases=cases,
            tolerance=tolerance,
            config=config,
            seed=seed,
            models=models,
            quick=quick,
            device=device,
            threads=check_threads(threads),
        )
        if compare is not None:
            options += ["--compare", *map(_side, compare)]
        _pbt.run(["evaluate", *options], progress)
        return json.loads(report.read_text(encoding="utf-8"))


def _side(side: Model | PathLike) -> str:
    """What is compared: an absolute path, which no option can look like, or the name of a model."""
    path = os.fspath(side.path if isinstance(side, Model) else side)
    return os.path.abspath(path) if os.path.exists(path) else path


def batch(
    model: Model | PathLike,
    input: PathLike,
    out: PathLike,
    *,
    shard: str | None = None,
    resume: bool = False,
    labels: bool = False,
    probabilities: bool = False,
    voxel_output: str | Sequence[str] = (),
    no_paths: bool = False,
    crop: str | Sequence[str] = (),
    margin_mm: float | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Detects in all images of a folder or a list, as ``pbt batch`` does, and writes results and
    tables into the folder ``out``. Returns ``run.json``: its ``failed`` lists the cases that could
    not be read or used."""
    options = _options(
        model=model.path if isinstance(model, Model) else model,
        input=input,
        output=out,
        shard=shard,
        resume=resume,
        labels=labels,
        probabilities=probabilities,
        voxel_output=voxel_output,
        no_paths=no_paths,
        crop=crop,
        margin_mm=margin_mm,
        device=device,
        threads=check_threads(threads),
    )
    _pbt.run(["batch", *options], progress)
    return json.loads((Path(out) / "run.json").read_text(encoding="utf-8"))


def _options(**options: Any) -> list[str]:
    """Keywords as options of the command line."""
    arguments: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif isinstance(value, (list, tuple)):
            arguments += [f"{option}={each}" for each in value]
        elif value is not None and value is not False:
            text = os.fspath(value) if isinstance(value, os.PathLike) else value
            arguments.append(f"{option}={text}")
    return arguments
