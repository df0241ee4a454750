#!/bin/sh
# A forest of three classes (200,000 samples x 2,000 features x 14 levels x 20 trees): pbt, scikit-learn and LightGBM on the same matrix of
# bytes, one after the other. scikit-learn's copy of it takes 1.6 GB.
# usage: benches/peers/labels.sh [THREADS] [SAMPLES] [FEATURES] [TREES]
set -eu
cd "$(dirname "$0")/../.."
threads=${1:-2} samples=${2:-200000} features=${3:-2000} trees=${4:-20}
venv=target/peers-venv
[ -d "$venv" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r benches/peers/requirements.txt
matrix=$(mktemp)
trap 'rm -f "$matrix"' EXIT
cargo bench --quiet -p pbt-cpu --bench labels -- "$threads" "$samples" "$features" "$trees" "$matrix" | tee "$matrix.txt"
"$venv/bin/python" benches/peers/label_peers.py "$matrix" "$threads" "$samples" "$features" "$trees" "$(sed -n 's/pbt: \([0-9.]*\) s.*/\1/p' "$matrix.txt")"
rm -f "$matrix.txt"
