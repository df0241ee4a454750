"""Expected values for crates/evaluate/tests/scipy.rs: distances between surfaces by scipy.

Usage: surface_oracle.py FOLDER. Reads FOLDER/request.json (a list of cases, each with `shape`, `spacing_mm` and `tolerance_mm`) and
FOLDER/masks.raw (of each case two masks of u8, i fastest); writes FOLDER/answer.json, a list of `hd95_mm`, `surface_mm`, `nsd`.
"""

import json
import pathlib
import sys

import numpy as np
from scipy import ndimage


def surface(mask):
    return mask & ~ndimage.binary_erosion(mask)


def distances(of, to, spacing):
    """From each surface voxel of one mask to the nearest of the other, mm."""
    return ndimage.distance_transform_edt(~surface(to), sampling=spacing)[surface(of)]


def main(folder):
    voxels = np.fromfile(folder / "masks.raw", np.uint8).astype(bool)
    answers, start = [], 0
    for case in json.loads((folder / "request.json").read_text()):
        size = int(np.prod(case["shape"]))
        a, b = (
            voxels[start + n * size : start + (n + 1) * size].reshape(case["shape"], order="F")
            for n in range(2)
        )
        start += 2 * size
        both = [distances(a, b, case["spacing_mm"]), distances(b, a, case["spacing_mm"])]
        pooled = np.concatenate(both)
        answers.append(
            {
                "hd95_mm": np.percentile(pooled, 95),
                "surface_mm": pooled.mean(),
                "nsd": (pooled <= case["tolerance_mm"]).mean(),
            }
        )
    (folder / "answer.json").write_text(json.dumps(answers))


main(pathlib.Path(sys.argv[1]))
