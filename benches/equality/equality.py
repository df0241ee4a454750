#!/usr/bin/env python3
"""Are models and results the same bytes on the CPU, on the GPU and with any number of threads?

    python3 benches/equality/equality.py [SET]... [--cases N] [--images N] [--config FILE]
                                         [--structure NAME]... [--threads 1,2,...]

Trains each set (a path below PBT_DATA, or any path; lumbar_spine_mr, mouse_skull and hippocampus
where none is named) on every device and with every number of threads, detects in its first test
cases with each model's own device, and compares SHA-256 of the models and of the results without
`run`, the record of the run. Prints a table; the exit code is 1 where anything differs. Without a
GPU it says so and compares numbers of threads alone.

PBT_BIN is the folder of `pbt` (else target/release). Python 3.8 or later, no packages.
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETS = ["lumbar_spine_mr", "mouse_skull", "hippocampus"]


def main():
    options = arguments()
    pbt = Path(os.environ.get("PBT_BIN") or "target/release") / "pbt"
    runs = [("cpu", threads) for threads in options.threads]
    gpu = gpu_name(pbt)
    if gpu:
        print(f"GPU: {gpu}")
        runs += [("gpu", threads) for threads in options.threads]
    else:
        print("no GPU: only numbers of threads are compared")
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.sets or SETS:
            different += compare(pbt, name, runs, options, Path(folder))
    print("all the same" if different == 0 else f"DIFFERENT: {different} run(s)")
    return 1 if different else 0


def arguments():
    counts = sorted({1, 2, os.cpu_count() or 1})
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--cases", type=int, help="train on the first N cases")
    parser.add_argument("--images", type=int, default=3, help="detect in the first N test cases")
    parser.add_argument("--config", help="settings of the trainings")
    parser.add_argument("--structure", action="append", default=[], help="train only this one")
    parser.add_argument(
        "--threads",
        type=lambda text: [int(n) for n in text.split(",")],
        default=counts,
        help="numbers of CPU threads, on the GPU too",
    )
    return parser.parse_args()


def gpu_name(pbt):
    listed = subprocess.run(
        [pbt, "info", "--devices", "--json"], check=True, stdout=subprocess.PIPE
    )
    devices = json.loads(listed.stdout)["devices"]
    return next((device["name"] for device in devices if device["kind"] == "gpu"), None)


def compare(pbt, name, runs, options, folder):
    """Prints the rows of a set; the number of runs that differ from its first."""
    dataset = find(name)
    images = test_images(dataset, options.images)
    print(f"\n{name}\n  device threads  train s  detect s  model             results")
    first, different = None, 0
    for device, threads in runs:
        out = Path(tempfile.mkdtemp(dir=folder))
        common = ["-q", "--device", device, "--threads", str(threads)]
        train = [pbt, "train", "-i", dataset, "-o", out / "model.pbt", *common]
        train += ["--cases", str(options.cases)] if options.cases else []
        train += ["--config", options.config] if options.config else []
        for structure in options.structure:
            train += ["--structure", structure]
        trained = timed(train)
        detected = 0.0
        results = hashlib.sha256()
        for case, image in images:
            # A folder of its own, since two images may have one name.
            detect = [pbt, "detect", "-m", out / "model.pbt", "-i", image, "-o", out / case]
            detected += timed(detect + common)
            results.update(without_run(out / case))
        hashes = (
            hashlib.sha256((out / "model.pbt").read_bytes()).hexdigest(),
            results.hexdigest(),
        )
        first = first or hashes
        same = hashes == first
        different += not same
        print(
            f"  {device:6} {threads:7} {trained:8.1f} {detected:9.1f}"
            f"  {hashes[0][:16]}  {hashes[1][:16]}{'' if same else '  DIFFERENT'}",
            flush=True,
        )
    return different


def find(name):
    data = os.environ.get("PBT_DATA")
    below = Path(data) / name if data else None
    path = below if below and below.exists() else Path(name)
    return path / "dataset.json" if path.is_dir() else path


def test_images(dataset, count):
    cases = json.loads(dataset.read_text())["cases"]
    chosen = [case for case in cases if case["split"] == "test"][:count]
    return [(case["id"], dataset.parent / case["image"]) for case in chosen]


def timed(command):
    begun = time.monotonic()
    done = subprocess.run([str(part) for part in command])
    if done.returncode != 0:
        sys.exit(f"error: exit code {done.returncode}: {' '.join(map(str, command))}")
    return time.monotonic() - begun


def without_run(folder):
    """The result of the one image in a folder, as bytes."""
    (path,) = (file for file in folder.glob("*.json") if not file.name.endswith(".mrk.json"))
    result = json.loads(path.read_text())
    del result["run"]
    return json.dumps(result, sort_keys=True).encode()


if __name__ == "__main__":
    sys.exit(main())
