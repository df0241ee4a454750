#!/bin/sh
# One boosting node (5,000 samples x 10,000 features x 40 rounds, 64 bins): pbt, LightGBM and XGBoost on the same matrix, one after the other.
# usage: benches/peers/boost.sh [THREADS]
set -eu
cd "$(dirname "$0")/../.."
threads=${1:-2}
venv=target/peers-venv
[ -d "$venv" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r benches/peers/requirements.txt
matrix=$(mktemp)
trap 'rm -f "$matrix"' EXIT
cargo bench --quiet -p pbt-cpu --bench boost -- "$threads" "$matrix"
"$venv/bin/python" benches/peers/boost_peers.py "$matrix" "$threads"
