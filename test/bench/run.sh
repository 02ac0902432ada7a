#!/usr/bin/env bash
# Builds what a benchmark needs and runs it. test/bench/README.md says how to read what it prints.
#
#   bash test/bench/run.sh engine [--quick] [--json FILE] [--details FILE] [--readme]
#   bash test/bench/run.sh model [--quick] [--json FILE] [--readme] [--torch PYTHON]...
#   bash test/bench/run.sh torch [--quick] [--json FILE] [--readme] [--torch PYTHON]...
#   bash test/bench/run.sh tensorflow [--quick] [--json FILE] [--readme]
#   bash test/bench/run.sh python [--quick] [--json FILE] [--readme]
#   bash test/bench/run.sh network [--quick] [--json FILE] [--readme] [--torch PYTHON]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source test/support/setup.sh
bench=${1-}
case $bench in
  -h | --help) explain test/bench/run.sh; exit ;;
  engine) targets=(engine_bench negotiate_bench messages_bench hvd_mpi) ;;
  model) targets=(model_bench optim_bench data_bench hvd_mpi) ;;
  network) targets=(engine_bench hvd_mpi) ;;
  torch | tensorflow | python) targets=() ;;
  *) echo "usage: bash test/bench/run.sh engine|model|torch|tensorflow|python|network [OPTION...]" >&2; exit 2 ;;
esac
shift
log=build/results/bench-$bench.log
mkdir -p build/results

prepare() {
  install_packages "${test_packages[@]}"
  make_venv
  if ((${#targets[@]})); then
    cmake --preset cpu
    cmake --build build/cpu --target "${targets[@]}"
  fi
  [[ $bench == model ]] || install_package build/venv
  case $bench in
    torch | network) make_torch_venv ;;
    tensorflow) make_tf_venv ;;
  esac
}

prepare >"$log" 2>&1 || { tail -n 40 "$log" >&2; exit 1; }
# torch.py would be in the way of `import torch`
declare -A programs=([torch]=pytorch [tensorflow]=keras_fit)
exec build/venv/bin/python "test/bench/${programs[$bench]-$bench}.py" "$@"
