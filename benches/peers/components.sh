#!/bin/sh
# Connected components of 256^3 masks beside cc3d in one run, or a comparison of labels on random masks with scipy and cc3d.
# usage: benches/peers/components.sh             times
#        benches/peers/components.sh fuzz [N]    N masks and label maps, 100,000 unless told
set -eu
cd "$(dirname "$0")/../.."
if [ ! -x target/peers-venv/bin/python ]; then
    python3 -m venv target/peers-venv
fi
target/peers-venv/bin/pip install --quiet --requirement benches/peers/requirements.txt
cargo build --quiet --release -p pbt-volume --example components
binary=${CARGO_TARGET_DIR:-target}/release/examples/components
if [ "${1:-time}" = fuzz ]; then
    exec target/peers-venv/bin/python benches/peers/components_fuzz.py "$binary" "${2:-100000}"
fi
exec target/peers-venv/bin/python benches/peers/components_peers.py "$binary"
