"""XGBoost's random forest on the GPU, on the matrix of the forest row of `cargo bench -p pbt-gpu --bench label`.

usage: gpu_forest.py [SAMPLES [LABELS_DRAWN_ANEW_OF_TEN ...]]      needs numpy, cupy and xgboost with CUDA

One round of 20 parallel trees of up to 16 levels. A tree is grown on 63.2 % of the samples, as many as a bootstrap sample has different
ones. Only the training is timed, after the peer's own quantile matrix is built. Synchronised host clock, after one warm-up run, median of
three, or one run where it takes more than four seconds.

The peer grows a tree a class, so that three classes are 60 trees; with two, it grows 20. Its times say that it counts all features in every
node, also those that were not drawn. So the forest is grown on all features, and on only as many as a node draws, all of which are tried,
which makes equal updates (sample, feature, level, tree); both with two and with three classes.
"""

import statistics
import sys

import cupy
import numpy
import xgboost
from gpu_boost import seconds

TREES, LEVELS, FEATURES, DRAWN, SHARE = 20, 16, 2000, 100, 0.632


def noise(seed):
    """Words of 31 bits, as the bench makes them."""
    z = (seed + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    return ((z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)) >> numpy.uint64(33)


def problem(samples, features, classes, wrong):
    """Bins as values: noise, shifted by class in six of seven features; then so many in ten classes are drawn anew."""
    number = cupy.arange(samples, dtype=cupy.uint64)
    y = (noise(number) % numpy.uint64(classes)).astype(cupy.int32)
    x = cupy.empty((samples, features), dtype=cupy.float32)
    for f in range(features):
        shift = (f + 1) % 7 * y % 7
        x[:, f] = (noise(number + numpy.uint64((f + 1) << 32)) % numpy.uint64(56)).astype(cupy.int32) + shift
    swapped = noise(number | numpy.uint64(1 << 62)) % numpy.uint64(10) < numpy.uint64(wrong)
    other = (noise(number | numpy.uint64(1 << 63)) % numpy.uint64(classes)).astype(cupy.int32)
    return x, cupy.where(swapped, other, y)


def row(samples, features, classes, wrong):
    x, y = problem(samples, features, classes, wrong)
    data = xgboost.QuantileDMatrix(x, y, max_bin=64)
    del x
    cupy.get_default_memory_pool().free_all_blocks()
    params = {
        "objective": "multi:softprob" if classes > 2 else "binary:logistic",
        "device": "cuda",
        "tree_method": "hist",
        "max_bin": 64,
        "max_depth": LEVELS,
        "num_parallel_tree": TREES,
        "subsample": SHARE,
        "colsample_bynode": DRAWN / features,
        "eta": 1.0,
        "lambda": 0.0,
        # Four samples on a side, as in ours: at the first round each has the curvature of equal shares.
        "min_child_weight": 4 * (2 / 3 * (2 / 3) if classes > 2 else 0.25),
        "verbosity": 0,
    }
    if classes > 2:
        params["num_class"] = classes

    def run():
        return seconds(lambda: xgboost.train(params, data, 1))

    warm_up, _ = run()
    runs = [run() for _ in range(3 if warm_up < 4 else 1)]
    median = statistics.median(t for t, _ in runs)
    trees = runs[-1][1].get_dump()
    nodes = sum(tree.count("\n") for tree in trees)
    updates = samples * SHARE * DRAWN * LEVELS * len(trees)
    print(
        f"{samples} x {features}, {classes} classes, {wrong} in 10 labels drawn anew: {median:.2f} s for {len(trees)} trees of {nodes} nodes, "
        f"{updates / median:.2e} updates/s",
        flush=True,
    )


def main(samples=1_000_000, *wrongs):
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"xgboost {xgboost.__version__} on {name}, {TREES} trees, {LEVELS} levels, {DRAWN} features a node", flush=True)
    for wrong in wrongs or [0, 3]:
        row(samples, DRAWN, 2, wrong)
        row(samples, DRAWN, 3, wrong)
        row(samples, FEATURES, 2, wrong)
        row(samples, FEATURES, 3, wrong)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
