"""Accuracy of scikit-learn's random forest on the matrices that crates/cpu/tests/label_forest.rs wrote.

usage: label_forest_oracle.py FOLDER FEATURES
FOLDER/training and FOLDER/test hold one byte a bin, [feature][sample], then one byte a label.
"""

import pathlib
import sys

import numpy
from sklearn.ensemble import RandomForestClassifier


def read(path, features):
    raw = numpy.fromfile(path, numpy.uint8)
    samples = len(raw) // (features + 1)
    return raw[: samples * features].reshape(features, samples).T, raw[samples * features :]


def main(folder, features):
    # As the forest that it is compared with: trees, depth, samples a leaf, share of features a node.
    forest = RandomForestClassifier(20, criterion="entropy", max_depth=12, min_samples_leaf=4, max_features=0.1, random_state=0)
    forest.fit(*read(folder / "training", features))
    print(forest.score(*read(folder / "test", features)))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
