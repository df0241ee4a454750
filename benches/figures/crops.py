#!/usr/bin/env python3
"""How many structures are found in crops that leave them at least half in view.

usage: PBT_DATA=... benches/figures/crops.py PBT MODEL SET OUT [--names]

Cuts each test volume of SET four times to 45-75 % of its height, detects, and counts the annotated boxes by their share in view. With --names
only a detection of that name counts; without, any that is nearer than a quarter of the box's size (models of "instances": "many").
Needs nibabel and numpy.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import nibabel
import numpy

LPS = numpy.diag([-1.0, -1.0, 1.0, 1.0])
CROPS = 4


def boxes(path):
    """Name, centre, axes and size of each box, LPS mm."""
    for markup in json.loads(path.read_text())["markups"]:
        if markup["type"] != "ROI":
            continue
        to_lps = LPS[:3, :3] if markup.get("coordinateSystem") == "RAS" else numpy.eye(3)
        axes = to_lps @ numpy.array(markup["orientation"]).reshape(3, 3)
        yield markup["name"], to_lps @ markup["center"], axes, numpy.array(markup["size"])


def in_view(affine_lps, shape, center, axes, size):
    """Share of a box inside an image."""
    steps = numpy.linspace(-0.475, 0.475, 12)
    places = numpy.stack(numpy.meshgrid(steps, steps, steps), -1).reshape(-1, 3) * size
    points = center + places @ axes.T
    index = (points - affine_lps[:3, 3]) @ numpy.linalg.inv(affine_lps[:3, :3]).T
    return ((index >= -0.5) & (index <= numpy.array(shape) - 0.5)).all(1).mean()


def main():
    names = "--names" in sys.argv
    pbt, model, dataset, out = [a for a in sys.argv[1:] if a != "--names"]
    folder, out = Path(os.environ["PBT_DATA"]) / dataset, Path(out)
    (out / "images").mkdir(parents=True, exist_ok=True)
    draw, truth = random.Random(7), {}
    for case in json.loads((folder / "dataset.json").read_text())["cases"]:
        if case["split"] != "test":
            continue
        image = nibabel.load(folder / case["image"])
        voxels = numpy.asarray(image.dataobj)
        axis = int(numpy.argmax(numpy.abs(image.affine[2, :3])))
        for n in range(CROPS):
            share = draw.uniform(0.45, 0.75)
            first = int(draw.uniform(0, 1 - share) * voxels.shape[axis])
            last = int(first + share * voxels.shape[axis])
            affine = image.affine.copy()
            affine[:3, 3] += affine[:3, axis] * first
            part = numpy.take(voxels, range(first, last), axis)
            name = f"{case['id']}-{n}"
            nibabel.save(nibabel.Nifti1Image(part, affine), out / "images" / f"{name}.nii.gz")
            annotated = list(boxes(folder / case["annotations"]))
            view = [in_view(LPS @ affine, part.shape, *box[1:]) for box in annotated]
            truth[name] = list(zip(annotated, view))
    results = out / "results"
    subprocess.run([pbt, "batch", "-q", "-m", model, "-i", out / "images", "-o", results], check=True)
    counts = {"at least half in view": [0, 0, 0], "wholly in view": [0, 0, 0], "out of view": [0, 0, 0]}
    for name, annotated in truth.items():
        detections = json.loads((results / f"{name}.json").read_text())["detections"]
        for (structure, center, _, size), view in annotated:
            limit = 0.25 * numpy.prod(size) ** (1 / 3)
            near = {
                d["status"]
                for d in detections
                if d["position_lps_mm"] and numpy.linalg.norm(center - d["position_lps_mm"]) < limit
                and (not names or d["name"] == structure)
            }
            kinds = ["at least half in view"] if view >= 0.5 else []
            kinds += ["wholly in view"] if view > 0.999 else []
            kinds += ["out of view"] if view <= 0.02 else []
            for kind in kinds:
                counts[kind][0] += 1
                counts[kind][1] += "found" in near
                counts[kind][2] += "doubtful" in near and "found" not in near
    print("| boxes | n | found | doubtful |\n|---|---|---|---|")
    for kind, (n, found, doubtful) in counts.items():
        print(f"| {kind} | {n} | {found} | {doubtful} |")


if __name__ == "__main__":
    main()
