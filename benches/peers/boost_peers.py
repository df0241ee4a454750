"""LightGBM and XGBoost on the matrix that `cargo bench -p pbt-cpu --bench boost` wrote: stumps, 64 bins, 40 rounds.

usage: boost_peers.py MATRIX THREADS
Only the training is timed; the peers' own binning is printed beside it. An update is one (sample, feature, round).
"""

import statistics
import sys
import time

import lightgbm
import numpy
import xgboost

SAMPLES, FEATURES, ROUNDS, REPEATS = 5_000, 10_000, 40, 3


def report(name, prepare, train):
    start = time.perf_counter()
    data = prepare()
    binning = time.perf_counter() - start
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        train(data)
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    rate = SAMPLES * FEATURES * ROUNDS / median
    print(f"{name}: {median:.3f} s, {rate / 1e9:.2f}e9 updates/s (median of {REPEATS}; binning before: {binning:.2f} s)", flush=True)


def main(path, threads):
    with open(path, "rb") as file:
        raw = file.read()
    count = SAMPLES * FEATURES
    x = numpy.frombuffer(raw, "<i4", count).reshape(FEATURES, SAMPLES).T.astype(numpy.float32)
    y = numpy.frombuffer(raw, numpy.uint8, SAMPLES, 4 * count)

    common = {"objective": "binary", "num_leaves": 2, "max_depth": 1, "learning_rate": 1.0, "num_threads": threads, "verbosity": -1}
    common |= {"max_bin": 64, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0, "feature_pre_filter": False}
    for layout in ("force_col_wise", "force_row_wise"):
        params = common | {layout: True}
        report(
            f"lightgbm {lightgbm.__version__} {layout}",
            lambda params=params: lightgbm.Dataset(x, y, params=params).construct(),
            lambda data, params=params: lightgbm.train(params, data, ROUNDS),
        )

    params = {"objective": "binary:logistic", "tree_method": "hist", "max_bin": 64, "max_depth": 1, "eta": 1.0, "nthread": threads}
    params |= {"lambda": 0.0, "min_child_weight": 0.0}
    report(
        f"xgboost {xgboost.__version__}",
        lambda: xgboost.QuantileDMatrix(x, y, max_bin=64, nthread=threads),
        lambda data: xgboost.train(params, data, ROUNDS),
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
