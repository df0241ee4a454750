"""The picture of docs/how-to/segment.md: a made data set of four look-alikes in a bent row, a training on it, and a slice
of a new case.

usage: masks_picture.py PBT FOLDER PICTURE.png      (needs numpy, nibabel and pillow)
PBT is the program; FOLDER keeps the data set, the model and the results.
"""

import json
import pathlib
import subprocess
import sys

import nibabel
import numpy
from PIL import Image

SHAPE, NAMES, TRAINING = (36, 56, 104), ("A", "B", "C", "D"), 12
COLOURS = ((255, 120, 60), (70, 150, 255), (90, 200, 110), (200, 110, 220))


def scene(seed):
    """Four rounded blocks with a thin process each, on a bent line that begins at a bright plate, in noise."""
    random = numpy.random.default_rng(seed)
    grid = numpy.stack(numpy.meshgrid(*[numpy.arange(n, dtype=float) for n in SHAPE], indexing="ij"))
    labels = numpy.zeros(SHAPE, numpy.uint8)
    image = numpy.full(SHAPE, 80.0)
    bend, lean, scale = random.uniform(-0.006, 0.006), random.uniform(-0.15, 0.15), random.uniform(0.92, 1.08)
    start = numpy.array([18, 24, 16]) + random.uniform(-3, 3, 3)
    image[(grid[2] < start[2] - 6) & (grid[2] > start[2] - 10)] = 200
    for n in range(4):
        along = scale * (6 + 20 * n)
        middle = start + [0, lean * along + bend * along**2, along]
        angle = lean + 2 * bend * along
        x, y, z = grid - middle[:, None, None, None]
        y, z = numpy.cos(angle) * y - numpy.sin(angle) * z, numpy.sin(angle) * y + numpy.cos(angle) * z
        size = scale * random.uniform(0.95, 1.05, 3)
        block = (x / 9 / size[0]) ** 4 + (y / 9 / size[1]) ** 4 + (z / 7 / size[2]) ** 4 < 1
        process = (numpy.abs(x) < 2.5) & (y > 0) & (y < 18 * size[1]) & (numpy.abs(z - 0.25 * y) < 2.5)
        labels[(block | process) & (labels == 0)] = n + 1
    image[labels > 0] = 150
    image += 12 * numpy.sin(grid[1] / 9 + random.uniform(0, 6)) + random.normal(0, 24, SHAPE)
    return numpy.clip(image, 0, 255).astype(numpy.uint8), labels


def coloured(grey, labels):
    picture = numpy.repeat(grey[..., None].astype(float), 3, -1)
    for value, colour in enumerate(COLOURS, 1):
        inside = labels == value
        picture[inside] = 0.5 * picture[inside] + 0.5 * numpy.array(colour)
    return picture


def main(pbt, folder, picture):
    folder.mkdir(parents=True, exist_ok=True)
    cases = []
    for n in range(TRAINING + 1):
        image, labels = scene(n)
        for name, voxels in ((f"c{n}", image), (f"c{n}.mask", labels)):
            nibabel.save(nibabel.Nifti1Image(voxels, numpy.eye(4)), folder / f"{name}.nii.gz")
        split = "train" if n < TRAINING else "test"
        cases.append({"id": f"c{n}", "image": f"c{n}.nii.gz", "labels": f"c{n}.mask.nii.gz", "split": split})
    structures = [{"name": name, "kind": "box"} for name in NAMES]
    dataset = {"schema": "pbt-dataset/1", "name": "made", "modality": "MR", "structures": structures}
    dataset |= {"labels": {str(n): name for n, name in enumerate(NAMES, 1)}, "cases": cases}
    (folder / "dataset.json").write_text(json.dumps(dataset))
    model, new = folder / "row.pbt", f"c{TRAINING}"
    subprocess.run([pbt, "train", "-i", folder, "-o", model], check=True)
    subprocess.run([pbt, "detect", "--labels", "-m", model, "-i", folder / f"{new}.nii.gz", "-o", folder], check=True)
    subprocess.run([pbt, "evaluate", "--labels", "-m", model, "-i", folder], check=True)

    def read(name):
        return numpy.asarray(nibabel.load(folder / f"{name}.nii.gz").dataobj)

    image, found, drawn = read(new), read(f"{new}.labels"), read(f"{new}.mask")
    at = int(round(numpy.nonzero(drawn)[0].mean()))
    panels = [coloured(image[at].T[::-1], labels[at].T[::-1]) for labels in (drawn * 0, found, drawn)]
    gap = numpy.full((SHAPE[2], 2, 3), 255.0)
    row = numpy.concatenate([panels[0], gap, panels[1], gap, panels[2]], 1).astype(numpy.uint8)
    Image.fromarray(row).resize((row.shape[1] * 4, row.shape[0] * 4), Image.NEAREST).save(picture, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3])
