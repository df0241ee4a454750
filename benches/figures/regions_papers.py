#!/usr/bin/env python3
"""The rows of Sharp's and CURFIL's tables, measured with voxel forests on the CPU; prints Markdown.

usage: regions_papers.py PBT FOLDER [accuracy|nuclei|training|labelling]…      (PBT_DATA names the volumes; needs no package)

Everything is measured within the training cases of the hippocampi (`accuracy`) and the embryo's nuclei (`nuclei`, an hour): test cases
stay unseen. FOLDER keeps data sets and models. Times of training are the processor's; those of labelling the least of several.
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import time

DATA = pathlib.Path(os.environ["PBT_DATA"])
THREADS = "2"
# Forests as small as CURFIL's, so that a row takes seconds.
BASE = {"samples": 60000, "features": 400, "forest": {"trees": 10, "depth": 14, "features_per_node": 0.05}}


def subset(source, path, regions, labels, training, test):
    """A data set of the first training cases, and of others of them as test cases."""
    known = json.loads((DATA / source / "dataset.json").read_text())
    cases = [case for case in known["cases"] if case["split"] == "train"]
    # Cases of one subject, which follow each other, are not divided.
    cases = cases[:training] + cases[-test:]
    made = []
    for n, case in enumerate(cases):
        files = {key: str(DATA / source / case[key]) for key in ("image", "labels")}
        made.append({"id": case["id"], "split": "train" if n < training else "test"} | files)
    structures = [{"name": name, "kind": "region"} for name in regions]
    made = {"schema": "pbt-dataset/1", "name": source, "modality": known["modality"], "structures": structures, "labels": labels, "cases": made}
    path.write_text(json.dumps(made))
    return path


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(v)}" for key, v in value.items()) + " }"
    return json.dumps(value)


def settings(change):
    """BASE with changes by key; `forest.trees` is a key of the forest."""
    regions = {key: dict(value) if isinstance(value, dict) else value for key, value in BASE.items()}
    for key, value in change.items():
        table, _, inner = key.rpartition(".")
        (regions.setdefault(table, {}) if table else regions)[inner] = value
    return "[regions]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in regions.items())


def train(pbt, folder, dataset, change, spacing_mm=None):
    """Trains, and gives back the model and the seconds of each stage."""
    model, config = folder / "model.pbt", folder / "settings.toml"
    working = f"[working]\nspacing_mm = {spacing_mm}\n" if spacing_mm else ""
    config.write_text(working + settings(change))
    command = [pbt, "train", "-q", "-i", dataset, "-o", model, "--config", config, "--threads", THREADS, "--device", "cpu"]
    subprocess.run(command, check=True)
    report = json.loads(model.with_suffix(".train.json").read_text())
    return model, {stage["stage"]: stage["seconds"] for stage in report["stages"]}


def dice(pbt, folder, dataset, change, spacing_mm=None):
    """The mean Dice coefficient over cases and regions, and the seconds of the trees."""
    model, seconds = train(pbt, folder, dataset, change, spacing_mm)
    report = folder / "report.json"
    command = [pbt, "evaluate", "-q", "-m", model, "-i", dataset, "-o", report, "--threads", THREADS, "--device", "cpu"]
    subprocess.run(command, check=True)
    found = [record["dice"] for record in json.loads(report.read_text())["records"] if record["dice"] is not None]
    return sum(found) / len(found), seconds


def cpu_seconds(work):
    """The processor time of the commands that `work` runs, and what it gives back."""
    before = os.times()
    found = work()
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, found


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)
    print(flush=True)


ROWS = {
    "options": [
        ("defaults of this table", {}),
        ("normalised gain", {"forest.gain": "normalised"}),
        ("1 drawn threshold", {"forest.thresholds": 1}),
        ("3 drawn thresholds", {"forest.thresholds": 3}),
        ("20 drawn thresholds", {"forest.thresholds": 20}),
        ("interval tests", {"forest.test": "interval"}),
        ("3 drawn, interval tests", {"forest.thresholds": 3, "forest.test": "interval"}),
        ("ferns, 10 levels", {"forest.shape": "fern", "forest.depth": 10}),
        ("trees, 10 levels", {"forest.depth": 10}),
        ("every tree on a bootstrap sample", {"forest.bootstrap": True}),
        ("majority vote", {"forest.vote": "majority"}),
        ("voxel-uniform samples", {"sampling": "voxel-uniform"}),
        ("without the label prior", {"label_prior": False}),
        ("histogram bias 0.1", {"forest.histogram_bias": 0.1}),
        ("mirrored pairs", {"mirrored": True}),
        ("outside: the border goes on", {"outside": "edge"}),
        ("outside: zeros", {"outside": "zero"}),
        ("boosted, 150 trees of 5 levels", {"classifier": "boosted"}),
    ],
    "trees": [(str(n), {"forest.trees": n}) for n in (1, 3, 10, 30)],
    "levels": [(str(n), {"forest.depth": n}) for n in (4, 8, 12, 18)],
    "channels": [
        ("intensity and gradient", {"scales_mm": []}),
        ("and Gaussians, Laplacians, local mean", {}),
        ("and the place in the image", {"place": True}),
    ],
}


def accuracy(pbt, folder):
    hippocampus = subset("hippocampus", folder / "h.json", ["anterior", "posterior"], {"1": "anterior", "2": "posterior"}, 24, 24)
    accuracy_in(pbt, folder, "hippocampus", hippocampus)


def nuclei(pbt, folder):
    accuracy_in(pbt, folder, "nuclei", subset("embryo_nuclei", folder / "n.json", ["nucleus"], {"*": "nucleus"}, 8, 4))


def accuracy_in(pbt, folder, name, dataset):
    for what, rows in ROWS.items():
        made = []
        for row, change in rows:
            cpu, (found, _) = cpu_seconds(lambda: dice(pbt, folder, dataset, change))
            made.append([row, f"{found:.3f}", f"{cpu:.1f}"])
        table([what, f"{name}: Dice", "CPU seconds, training and test"], made)


def training(pbt, folder):
    dataset = subset("hippocampus", folder / "t.json", ["anterior", "posterior"], {"1": "anterior", "2": "posterior"}, 24, 1)
    rows = []
    for what, change in [
        ("60,000 voxels, 400 features, 10 trees, 14 levels", {}),
        ("120,000 voxels", {"samples": 120000}),
        ("800 features", {"features": 800}),
        ("20 trees", {"forest.trees": 20}),
        ("7 levels", {"forest.depth": 7}),
        ("mirrored pairs", {"mirrored": True}),
    ]:
        cpu, _ = cpu_seconds(lambda: train(pbt, folder, dataset, change))
        rows.append([what, f"{cpu:.1f}"])
    table(["training", "CPU seconds"], rows)


def write_image(path, shape, classes):
    """A made image in noise and its label map: balls of several classes, in NRRD."""
    source = random.Random(4)
    middles = [[source.uniform(0, n) for n in shape] for _ in range(classes - 1)]
    values, labels = bytearray(), bytearray()
    for k in range(shape[2]):
        for j in range(shape[1]):
            for i in range(shape[0]):
                label = 0
                for n, (x, y, z) in enumerate(middles):
                    if (i - x) ** 2 + (j - y) ** 2 + (k - z) ** 2 < (shape[0] / 7) ** 2:
                        label = n + 1
                labels.append(label)
                values += struct.pack("<H", 200 + 90 * label + source.randrange(150))
    for name, kind, data in ((path, "ushort", values), (path.with_suffix(".labels.nrrd"), "uchar", labels)):
        sizes = " ".join(map(str, shape))
        head = f"NRRD0004\ntype: {kind}\ndimension: 3\nspace: left-posterior-superior\nsizes: {sizes}\nspace directions: (1,0,0) (0,1,0) (0,0,1)\n"
        name.write_bytes(f"{head}endian: little\nencoding: raw\nspace origin: (0,0,0)\n\n".encode() + data)


def labelling(pbt, folder):
    """Sharp's two image sizes as cubes of about as many voxels; his forests; the least of nine cold processes."""
    sizes = {"76,800 px / 42³": 42, "307,200 px / 67³": 67}
    rows = []
    for output, trees, classes, flag in [
        ("TreeLeaf, 1 tree", 1, 4, ["--voxel-output", "first-tree-leaf"]),
        ("ForestLeaves, 4 trees", 4, 4, ["--voxel-output", "leaves"]),
        ("Distribution, 8 trees, 4 classes", 8, 4, ["--voxel-output", "probabilities"]),
        ("ArgMax, 8 trees, 23 classes", 8, 23, []),
    ]:
        cells = [output]
        for edge in sizes.values():
            path = folder / f"made{edge}x{classes}.nrrd"
            if not path.exists():
                write_image(path, (edge, edge, edge), classes)
            names = [f"c{n}" for n in range(1, classes)]
            known = {"schema": "pbt-dataset/1", "name": "made", "modality": "MR", "structures": [{"name": n, "kind": "region"} for n in names]}
            known["labels"] = {str(n + 1): name for n, name in enumerate(names)}
            known["cases"] = [{"id": "made", "image": path.name, "labels": path.with_suffix(".labels.nrrd").name, "split": "train"}]
            dataset = folder / "made.json"
            dataset.write_text(json.dumps(known))
            model, _ = train(pbt, folder, dataset, {"forest.trees": trees}, 1.0)
            found, times = folder / "found", []
            for _ in range(9):
                command = [pbt, "detect", "-q", "-m", model, "-i", path, "-o", found, "--threads", "1", "--device", "cpu"]
                subprocess.run(command + flag, check=True)
                times.append(json.loads((found / f"{path.stem}.json").read_text())["run"]["timing_ms"]["label"])
            cells.append(f"{min(times):.0f}")
        rows.append(cells)
    table(["labelling, ms on one thread", *sizes], rows)


def main(pbt, folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        began = time.time()
        {"accuracy": accuracy, "nuclei": nuclei, "training": training, "labelling": labelling}[name](pbt, folder)
        print(f"{name}: {time.time() - began:.0f} s\n", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:] or ["accuracy", "training", "labelling"])
