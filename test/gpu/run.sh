#!/usr/bin/env bash
# Builds with the preset gpu-box and runs all that needs a GPU; ends with a line such as
# "93 passed, 0 failed". Each step takes less than 10 minutes, all together less than 25.
#
#   bash test/gpu/run.sh
#
# Needs g++, nvcc, and what test/gpu/pack.sh gathered (or Eigen, GoogleTest, CMake and Ninja). Where
# no GPU is, what needs none is run, and the result is a failure that says so.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
box=$PWD/build/gpu-box
results=build/results-gpu
jobs=$(nproc)
rm -rf "$results" && mkdir -p "$results" || exit 1
passed=0
failed=0

# step SECONDS NAME COMMAND...   One that writes NAME.xml (JUnit) counts for its cases, another for one.
step() {
  local limit=$1 name=$2 begin=$SECONDS code=0 cases
  shift 2
  timeout "$limit" "$@" >"$results/$name.log" 2>&1 || code=$?
  cases=$(count "$results/$name.xml" "$code")
  passed=$((passed + ${cases% *}))
  failed=$((failed + ${cases#* }))
  printf '%-28s %s passed, %s failed  %4d s\n' "$name" $cases $((SECONDS - begin))
  ((code == 0 && ${cases#* } == 0)) && return
  echo "  exit code $code: $results/$name.log"
  tail -n 30 "$results/$name.log" | cut -c1-200 | sed 's/^/    | /'
  return 1
}

# count FILE CODE   "passed failed". A case that was skipped counts as failed.
count() {
  local all bad
  if [[ ! -s $1 ]]; then
    if [[ $2 == 0 ]]; then echo "1 0"; else echo "0 1"; fi
    return
  fi
  all=$(grep -c '<testcase ' "$1")
  bad=$(grep -cE '<(failure|skipped) ' "$1")
  ((bad > 0 || $2 == 0)) || bad=1
  echo "$((all > bad ? all - bad : 0)) $bad"
}

# What the box brings, if the machine has none of its own.
find_tools() {
  local wheel
  for name in cmake ninja; do
    command -v "$name" >/dev/null && continue
    for wheel in "$box"/tools/"$name"-*.whl; do
      [[ -e $wheel ]] || { echo "run.sh: no $name, and $box/tools brings none" >&2; return 1; }
      python3 -m zipfile -e "$wheel" "$box/tools/$name" || return
    done
    while IFS= read -r program; do
      chmod +x "$program" && PATH=$(dirname "$program"):$PATH
    done < <(find "$box/tools/$name" -type f -path '*/bin/*')
  done
  command -v nvcc >/dev/null || PATH=${CUDAToolkit_ROOT:-/usr/local/cuda}/bin:$PATH
  command -v nvcc >/dev/null || { echo "run.sh: no nvcc, in PATH or in /usr/local/cuda/bin" >&2; return 1; }
}

build_googletest() {
  cmake -S "$box/googletest" -B "$box/googletest-build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$box/prefix" && cmake --build "$box/googletest-build" --target install
}

build() {
  cmake --preset gpu-box -DCMAKE_PREFIX_PATH="$box/prefix" -DHVD_NCCL_INCLUDE_DIR="$(nccl_folder)" \
    -DHVD_TESTS=ON &&
    cmake --build build/gpu-box-build --parallel "$jobs" --target hvd_nccl gpu_logic_test gpu_test gpu_bench
}

nccl_folder() {
  local folder
  for folder in "${CUDAToolkit_ROOT:-/usr/local/cuda}/include" /usr/include "$box/prefix/include"; do
    [[ ! -e $folder/nccl.h ]] || { echo "$folder"; return; }
  done
}

# program NAME FILTER...   One of ours, whose cases are counted.
program() {
  build/gpu-box-build/test/"$1" --gtest_output="xml:$results/$2.xml" "${@:3}"
}

has_gpu() {
  local smi
  smi=$(nvidia-smi -L 2>&1) && [[ $smi == *GPU* ]] && { echo "$smi"; return; }
  echo "run.sh: no GPU is found here: ${smi:-nvidia-smi says nothing}"
  return 1
}
