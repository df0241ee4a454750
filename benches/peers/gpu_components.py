"""Connected components of 512^3 masks on the GPU by CuPy and, where it is there, bkeccl: run it in the same call as the bench.

usage: gpu_components.py      needs cupy with CUDA and scipy

The kinds of masks of `cargo bench -p pbt-gpu --bench components`; mask (a byte a voxel) and labels (32 bits) on the device, device events,
warm, median. Block-based Komura equivalence (bkeccl) has 26 neighbours only, and its labels are not raster-first.
"""

import cupy
import cupyx.scipy.ndimage
import scipy.ndimage

try:
    import bkeccl
except ImportError:
    bkeccl = None

N = 512
WARM_UP, REPEATS = 1, 5
NEIGHBOURS = {6: 1, 18: 2, 26: 3}


def median_ms(action):
    times = []
    for _ in range(WARM_UP + REPEATS):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        action()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end))
    return sorted(times[WARM_UP:])[REPEATS // 2]


def masks():
    uniform = cupy.random.default_rng(1).random((N, N, N), dtype=cupy.float32)
    for percent in (10, 20, 30, 50):
        yield f"random {percent} %", uniform < percent / 100
    del uniform
    z, y, x = (axis.astype(cupy.float32) for axis in cupy.ogrid[:N, :N, :N])
    waves = cupy.sin(0.09 * x + 0.05 * y) + cupy.sin(0.07 * y - 0.08 * z + 1) + cupy.cos(0.11 * z + 0.04 * x - 0.03 * y)
    yield "smooth, about 10 %", waves > 1.3
    yield "smooth, about 50 %", waves > 0
    yield "checkerboard", (x + y + z) % 2 == 0
    yield "full", cupy.ones((N, N, N), bool)


def main():
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"cupy {cupy.__version__} on {device}; bkeccl {'is not there' if bkeccl is None else 'is there'}")
    for name, mask in masks():
        mask = mask.astype(cupy.uint8)
        labels = cupy.empty(mask.shape, cupy.int32)
        for neighbours, rank in NEIGHBOURS.items():
            structure = scipy.ndimage.generate_binary_structure(3, rank)
            ms = median_ms(lambda: cupyx.scipy.ndimage.label(mask, structure, output=labels))
            print(f"cupy   {neighbours:>2} neighbours, {name:<20} {int(labels.max()):>9} found {ms:>9.2f} ms", flush=True)
        if bkeccl is not None:
            label = bkeccl.make_ccl_3D(mask.shape)
            ms = median_ms(lambda: label(mask))
            print(f"bkeccl 26 neighbours, {name:<20} {'':>15} {ms:>9.2f} ms", flush=True)


if __name__ == "__main__":
    main()
