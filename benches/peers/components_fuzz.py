"""Labels of pbt against scipy's and cc3d's on random masks and label maps; for components.sh.

usage: components_fuzz.py BINARY N    the example `components` of pbt-volume; N masks and label maps

Each has its own shape, from lines and planes to cubes, and its own kind: single voxels or cuboids, nearly empty to nearly full,
checkerboards, combs and stripes with some voxels flipped. Masks must have scipy's labels, number by number, and label maps those that
scipy gives to one value after the other, numbered anew; all must have cc3d's components.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import cc3d
import numpy as np
from scipy import ndimage

BATCH = 2000
STRUCTURES = {n: ndimage.generate_binary_structure(3, rank) for n, rank in [(6, 1), (18, 2), (26, 3)]}


def shape(random):
    sides = random.integers(1, 20, 3)
    kind = random.integers(0, 4)
    if kind == 0:
        sides[random.integers(0, 3)] = random.integers(20, 200)
    elif kind == 1:
        sides[random.permutation(3)[: random.integers(1, 3)]] = 1
    elif kind == 2:
        # Rows about as long as a word of bits, or two.
        sides[2] = random.choice([63, 64, 65, 127, 128, 129])
    return sides


def voxels(random):
    sides = shape(random)
    grid = np.indices(sides)
    kind = random.integers(0, 6)
    if kind < 3:
        cells = random.integers(1, 4, 3) if kind == 2 else np.ones(3, int)
        coarse = random.random(-(-sides // cells)) < random.uniform(0.05, 0.9)
        mask = coarse[tuple(grid // cells[:, None, None, None])]
    elif kind == 3:
        mask = grid.sum(0) % random.integers(2, 4) == 0
    else:
        axes = random.permutation(3)
        mask = grid[axes[0]] % 2 == 0
        if kind == 4:
            # The teeth of a comb meet in its last plane.
            mask |= grid[axes[1]] == sides[axes[1]] - 1
    if kind >= 3:
        mask = mask ^ (random.random(sides) < random.choice([0, 0.01, 0.1]))
    return mask.astype(np.uint8)


def in_raster_order(labels):
    """The same components, numbered by their first voxels."""
    values, first = np.unique(labels, return_index=True)
    order = values[np.argsort(first)]
    numbers = np.zeros(int(values.max()) + 1, np.uint32)
    order = order[order != 0]
    numbers[order] = np.arange(1, len(order) + 1)
    return numbers[labels]


def of_scipy(v, connectivity, same):
    """Scipy knows masks only: with labels, one mask a label."""
    masks = [v == value for value in np.unique(v[v != 0])] if same else [v]
    labels, count = np.zeros(v.shape, np.uint32), 0
    for mask in masks:
        found, components = ndimage.label(mask, STRUCTURES[connectivity])
        labels[found != 0] = found[found != 0] + count
        count += components
    return in_raster_order(labels) if same else labels


def compare(binary, folder, cases):
    request = [{"shape": v.shape[::-1], "connectivity": n, "labels": same} for v, n, same in cases]
    (folder / "request.json").write_text(json.dumps(request, default=int))
    np.concatenate([v.ravel() for v, _, _ in cases]).tofile(folder / "voxels.raw")
    subprocess.run([binary, "label", folder], check=True)
    ours, place, refused = np.fromfile(folder / "labels.raw", "<u4"), 0, 0
    for v, connectivity, same in cases:
        found = ours[place : place + v.size].reshape(v.shape)
        place += v.size
        expected = [("scipy", of_scipy(v, connectivity, same))]
        try:
            peer = cc3d.connected_components(v if same else v != 0, connectivity=connectivity)
            expected.append(("cc3d", in_raster_order(peer)))
        except RuntimeError:
            # cc3d 4.1.1 makes room for too few labels in some small masks, and gives up.
            refused += 1
        for name, labels in expected:
            if not np.array_equal(found, labels):
                np.save("components-differ.npy", v)
                sys.exit(f"error: {name} differs, {connectivity} neighbours, labels {same}: components-differ.npy")
    return refused


def main(binary, count):
    random = np.random.default_rng(7)
    done, refused = {"masks": 0, "label maps": 0}, 0
    with tempfile.TemporaryDirectory() as folder:
        while sum(done.values()) < count:
            cases = []
            for _ in range(min(BATCH, count - sum(done.values()))):
                v, same = voxels(random), bool(random.random() < 0.3)
                if same:
                    v *= random.integers(1, random.integers(2, 6), v.shape).astype(np.uint8)
                cases.append((v, int(random.choice([6, 18, 26])), same))
            refused += compare(pathlib.Path(binary), pathlib.Path(folder), cases)
            done["label maps"] += sum(same for _, _, same in cases)
            done["masks"] += sum(not same for _, _, same in cases)
            print(f"\r{sum(done.values()):,}", end="", file=sys.stderr, flush=True)
    total = sum(done.values())
    print(f"\n{done['masks']:,} masks and {done['label maps']:,} label maps: {total:,} as scipy has them, {total - refused:,} as cc3d")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
