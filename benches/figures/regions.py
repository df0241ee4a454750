"""Dice's coefficients of voxel forests on public sets: trains and evaluates, one set after the other.

usage: regions.py PBT FOLDER [hippocampus|nuclei|skull]…      (needs nibabel and numpy; PBT_DATA names the volumes)
PBT is the program; FOLDER keeps data sets, models and reports. The skull is the template of `mouse_skull/atlas`, whose hinder half is
trained on and whose front half is tested.
"""

import json
import os
import pathlib
import subprocess
import sys

import nibabel
import numpy

DATA = pathlib.Path(os.environ["PBT_DATA"])
# Value of the endocast among the labels of the skull; the others are bones.
ENDOCAST = 15


def write(path, name, modality, regions, labels, cases):
    structures = [{"name": region, "kind": "region"} for region in regions]
    known = {"schema": "pbt-dataset/1", "name": name, "modality": modality, "structures": structures, "labels": labels, "cases": cases}
    path.write_text(json.dumps(known))


def as_regions(source, path, regions):
    """A data set with label maps, its structures replaced by regions."""
    known = json.loads((source / "dataset.json").read_text())
    keys = ("id", "split", "subject")
    files = ("image", "labels")
    cases = [{k: c[k] for k in keys if k in c} | {k: str(source / c[k]) for k in files} for c in known["cases"]]
    write(path, known["name"], known["modality"], regions, known["labels"], cases)


def skull(folder, path):
    source = DATA / "mouse_skull" / "atlas"
    image = nibabel.load(source / "low_res_template_UCHAR.nii.gz")
    labels = numpy.asarray(nibabel.load(source / "low_res_template_UCHAR-label.nii.gz").dataobj)
    bone = ((labels > 0) & (labels != ENDOCAST)).astype(numpy.uint8)
    half, cases = image.shape[1] // 2, []
    for name, part, split in (("hinder", slice(0, half), "train"), ("front", slice(half, None), "test")):
        cut = image.slicer[:, part, :]
        nibabel.save(cut, folder / f"{name}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(bone[:, part, :], cut.affine), folder / f"{name}.labels.nii.gz")
        cases.append({"id": name, "image": f"{name}.nii.gz", "labels": f"{name}.labels.nii.gz", "split": split})
    # One scan in one unit: a window for both halves, as for CT.
    write(path, "skull", "CT", ["bone"], {"1": "bone"}, cases)


def run(pbt, path, more=()):
    model = path.with_suffix(".pbt")
    print(path.stem, *more, flush=True)
    subprocess.run([pbt, "train", "-q", "-i", path, "-o", model, *more], check=True)
    subprocess.run([pbt, "evaluate", "-m", model, "-i", path, "-o", path.with_suffix(".report.json")], check=True)


def main(pbt, folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    path = {name: folder / f"{name}.json" for name in ("hippocampus", "nuclei", "skull")}
    if "hippocampus" in names:
        as_regions(DATA / "hippocampus", path["hippocampus"], ["anterior", "posterior"])
        run(pbt, path["hippocampus"], ["--cases", "10"])
        run(pbt, path["hippocampus"])
    if "nuclei" in names:
        as_regions(DATA / "embryo_nuclei", path["nuclei"], ["nucleus"])
        run(pbt, path["nuclei"])
    if "skull" in names:
        skull(folder, path["skull"])
        run(pbt, path["skull"])


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:] or ["hippocampus", "nuclei", "skull"])
