"""XGBoost on the GPU: 40 stumps with 64 bins on the sizes of the boosting rows of the GPU bench.

usage: gpu_boost.py [SAMPLESxFEATURES ...]      needs numpy, cupy and xgboost with CUDA

Only the training is timed, after the peer's own quantile matrix is built (whose time is printed beside). An update is one (sample, feature,
round). Synchronised host clock, after two warm-up runs, median of five.
"""

import statistics
import sys
import time

import cupy
import numpy
import xgboost

ROUNDS, BINS, WARM_UP, REPEATS = 40, 64, 2, 5
PARAMS = {
    "objective": "binary:logistic",
    "device": "cuda",
    "tree_method": "hist",
    "max_bin": BINS,
    "max_depth": 1,
    "eta": 1.0,
    "lambda": 0.0,
    "min_child_weight": 0.0,
    "verbosity": 0,
}


def problem(samples, features):
    """Noise, the first hundred features shifted a little in positives, so that there is something to learn in every round."""
    cupy.random.seed(7)
    y = cupy.arange(samples) % 2
    x = cupy.random.standard_normal((samples, features), dtype=cupy.float32) * 8000
    x[:, :100] += (y * 2000).astype(cupy.float32)[:, None]
    return x, y


def seconds(action):
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    result = action()
    cupy.cuda.Device().synchronize()
    return time.perf_counter() - start, result


def main(sizes):
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"xgboost {xgboost.__version__} on {name}, {ROUNDS} rounds, depth 1, {BINS} bins", flush=True)
    for samples, features in sizes:
        x, y = problem(samples, features)
        matrix_s, data = seconds(lambda x=x, y=y: xgboost.QuantileDMatrix(x, y, max_bin=BINS))
        del x
        times = [seconds(lambda data=data: xgboost.train(PARAMS, data, ROUNDS))[0] for _ in range(WARM_UP + REPEATS)][WARM_UP:]
        median = statistics.median(times)
        rate = samples * features * ROUNDS / median
        print(f"{samples} x {features}: {median * 1e3:.1f} ms, {rate:.2e} updates/s (matrix before: {matrix_s * 1e3:.0f} ms)", flush=True)
        numpy.testing.assert_equal(data.num_row(), samples)


if __name__ == "__main__":
    main([tuple(int(n) for n in size.split("x")) for size in sys.argv[1:]] or [(5_000, 10_000), (10_000, 100_000)])
