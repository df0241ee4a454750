#!/bin/sh
# Times our integral volume and numpy's in one run, and prints both: sh benches/peers/integral.sh
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
if [ ! -x target/peers-venv/bin/python ]; then
    python3 -m venv target/peers-venv
fi
target/peers-venv/bin/pip install --quiet --requirement benches/peers/requirements.txt
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo bench --package pbt-volume --bench volume -- '^integral/' 2>&1 | tee "$log" >&2
checksum=$(sed -n 's/^checksum of the table of 256^3: //p' "$log" | tail -n 1)
target/peers-venv/bin/python benches/peers/integral_numpy.py "$target/criterion" "$checksum"
