"""scikit-learn and LightGBM on the matrix that `cargo bench -p pbt-cpu --bench labels` wrote: random forests of three classes.

usage: label_peers.py MATRIX THREADS SAMPLES FEATURES TREES PBT_SECONDS
Only the training is timed; LightGBM's own binning is printed beside it. LightGBM's forest of three classes has three trees for each of
ours, and stops at 2^14 leaves as ours does at 14 levels.
"""

import sys
import time

import lightgbm
import numpy
import sklearn
from sklearn.ensemble import RandomForestClassifier

DEPTH, MIN_LEAF, SHARE = 14, 5, 0.05


def report(name, train, ours):
    start = time.perf_counter()
    train()
    seconds = time.perf_counter() - start
    print(f"{name}: {seconds:.2f} s, {seconds / ours:.1f} times pbt's", flush=True)


def main(path, threads, samples, features, trees, ours):
    raw = numpy.fromfile(path, numpy.uint8)
    x = raw[: samples * features].reshape(features, samples).T
    y = raw[samples * features :]

    forest = RandomForestClassifier(
        trees, criterion="entropy", max_depth=DEPTH, max_features=SHARE, min_samples_leaf=MIN_LEAF, n_jobs=threads, random_state=0
    )
    report(f"scikit-learn {sklearn.__version__}", lambda: forest.fit(x, y), ours)

    params = {"objective": "multiclass", "num_class": 3, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.632}
    params |= {"feature_fraction_bynode": SHARE, "max_depth": DEPTH, "num_leaves": 2**DEPTH, "min_data_in_leaf": MIN_LEAF}
    params |= {"max_bin": 64, "histogram_pool_size": 4096, "num_threads": threads, "verbosity": -1, "feature_pre_filter": False}
    start = time.perf_counter()
    data = lightgbm.Dataset(numpy.ascontiguousarray(x), y, params=params).construct()
    print(f"lightgbm {lightgbm.__version__}: binning {time.perf_counter() - start:.2f} s", flush=True)
    report(f"lightgbm {lightgbm.__version__}", lambda: lightgbm.train(params, data, trees), ours)


if __name__ == "__main__":
    main(sys.argv[1], *(int(n) for n in sys.argv[2:6]), float(sys.argv[6]))
