#!/usr/bin/env bash
# Builds what a benchmark needs and runs it. test/bench/README.md says how to read what it prints.
#
#   bash test/bench/run.sh engine [--quick] [--json FILE] [--details FILE] [--readme]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bench=${1-}
[[ $bench == engine ]] || { echo "usage: bash test/bench/run.sh engine [OPTION...]" >&2; exit 2; }
shift
source test/support/setup.sh
log=build/results/bench-$bench.log
mkdir -p build/results

prepare() {
  install_packages "${test_packages[@]}"
  make_venv
  cmake --preset cpu
  cmake --build build/cpu --target engine_bench negotiate_bench messages_bench hvd_mpi
  install_package
}

prepare >"$log" 2>&1 || { tail -n 40 "$log" >&2; exit 1; }
exec build/venv/bin/python "test/bench/$bench.py" "$@"
