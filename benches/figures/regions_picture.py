"""The picture of docs/how-to/label-voxels.md: a made data set of two regions, a training on it, and a slice of a new case.

usage: regions_picture.py PBT FOLDER PICTURE.png      (needs numpy, nibabel and pillow)
PBT is the program; FOLDER keeps the data set, the model and the results.
"""

import json
import pathlib
import subprocess
import sys

import nibabel
import numpy
from PIL import Image

SIDE, TRAINING = 64, 6


def scene(seed):
    """A ball in a shell as bright as the rods around it, under a slow change of brightness and noise."""
    random = numpy.random.default_rng(seed)
    grid = numpy.stack(numpy.meshgrid(*[numpy.arange(SIDE, dtype=float)] * 3, indexing="ij"))
    middle = SIDE / 2 + random.uniform(-6, 6, 3)
    axes = random.uniform(11, 16, 3)
    depth = numpy.sqrt((((grid - middle[:, None, None, None]) / axes[:, None, None, None]) ** 2).sum(0))
    labels = numpy.where(depth < 0.72, 1, numpy.where(depth < 1, 2, 0)).astype(numpy.uint8)
    image = numpy.choose(labels, [90.0, 120.0, 170.0])
    for _ in range(7):
        start, direction = random.uniform(4, SIDE - 4, 3), random.normal(size=3)
        direction /= numpy.linalg.norm(direction)
        offset = grid - start[:, None, None, None]
        along = (offset * direction[:, None, None, None]).sum(0)
        rod = ((offset**2).sum(0) - along**2 < random.uniform(4, 12)) & (numpy.abs(along) < 14) & (depth > 1.15)
        image[rod] = 170
    slope = random.normal(size=3) / SIDE * 25
    image += ((grid - SIDE / 2) * slope[:, None, None, None]).sum(0) + random.normal(0, 28, image.shape)
    return numpy.clip(image, 0, 255).astype(numpy.uint8), labels


def coloured(grey, labels):
    picture = numpy.repeat(grey[..., None].astype(float), 3, -1)
    for value, colour in ((1, (255, 120, 60)), (2, (70, 150, 255))):
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
    structures = [{"name": name, "kind": "region"} for name in ("core", "shell")]
    dataset = {"schema": "pbt-dataset/1", "name": "made", "modality": "MR", "structures": structures}
    dataset |= {"labels": {"1": "core", "2": "shell"}, "cases": cases}
    (folder / "dataset.json").write_text(json.dumps(dataset))
    model, new = folder / "regions.pbt", f"c{TRAINING}"
    subprocess.run([pbt, "train", "-i", folder, "-o", model], check=True)
    subprocess.run([pbt, "detect", "-m", model, "-i", folder / f"{new}.nii.gz", "-o", folder], check=True)
    subprocess.run([pbt, "evaluate", "-m", model, "-i", folder], check=True)

    def read(name):
        return numpy.asarray(nibabel.load(folder / f"{name}.nii.gz").dataobj)

    image, found, drawn = read(new), read(f"{new}.labels"), read(f"{new}.mask")
    at = int(round(numpy.nonzero(drawn)[2].mean()))
    panels = [coloured(image[..., at].T, labels[..., at].T) for labels in (drawn * 0, found, drawn)]
    gap = numpy.full((SIDE, 2, 3), 255.0)
    row = numpy.concatenate([panels[0], gap, panels[1], gap, panels[2]], 1).astype(numpy.uint8)
    Image.fromarray(row).resize((row.shape[1] * 4, row.shape[0] * 4), Image.NEAREST).save(picture, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3])
