#!/usr/bin/env bash
# Fills FOLDER with what a PyTorch at hand computes for new random inputs, in place of the stored
# files:
#
#   bash test/support/reference/live.sh PYTHON FOLDER [SEED]
#   HVD_REFERENCE_DIR=FOLDER ctest --test-dir build/cpu -R PyTorch
#
# PYTHON is an interpreter with torch, NumPy and safetensors; SEED 0 is that of the stored files,
# and without one another is drawn and printed. The names of all tests that compare with these files
# have PyTorch in them, but those of data.py: that is Pillow, whose releases round differently, and
# its stored file is copied.
set -euo pipefail
(($# == 2 || $# == 3)) || { echo "usage: bash live.sh PYTHON FOLDER [SEED]" >&2; exit 2; }
python=$1 folder=$2 seed=${3:-$((1 + RANDOM))}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder"
echo "seed $seed, torch $("$python" -c 'import torch; print(torch.__version__)')"
for stored in "$here"/*.safetensors; do
  theme=$(basename "$stored" .safetensors)
  if [[ $theme == data ]]; then
    cp "$stored" "$folder"
  else
    "$python" -W ignore "$here/$theme.py" --folder "$folder" --seed "$seed"
  fi
done
