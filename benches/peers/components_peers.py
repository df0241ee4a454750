"""Connected components of 256^3 masks, 26 neighbours, by pbt and by cc3d, by turns in one run; for components.sh.

usage: components_peers.py BINARY    the example `components` of pbt-volume

Smooth masks are Gaussian noise blurred by 4 voxels, of which the greatest values are foreground. Both make labels of 32 bits in new
memory. `again` is pbt with memory used before; `bytes` reads every voxel and writes every label, and does nothing else.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import cc3d
import numpy as np
from scipy import ndimage

N = 256
TURNS = 5
RUNS = 5


def masks():
    random = np.random.default_rng(1)
    noise = ndimage.gaussian_filter(random.standard_normal((N, N, N), np.float32), 4, mode="wrap")
    for share in [0.1, 0.5]:
        yield f"smooth, {share:.0%} foreground", (noise > np.quantile(noise, 1 - share)).astype(np.uint8)
    uniform = random.random((N, N, N), np.float32)
    for share in [0.1, 0.2, 0.3, 0.5]:
        yield f"random, {share:.0%} foreground", (uniform < share).astype(np.uint8)


def of_cc3d(mask):
    started = time.perf_counter()
    labels = cc3d.connected_components(mask, connectivity=26, out_dtype=np.uint32)
    return (time.perf_counter() - started) * 1e3, int(labels.max())


def main(binary):
    print(f"{'ms, medians':28}{'pbt':>8}{'again':>8}{'bytes':>8}{'cc3d':>8}   cc3d / pbt   components")
    for name, mask in masks():
        ours, peers = [], []
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "mask.raw"
            mask.tofile(file)
            for _ in range(TURNS):
                command = [binary, "time", str(RUNS), file, *[str(N)] * 3]
                ours.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
                peers += [of_cc3d(mask) for _ in range(RUNS)]
        count = ours[0]["components"]
        if any(found != count for _, found in peers):
            sys.exit(f"error: {name}: pbt has {count} components, cc3d {peers[0][1]}")
        new, again, moved = (statistics.median(o[key] for o in ours) for key in ["new", "again", "bytes"])
        peer = statistics.median(ms for ms, _ in peers)
        print(f"{name:28}{new:8.1f}{again:8.1f}{moved:8.1f}{peer:8.1f}{peer / new:13.1f}{count:13,}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
