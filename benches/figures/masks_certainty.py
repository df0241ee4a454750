"""What results with labels are worth and what they know of it: all labels together as one mask against the true ones, predicted
Dice coefficients against true ones, and how many true volumes lie in their 90 % intervals.

usage: masks_certainty.py DATASET_FOLDER RESULTS [SPLIT]
RESULTS is the folder of `pbt batch -m MODEL -i LIST -o RESULTS --labels`, whose cases have the names of the data set's.
"""

import json
import pathlib
import sys

import nibabel
import numpy
from scipy import ndimage


def surface_distances(a, b, spacing):
    """Distances in mm from the surface voxels of each mask, those with a neighbour outside, to the nearest of the other."""
    surface = lambda mask: mask & ~ndimage.binary_erosion(mask)
    of = lambda a, b: ndimage.distance_transform_edt(~surface(b), sampling=spacing)[surface(a)]
    return numpy.concatenate([of(a, b), of(b, a)])


def main(dataset, results, split="test"):
    dataset, results = pathlib.Path(dataset), pathlib.Path(results)
    described = json.loads((dataset / "dataset.json").read_text())
    values = {}
    for value, name in described["labels"].items():
        values.setdefault(name, []).append(int(value))
    errors, covered, together, hd95, surface = [], [], [], [], []
    for case in described["cases"]:
        result = results / f"{case['id']}.json"
        if case["split"] != split or "labels" not in case or not result.is_file():
            continue
        image = nibabel.load(dataset / case["labels"])
        truth = numpy.asarray(image.dataobj)
        found = numpy.asarray(nibabel.load(results / f"{case['id']}.labels.nii.gz").dataobj)
        voxel_ml = abs(numpy.linalg.det(image.affine)) / 1000
        overlap = lambda a, b: 2 * (a & b).sum() / max(1, a.sum() + b.sum())
        together.append(overlap(truth > 0, found > 0))
        distances = surface_distances(truth > 0, found > 0, image.header.get_zooms()[:3])
        hd95.append(numpy.percentile(distances, 95))
        surface.append(distances.mean())
        for label in (l for d in json.loads(result.read_text())["detections"] for l in d.get("labels", [])):
            inside = numpy.isin(truth, values[label["name"]])
            if label["predicted_dice"] is not None:
                errors.append(abs(overlap(inside, found == label["value"]) - label["predicted_dice"]))
            if label["volume_90_ml"] is not None:
                low, high = label["volume_90_ml"]
                covered.append(low <= inside.sum() * voxel_ml <= high)
    print(f"all labels together, means of {len(together)} cases: Dice coefficient {numpy.mean(together):.3f}, "
          f"HD95 {numpy.mean(hd95):.2f} mm, distance of surfaces {numpy.mean(surface):.2f} mm")
    print(f"predicted Dice: mean absolute error {numpy.mean(errors):.4f} ({len(errors)} labels)")
    print(f"volumes within their intervals: {sum(covered)} of {len(covered)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
