"""A run: the list in parts, actors of Ray Data that work through them, one table at the end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Iterator

import ray
import ray.data

from .. import __version__, _errors
from .._commands import PathLike, Progress
from .._errors import DeviceError, Error, UsageError
from .._model import Model, load
from ._cases import list_cases
from ._detector import SCHEMA
from ._parts import FOLDER, Part, gather, parts_of, read_record
from ._worker import Job, Worker

#: The table, and the record of the run.
_TABLE, _RUN = "detections.parquet", "run.json"


def run(
    model: Model | PathLike,
    input: PathLike,
    out: PathLike,
    *,
    resume: bool = False,
    labels: bool = False,
    no_paths: bool = False,
    tables_only: bool = False,
    part: int = 32,
    cpus: int = 1,
    gpus: float = 0,
    actors: int | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Detects in all images of a folder or a list, as ``pbt-ray`` does, and writes
    ``detections.parquet`` into the folder ``out``, with the rows of ``pbt batch``, and the files of
    ``pbt detect`` for each case unless ``tables_only``. Returns ``run.json``: its ``failed`` lists
    the cases that could not be read or used.

    Each of the ``actors``, by default as many as the cluster has room for, has ``cpus`` threads and
    ``gpus`` GPUs (½: two share one), reads the model once, and takes ``part`` cases at a time. With
    ``resume``, parts that an earlier run with this list, model and options has finished are left
    alone, and their failed cases are tried again.

    Uses the Ray that the process is connected to, or else the one at ``address`` (``auto``: that of
    this machine) or in ``RAY_ADDRESS``, or else one of its own on this machine.
    """
    begun = time.time()
    _check(part=part, cpus=cpus, gpus=gpus, actors=actors)
    loaded = load(model.path if isinstance(model, Model) else model)
    parts = parts_of(list_cases(input, len(loaded.channels)), part)
    job = Job(
        model=loaded._absolute_path,
        model_sha256=loaded.sha256,
        out=Path(out).absolute(),
        labels=labels,
        no_paths=no_paths,
        tables_only=tables_only,
    )
    with _writing(job.out):
        to_do = _prepare(job, parts, resume)
    cases = sum(len(each.cases) for each in parts)
    done = finished = cases - sum(len(each.cases) for each in to_do)
    told: list[dict[str, Any]] = []
    used = 0
    if to_do:
        with _ray(address):
            used = min(len(to_do), _fitting(cpus, gpus) if actors is None else actors)
            for each in _work(job, to_do, used, cpus, gpus):
                told.append(each)
                done += each["cases"]
                if progress is not None:
                    progress(f"{done} of {cases} cases", done / cases)
    failed = _failed(parts, told, no_paths)
    resumed = finished + sum(each["resumed"] for each in told)
    record = {
        "schema": "pbt-run/1",
        "pbt_version": __version__,
        "input": "" if no_paths else os.fspath(input),
        "model": {"name": loaded.name, "sha256": loaded.sha256, "version": loaded.version},
        "model_path": "" if no_paths else loaded.path,
        "device": next((each["device"] for each in told if each["device"]), None),
        "options": {
            "shard": None,
            "resume": resume,
            "labels": labels,
            "no_paths": no_paths,
            "tables_only": tables_only,
            "part": part,
            "actors": used,
            "cpus": cpus,
            "gpus": gpus,
        },
        "counts": {
            "cases": cases,
            "detected": cases - resumed - len(failed),
            "resumed": resumed,
            "failed": len(failed),
        },
        "failed": failed,
        "seconds": {
            "start": min((each["begun"] for each in told), default=begun) - begun,
            "load": sum(each["load_seconds"] for each in told),
            "detect": sum(each["detect_seconds"] for each in told),
        },
    }
    with _writing(job.out):
        gather([each.path(job.out) for each in parts], SCHEMA, job.out / _TABLE)
        record["seconds"]["total"] = time.time() - begun
        beside = job.out / f".{_RUN}.{os.getpid()}.pbt-tmp"
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, job.out / _RUN)
    return record


def _failed(parts: list[Part], told: list[dict[str, Any]], no_paths: bool) -> list[dict[str, Any]]:
    """The cases that failed, in the order of the list."""
    of = {each["case_id"]: each for part in told for each in part["failed"]}
    listed = [of[case.case_id] for part in parts for case in part.cases if case.case_id in of]
    return [{**each, "path": ""} for each in listed] if no_paths else listed


@contextlib.contextmanager
def _writing(out: Path) -> Iterator[None]:
    """Errors of the system as errors of this package."""
    try:
        yield
    except OSError as error:
        file = str(error.filename or out)
        what = f"{file}: file: cannot be written: {error.strerror}"
        raise Error(what, file, "file") from None


def _check(**options: float | None) -> None:
    least = {"part": 1, "cpus": 1, "gpus": 0, "actors": 1}
    for name, value in options.items():
        if value is not None and not value >= least[name]:
            raise UsageError(f"{name}: is {value} (give {least[name]} or more)", field=name)


def _prepare(job: Job, parts: list[Part], resume: bool) -> list[Part]:
    """Makes the folder and returns the parts that are not finished there."""
    folder = job.out / FOLDER
    keys = [job.key(part) for part in parts]
    ours = {part.path(job.out) for part in parts}
    ours |= {part.journal(job.out, key) for part, key in zip(parts, keys)}
    if not resume and folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # What killed processes left, and what belongs to another list.
    for path in [*job.out.glob(".*.pbt-tmp"), *folder.iterdir()]:
        if path not in ours:
            path.unlink()

    def finished(part: Part, key: str) -> bool:
        record = read_record(part.path(job.out))
        return record is not None and record["key"] == key and record["failed"] == 0

    return [part for part, key in zip(parts, keys) if not finished(part, key)]


def _work(
    job: Job, parts: list[Part], actors: int, cpus: int, gpus: float
) -> Iterator[dict[str, Any]]:
    """Works through the parts, and yields what came of each as soon as it is done."""
    items = [{"number": part.number, "cases": json.dumps(part.cases)} for part in parts]
    # A block a part, so that each goes to whichever actor is free.
    todo = ray.data.from_items(items, override_num_blocks=len(items))
    todo.context.enable_progress_bars = False
    todo.context.print_on_execution_start = False
    done = todo.map_batches(
        Worker,
        fn_constructor_args=[job],
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=2),
        num_cpus=cpus,
        num_gpus=gpus,
    )
    try:
        for row in done.iter_rows():
            told = json.loads(row["told"])
            if "error" in told:
                name, *error = told["error"]
                raise getattr(_errors, name)(*error)
            yield told
    except ray.exceptions.RayError as error:
        last = str(error).strip().rpartition("\n")[2]
        raise Error(f"ray: {last} (finished parts are kept; go on with --resume)") from error


@contextlib.contextmanager
def _ray(address: str | None) -> Iterator[None]:
    """A connection to Ray, closed again if it was opened here."""
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": "error"}
    address = address or os.environ.get("RAY_ADDRESS")
    if address:
        ray.init(address=address, **quiet)
    else:
        # Schedulers of clusters give a job some cores of a machine, which Ray does not see.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
    try:
        yield
    finally:
        ray.shutdown()


def _fitting(cpus: int, gpus: float) -> int:
    """How many actors the machines of the cluster have room for."""

    def on(resources: dict[str, float]) -> int:
        by_cpus = resources.get("CPU", 0) // cpus
        return int(min(by_cpus, resources.get("GPU", 0) // gpus) if gpus else by_cpus)

    actors = sum(on(node["Resources"]) for node in ray.nodes() if node["Alive"])
    if actors == 0 and gpus:
        raise DeviceError(f"gpus: no machine has {cpus} CPUs and {gpus} GPUs", field="gpus")
    if actors == 0:
        raise UsageError(f"cpus: no machine has {cpus} CPUs", field="cpus")
    return actors
