#!/bin/sh
# Reading a DICOM series of 512 x 512 x 384 voxels beside SimpleITK, and a NIfTI file of 274 x 384 x 384 beside nibabel.
# usage: [PBT_DATA=...] benches/peers/load.sh [PYTHON]    PYTHON has the packages of tests/oracles/requirements.txt
set -eu
cd "$(dirname "$0")/../.."
python=${1:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cargo build --quiet --release -p pbt-io --example load
binary=${CARGO_TARGET_DIR:-target}/release/examples/load
"$python" benches/peers/load_peers.py make "$scratch/series"
nifti=${PBT_DATA:+$PBT_DATA/large/head_t1_7t_project.nii.gz}
# By turns, so that all meet the same machine.
for _ in 1 2; do
    "$binary" 5 "$scratch/series" ${nifti:+"$nifti"}
    "$python" benches/peers/load_peers.py time 5 "$scratch/series" ${nifti:+"$nifti"}
done
