"""Connected components of 256^3 masks, 26 neighbours, by pbt and by cc3d, by turns in one run; for components.sh.

usage: components_peers.py BINARY    the example `components` of pbt-volume

Smooth masks are Gaussian noise blurred by 4 voxels, of which the greatest values are foreground. Both make labels of 32 bits in new
memory. `again` is pbt with memory used before, `16 bits` pbt with labels of as many (cc3d wants 32 for its first labels); `bytes` reads
every voxel and writes every label of 32 bits into new memory, and does nothing else. Medians, and the least in brackets, which says more
where other programs share the machine.
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


def of_pbt(binary, file, bits):
    command = [binary, "time", str(RUNS), file, str(bits), *[str(N)] * 3]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main(binary):
    columns = ["pbt", "again", "16 bits", "bytes", "cc3d"]
    print(f"{'ms':26}" + "".join(f"{name:>16}" for name in columns) + "   cc3d / pbt    components")
    for name, mask in masks():
        ours, narrow, peers = [], [], []
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "mask.raw"
            mask.tofile(file)
            for _ in range(TURNS):
                ours.append(of_pbt(binary, file, 32))
                peers += [of_cc3d(mask) for _ in range(RUNS)]
                narrow.append(of_pbt(binary, file, 16))
        count = ours[0]["components"]
        if any(found != count for _, found in peers):
            sys.exit(f"error: {name}: pbt has {count} components, cc3d {peers[0][1]}")
        runs = [[o["new"] for o in ours], [o["again"] for o in ours], [o["new"] for o in narrow], [o["bytes"] for o in ours]]
        runs.append([(ms, ms) for ms, _ in peers])
        times = [(statistics.median(ms for ms, _ in times), min(ms for _, ms in times)) for times in runs]
        ratios = [times[-1][n] / times[0][n] for n in range(2)]
        cells = [f"{median:8.1f} ({least:5.1f})" for median, least in times]
        print(f"{name:26}" + "".join(cells) + f"{ratios[0]:8.1f} ({ratios[1]:3.1f}){count:12,}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
