#!/usr/bin/env bash
# Trains a small network on real handwritten digits on two ranks, in C++ and then in Python.
#
#   bash examples/quickstart.sh
#
# Works on a fresh Debian 12 as root or with sudo: it installs what is missing, and says so. Ends
# with an error unless both reach a test accuracy of 0.97 with equal parameters on both ranks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source test/support/setup.sh

say() { printf '\n==> %s\n' "$*"; }

# train NAME COMMAND...   runs a training, shows it, and checks what it says
train() {
  local name=$1 log=build/quickstart-$1.log best
  shift
  say "$*"
  "$@" 2>&1 | tee "$log"
  # The last "accuracy 0.98" of the log, whatever stands between the word and the number.
  best=$(tr '\r' '\n' <"$log" | grep -oiE 'accuracy[^0-9]*[01]\.[0-9]+' | tail -n 1 |
    grep -oE '[01]\.[0-9]+$' || true)
  if [[ -z $best ]] || ! awk -v a="$best" 'BEGIN { exit !(a >= 0.97) }'; then
    echo "quickstart: $name: the test accuracy is '${best:-not printed}', expected 0.97" >&2
    exit 1
  fi
  if ! grep -q 'parameters equal on all ranks' "$log"; then
    echo "quickstart: $name: the ranks do not say that their parameters are equal" >&2
    exit 1
  fi
  summary+=("$name: test accuracy $best, parameters equal on all ranks")
}

summary=()
say "packages"
install_packages "${build_packages[@]}"
make_venv

say "building the C++ library, hvdrun and the example (build/cpu)"
mkdir -p build
cmake --preset cpu >build/quickstart-cmake.log
cmake --build build/cpu --parallel "$(nproc)" --target hvdrun train_digits

say "writing scikit-learn's digits as IDX files (build/data/digits)"
write_digits

train "C++" build/cpu/runner/hvdrun -np 2 build/cpu/examples/train_digits --data build/data/digits

say "installing the Python package into build/venv"
install_package
export PATH="$PWD/build/venv/bin:$PATH"
train "Python" hvdrun -np 2 python examples/train_digits.py

say "done"
printf '%s\n' "${summary[@]}"
