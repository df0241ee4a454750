"""XGBoost grows the stumps that pbt boosts, on the matrix that `cargo bench -p pbt-gpu --bench boost -- FILE` wrote: equal work.

usage: same_stumps.py FILE [cpu|cuda]      needs numpy and xgboost

XGBoost's gain of a split is GL^2/(HL + lambda) + GR^2/(HR + lambda). With gradients -w*y and hessians that are nothing beside lambda, it
rises with |DL - DR|, which is what the best weighted threshold has the most of. The weights are AdaBoost's, updated here as pbt does.
"""

import json
import math
import sys

import numpy
import xgboost

HALF = 1 << 29


def read(path):
    raw = numpy.fromfile(path, numpy.uint8)
    samples, features, rounds = (int(n) for n in raw[:12].view("<u4"))
    ends = numpy.cumsum([12, samples * features, samples, 4 * samples, 16 * rounds])
    bins, labels, weights, stumps = (raw[a:b] for a, b in zip(ends, ends[1:]))
    assert ends[-1] == len(raw), f"{path}: {rounds} rounds are not there"
    return bins.reshape(features, samples), labels != 0, weights.view("<u4").astype(numpy.int64), stumps.view("<u8").reshape(rounds, 2)


def main(path, device):
    bins, labels, weights, stumps = read(path)
    data = xgboost.DMatrix(numpy.ascontiguousarray(bins.T, numpy.float32))
    params = {"device": device, "tree_method": "hist", "max_bin": 256, "max_depth": 1, "lambda": 1.0}
    params |= {"min_child_weight": 0.0, "base_score": 0.0}
    booster = xgboost.Booster(params, [data])
    for number, (feature, votes) in enumerate(stumps.tolist()):
        gradients = numpy.where(labels, -weights, weights) / weights.sum()
        hessians = numpy.full(len(labels), 1e-9, numpy.float32)
        booster.boost(data, iteration=number, grad=gradients.astype(numpy.float32), hess=hessians)
        tree = json.loads(booster[number].get_dump(dump_format="json")[0])
        leaf = {child["nodeid"]: child["leaf"] for child in tree["children"]}
        # Bins up to `last` are on the lower side; the side with the larger leaf votes +1.
        last, found = math.ceil(tree["split_condition"]) - 1, int(tree["split"][1:])
        upper = ((1 << 64) - 1) ^ ((1 << (last + 1)) - 1)
        mask = upper if leaf[tree["no"]] > leaf[tree["yes"]] else upper ^ ((1 << 64) - 1)
        assert (found, mask) == (feature, votes), f"round {number}: XGBoost {found} {mask:016x}, pbt {feature} {votes:016x}"
        right = ((bins[feature] > last) == (mask == upper)) == labels
        share = numpy.where(right, weights[right].sum(), weights[~right].sum())
        weights = weights * HALF // share
    print(f"xgboost {xgboost.__version__} on {device}: the same {len(stumps)} stumps ({bins.shape[1]} samples x {bins.shape[0]} features)")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu")
