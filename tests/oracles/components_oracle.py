"""Expected values for crates/volume/tests/scipy.rs: connected components by scipy.

Usage: components_oracle.py FOLDER. Reads FOLDER/request.json (a list of shapes [i, j, k] with their connectivity) and
FOLDER/voxels.raw (their masks one after the other, a byte a voxel, i fastest); writes FOLDER/expected.raw (the labels, u32,
little-endian, in the same order).
"""

import json
import pathlib
import sys

import numpy as np
from scipy import ndimage

STRUCTURES = {n: ndimage.generate_binary_structure(3, rank) for n, rank in [(6, 1), (18, 2), (26, 3)]}


def main(folder):
    voxels, place, labels = np.fromfile(folder / "voxels.raw", np.uint8), 0, []
    for case in json.loads((folder / "request.json").read_text()):
        size = int(np.prod(case["shape"]))
        # The last axis of numpy is the fastest.
        mask = voxels[place : place + size].reshape(case["shape"][::-1])
        labels.append(ndimage.label(mask, STRUCTURES[case["connectivity"]])[0].astype("<u4").ravel())
        place += size
    np.concatenate(labels).tofile(folder / "expected.raw")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
