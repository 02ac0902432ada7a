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
box=$PWD/build/box
results=build/results-gpu
package=$PWD/build/gpu-box/package
export box results jobs package
jobs=$(nproc)
rm -rf "$results" && mkdir -p "$results" || exit 1
started=$SECONDS

# step SECONDS NAME COMMAND...   One that writes NAME.xml (JUnit) counts for its cases, another for
# one. A case that was skipped counts as failed.
step() {
  local limit=$1 name=$2 begin=$SECONDS code=0 left=$((1500 - SECONDS + started))
  shift 2
  limit=$((left < 1 ? 1 : left < limit ? left : limit))
  timeout "$limit" bash -c '"$@"' step "$@" >"$results/$name.log" 2>&1 || code=$?
  printf '%s\t%s\n' "$name" "$code" >>"$results/steps.tsv"
  if ((code == 0)); then
    printf '%-28sok      %4d s\n' "$name" $((SECONDS - begin))
  else
    printf '%-28sFAILED  %4d s   exit code %d: %s\n' "$name" $((SECONDS - begin)) "$code" "$results/$name.log"
    tail -n 30 "$results/$name.log" | cut -c1-200 | sed 's/^/    | /'
  fi
  return $code
}

finish() {
  echo "$((SECONDS - started)) s in all"
  python3 test/support/count.py "$results"
  exit
}

# The compilers and tools, of the machine or, if it has none, of the box.
find_tools() {
  local name wheel program
  for name in cmake ninja; do
    command -v "$name" >/dev/null && continue
    for wheel in "$box/tools/$name"-*.whl; do
      [[ -e $wheel ]] || { echo "run.sh: no $name, and $box/tools brings none" >&2; return 1; }
      python3 -m zipfile -e "$wheel" "$box/tools/$name" || return
    done
    while IFS= read -r program; do
      chmod +x "$program" && PATH=$(dirname "$program"):$PATH
    done < <(find "$box/tools/$name" -type f \( -path '*/bin/*' -o -path '*/scripts/*' \))
  done
  command -v nvcc >/dev/null || PATH=${CUDAToolkit_ROOT:-/usr/local/cuda}/bin:$PATH
  for name in g++ nvcc cmake ninja; do
    command -v "$name" >/dev/null || { echo "run.sh: there is no $name" >&2; return 1; }
  done
}

build_googletest() {
  [[ -d $box/googletest ]] || { echo "no $box/googletest: the machine's own will do"; return 0; }
  cmake -S "$box/googletest" -B "$box/googletest-build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$box/prefix" -DCMAKE_INSTALL_LIBDIR=lib &&
    cmake --build "$box/googletest-build" --parallel "$jobs" --target install
}

# Warnings are no errors: the compiler of the machine is another one.
build() {
  cmake --preset gpu-box -DCMAKE_PREFIX_PATH="$box/prefix" &&
    cmake --build build/gpu-box --parallel "$jobs" --target hvd_nccl gpu_logic_test gpu_test \
      gpu_ranks gpu_bench -- -k 0  # every error at once: time on such a machine is short
}

# program NAME STEP ARGUMENT...   A program of ours whose cases are counted.
program() {
  "build/gpu-box/test/$1" --gtest_output="xml:$results/$2.xml" "${@:3}"
}

has_gpu() {
  local found
  found=$(nvidia-smi -L 2>&1)
  [[ $found == *"GPU "* ]] && { echo "$found"; return; }
  echo "no GPU is found here: nvidia-smi says: ${found:-nothing}"
  return 1
}

# ranks NUMBER OPERATIONS COMMAND...   A job on this machine, all of whose ranks share its GPUs.
ranks() {
  local rank code=0 meeting pids=()
  meeting=$(mktemp -d) || return
  for ((rank = 0; rank < $1; ++rank)); do
    HOROVOD_RANK=$rank HOROVOD_SIZE=$1 HVD_RENDEZVOUS="file://$meeting/meeting" \
      HVD_GPU_OPERATIONS=$2 "${@:3}" &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank" || code=$?; done
  rm -rf "$meeting"
  return $code
}

# ranks_ipc NUMBER COMMAND...   The same through each other's GPU memory. Where that cannot be had the
# job does without, which is no proof.
ranks_ipc() {
  local code=0 said
  said=$(ranks "$1" ipc "${@:2}" 2>&1) || code=$?
  echo "$said"
  ! grep 'by way of host memory' <<<"$said" && return $code
}

# Whether python3 has a PyTorch that sees a GPU.
has_torch() {
  python3 -c 'import torch
assert torch.cuda.is_available(), f"PyTorch {torch.__version__} sees no GPU"
print(f"PyTorch {torch.__version__}")'
}

# The Python package for that python3, which has to bring its headers (Python.h).
build_torch() {
  local headers=$box/tools/pybind11 wheel
  for wheel in "$box"/tools/pybind11-*.whl; do
    python3 -m zipfile -e "$wheel" "$headers" || return
  done
  cmake --preset gpu-box -DCMAKE_PREFIX_PATH="$box/prefix" -DHVD_TRAINING=ON -DHVD_EXAMPLES=OFF \
    -DHVD_PYTHON=ON \
    -DPython3_EXECUTABLE="$(command -v python3)" \
    -Dpybind11_DIR="$headers/pybind11/share/cmake/pybind11" &&
    cmake --build build/gpu-box --parallel "$jobs" --target hvd_wheel gpu_tensor_test || return
  # Away from the module over host memory it finds the real one.
  cp build/gpu-box/test/on_host/gpu_tensor_test build/gpu-box/test/ || return
  rm -rf "$package" && mkdir -p "$package" &&
    cp -r bindings/horovod_cpp "$package/" &&
    cp build/gpu-box/bindings/_native*.so build/gpu-box/ops/nccl/libhvd_nccl.so \
      "$package/horovod_cpp/" || return
  python3 -c 'import cloudpickle' 2>/dev/null ||
    python3 -m zipfile -e "$box"/tools/cloudpickle-*.whl "$package"
  PYTHONPATH=$package python3 -X faulthandler -c 'import horovod_cpp.torch'
}

# in_torch COMMAND...   With that package.
in_torch() {
  PYTHONPATH=$package "$@"
}

sanitize() {
  compute-sanitizer --tool "$1" --error-exitcode 9 \
    build/gpu-box/test/gpu_test --gtest_filter='CopyPieces.*:ReducePieces.*:IpcOnDevice.One*'
}

export -f build_googletest build program has_gpu ranks ranks_ipc has_torch build_torch in_torch sanitize
find_tools || exit
step 300 googletest build_googletest || finish
step 580 build build || finish
step 240 logic program gpu_logic_test logic
step 60 gpu has_gpu || finish
grep '^GPU' "$results/gpu.log"
step 300 device program gpu_test device
job=build/gpu-box/test/gpu_ranks
step 60 ranks-1-nccl ranks 1 nccl "$job"
for number in 1 2 4; do step 120 "ranks-$number-host" ranks "$number" host "$job"; done
for number in 1 2 3 4; do step 120 "ranks-$number-ipc" ranks_ipc "$number" "$job"; done
for number in 2 3 4; do step 300 "contract-$number-ipc" ranks_ipc "$number" "$job" contract; done
step 120 ranks-2-auto ranks 2 auto "$job"
step 120 bench build/gpu-box/test/gpu_bench && cat "$results/bench.log"
if ! has_torch >"$results/has-torch.log" 2>&1; then
  echo "PyTorch: nothing is known about it here, as python3 has none with CUDA:"
  tail -n 1 "$results/has-torch.log"
elif step 580 build-torch build_torch; then
  cat "$results/has-torch.log"
  # Not the cases whose ranks are threads of one process: the host's collectives would get GPU memory.
  step 120 tensors program gpu_tensor_test tensors --gtest_filter='-DeviceGradientViews.*'
  cases=test/gpu/torch/cases.py
  step 120 torch-1-nccl in_torch ranks 1 nccl python3 "$cases"
  for number in 1 2; do
    step 120 "torch-$number-host" in_torch ranks "$number" host python3 "$cases"
    step 120 "torch-$number-ipc" in_torch ranks_ipc "$number" python3 "$cases"
  done
  step 400 torch-bench in_torch ranks 1 nccl python3 test/gpu/torch/bench.py &&
    cat "$results/torch-bench.log"
fi
if compute-sanitizer --version >/dev/null 2>&1; then
  for tool in memcheck racecheck initcheck; do step 300 "sanitizer-$tool" sanitize "$tool"; done
else
  echo "compute-sanitizer is not here: nothing is known about memory errors"
fi
finish
