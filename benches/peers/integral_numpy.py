"""The integral volume of 256^3 12-bit voxels by numpy, beside ours from criterion's estimates.

Usage: integral_numpy.py CRITERION_FOLDER CHECKSUM. Run by integral.sh, which has run our benchmark just before. The voxels are those of
crates/volume/benches/volume.rs, and so must be the table.
"""

import json
import pathlib
import statistics
import sys
import time

import numpy as np

N = 256
RUNS = 15


def noise():
    """The generator x -> 1664525 x + 1013904223 modulo 2^32 from 1 on, all steps at once; the upper 12 bits of each state."""
    powers = np.cumprod(np.full(N**3, 1664525, np.uint32), dtype=np.uint32)
    before = np.concatenate([np.ones(1, np.uint32), powers[:-1]])
    states = powers + np.uint32(1013904223) * np.cumsum(before, dtype=np.uint32)
    return (states >> np.uint32(20)).astype(np.uint16).reshape(N, N, N)


def checksum(table):
    """sum -> 31 sum + entry modulo 2^32 over all entries, as the benchmark has it."""
    powers = np.cumprod(np.full(table.size, 31, np.uint32), dtype=np.uint32)
    powers = np.concatenate([np.ones(1, np.uint32), powers[:-1]])[::-1]
    return f"{int(np.sum(table.ravel() * powers, dtype=np.uint32)):08x}"


def cumulative_sums(voxels, table):
    inner = table[1:, 1:, 1:]
    np.cumsum(voxels, axis=2, dtype=np.uint32, out=inner)
    np.cumsum(inner, axis=1, out=inner)
    np.cumsum(inner, axis=0, out=inner)


def slice_adds(voxels, table):
    """Whole planes and rows are added at a time, which numpy vectorises; only along i is there a cumulative sum."""
    inner = table[1:, 1:, 1:]
    np.cumsum(voxels, axis=2, dtype=np.uint32, out=inner)
    for plane in inner:
        for j in range(1, N):
            plane[j] += plane[j - 1]
    for k in range(1, N):
        inner[k] += inner[k - 1]


def median_ms(operation, voxels, fresh):
    times, table = [], np.zeros((N + 1,) * 3, np.uint32)
    for _ in range(RUNS):
        start = time.perf_counter()
        if fresh:
            table = np.zeros((N + 1,) * 3, np.uint32)
        operation(voxels, table)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), checksum(table)


def main(folder, expected):
    rows = []
    for name in ["new table", "table used again", "table used again, 1 thread"]:
        estimates = json.loads((folder / "integral" / name / "new" / "estimates.json").read_text())
        rows.append((f"pbt, {name}", estimates["median"]["point_estimate"] / 1e6))
    voxels = noise()
    for name, operation in [("cumsum x3", cumulative_sums), ("cumsum and slice adds", slice_adds)]:
        for fresh, table in [(True, "new table"), (False, "table used again")]:
            time_ms, found = median_ms(operation, voxels, fresh)
            if found != expected:
                sys.exit(f"error: numpy's table has the checksum {found}, ours {expected}")
            rows.append((f"numpy {np.__version__} {name}, {table}", time_ms))
    print(f"Integral volume of {N}^3 12-bit voxels, median ms (same table, checksum {expected})")
    for name, time_ms in rows:
        print(f"  {name:<52} {time_ms:8.2f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
