#!/usr/bin/env python3
"""How often a limit calls the boxes of held-out training cases unlike those of the others, and those of other sets.

usage: PBT_DATA=... benches/figures/kind_of_image.py

The distance is that of crates/detect/src/stages/contents.rs, on points of the annotated boxes in the images as they are. Models of 6, 8
and 20 drawn cases, 60 times; the other training cases of the set are held out. Needs nibabel and numpy.
"""

import json
import os
from pathlib import Path

import nibabel
import numpy

DATA = Path(os.environ["PBT_DATA"])
LPS = numpy.diag([-1.0, -1.0, 1.0, 1.0])
SETS = {
    "hippocampus": ["hippocampus"],
    "lumbar_spine_mr": ["L1", "L3", "L5"],
    "lumbar_spine_mr_t2": ["L1", "L3", "T11"],
    "mouse_skull": ["skull"],
}
LABELS = {
    "head_neck_ct/dataset.json": {1: "Brainstem", 3: "RightParotid", 5: "Mandible", 6: "Larynx"},
    "prostate_us_mr/mr.json": {1: "prostate"},
    "prostate_us_mr/us.json": {1: "prostate"},
}
LIMITS = [(1.5, 1.5), (2.0, 2.0), (2.0, 3.0)]
BELOW = [0.1, 0.3, 0.5, 0.7, 0.9]


def in_12_bits(voxels, window=None):
    if window is None:
        counted = voxels[voxels != 0] if (voxels != 0).mean() >= 0.05 else voxels
        window = numpy.percentile(counted, [1, 99])
    return numpy.clip((voxels - window[0]) / (window[1] - window[0]), 0, 1) * 4095


def training_cases(file, most):
    cases = json.loads((DATA / file).read_text())["cases"]
    for case in cases[:most]:
        if case["split"] != "test":
            image = nibabel.load(DATA / Path(file).parent / case["image"])
            yield case, numpy.asarray(image.dataobj).astype(numpy.float32), LPS @ image.affine


def of_boxes():
    steps = numpy.linspace(-0.45, 0.45, 9)
    places = numpy.stack(numpy.meshgrid(steps, steps, steps), -1).reshape(-1, 3)
    for name, structures in SETS.items():
        for case, voxels, affine in training_cases(f"{name}/dataset.json", 80):
            voxels = in_12_bits(voxels)
            for markup in json.loads((DATA / name / case["annotations"]).read_text())["markups"]:
                if markup["type"] != "ROI" or markup["name"] not in structures:
                    continue
                to_lps = LPS[:3, :3] if markup.get("coordinateSystem") == "RAS" else numpy.eye(3)
                axes = to_lps @ numpy.array(markup["orientation"]).reshape(3, 3)
                points = to_lps @ markup["center"] + (places * markup["size"]) @ axes.T
                index = numpy.rint((points - affine[:3, 3]) @ numpy.linalg.inv(affine[:3, :3]).T)
                i, j, k = numpy.clip(index, 0, numpy.array(voxels.shape) - 1).astype(int).T
                yield (name, markup["name"]), numpy.quantile(voxels[i, j, k], BELOW)


def of_labels():
    for file, labels in LABELS.items():
        window = (-1000, 1500) if "ct" in file else None
        for case, voxels, _ in training_cases(file, 200):
            voxels = in_12_bits(voxels, window)
            classes = numpy.asarray(nibabel.load(DATA / Path(file).parent / case["labels"]).dataobj)
            for value, structure in labels.items():
                found = numpy.argwhere(classes == value)
                if len(found):
                    (a, b, c), (d, e, f) = found.min(0), found.max(0) + 1
                    yield (file, structure), numpy.quantile(voxels[a:d, b:e, c:f], BELOW)


def distance(shown, values):
    return (numpy.abs(values - shown.mean(0)) / (shown.std(0, ddof=1) + 40)).mean(-1)


def main():
    shown = {}
    for key, values in [*of_boxes(), *of_labels()]:
        shown.setdefault(key, []).append(values)
    shown = {key: numpy.array(values) for key, values in shown.items()}
    draw = numpy.random.default_rng(0)
    print("| cases | limit: times the farthest, least | held out, unlike | most of a structure | other sets, unlike |")
    print("|---|---|---|---|---|")
    for cases in (6, 8, 20):
        for times, least in LIMITS:
            wrong, right = {}, []
            for key, values in shown.items():
                if len(values) < cases + 2:
                    continue
                others = [v for other, v in shown.items() if other[0] != key[0] and "ct" not in other[0]]
                for _ in range(60):
                    order = draw.permutation(len(values))
                    kept, held_out = values[order[:cases]], values[order[cases:]]
                    alone = [distance(numpy.delete(kept, n, 0), kept[n]) for n in range(cases)]
                    limit = max(times * max(alone), least)
                    wrong.setdefault(key, []).extend(distance(kept, held_out) > limit)
                    if "ct" not in key[0]:
                        right += [(distance(kept, other) > limit).mean() for other in others]
            every = numpy.concatenate([numpy.array(v) for v in wrong.values()])
            most = max(numpy.mean(v) for v in wrong.values())
            print(f"| {cases} | {times}, {least} | {every.mean():.2%} | {most:.1%} | {numpy.mean(right):.0%} |")


if __name__ == "__main__":
    main()
