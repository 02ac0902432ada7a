#!/usr/bin/env bash
# Builds and runs every test; ends with one line such as "512 passed, 0 failed".
#
#   bash test/run.sh          what finds most faults, for every change: 6 to 15 minutes on 2 cores,
#                             the first time 15 to 35
#   bash test/run.sh --full   everything, before an issue is called resolved: half an hour to an
#                             hour, the first time longer
#   bash test/run.sh --long   with the repetition counts, soaks and fuzzing that take longer, and
#                             the Python tests with the newest and the oldest packages allowed
#
# Works on a fresh Debian 12 as root or with sudo: it installs what is missing. A step that fails
# does not stop the others. Logs and JUnit files are in build/results.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source test/support/setup.sh
full=  # not empty: every step and case
case "${1-}" in
  "") ;;
  -h | --help) explain test/run.sh; exit ;;
  --full) full=1 ;;
  --long) full=1; export HVD_TEST_LONG=1 ;;
  *) echo "usage: bash test/run.sh [--full | --long]" >&2; exit 2 ;;
esac
results=build/results
jobs=$(nproc)
rm -rf "$results" && mkdir -p "$results" || exit 1
started=$SECONDS

# step NAME COMMAND...   Runs a step. What it counts for is decided by NAME.xml or NAME.*.xml, if it
# writes such JUnit files, else it is one case.
step() {
  begin 0 "$@"
  await "$1"
}

# begin NICENESS NAME COMMAND...   Starts a step that runs beside those that follow.
begin() {
  set -m  # a process group of its own, to be killed whole
  {
    (($1 == 0)) || renice -n "$1" "$BASHPID" >/dev/null
    TIMEFORMAT='%0R %0U %0S'
    { time "${@:3}" >"$results/$2.log" 2>&1; } 2>"$results/$2.time"
  } </dev/null &
  set +m
  beside[$2]=$!
}

# await NAME   waits for its end, and reports it
await() {
  local name=$1 code=0 verdict=ok real user sys
  printf '%-22s' "$name"
  wait "${beside[$name]}" || code=$?
  unset "beside[$name]"
  ((code == 0)) || verdict=FAILED
  read -r real user sys < <(tail -n 1 "$results/$name.time")
  printf '%s\t%s\n' "$name" "$code" >>"$results/steps.tsv"
  printf '%-6s %4d s, %4d s of CPU time\n' "$verdict" "$real" $((user + sys))
  ((code == 0)) || {
    echo "    $results/$name.log"
    tail -n 40 "$results/$name.log" | cut -c1-160 | sed 's/^/    | /'
  }
  return "$code"
}
declare -A beside=()
trap '((${#beside[@]} == 0)) || kill -- "${beside[@]/#/-}" 2>/dev/null' EXIT

check_format() {
  find core ops horovod_cpp bindings runner examples test \( -name '*.cc' -o -name '*.cu' -o -name '*.h' \) -print0 |
    xargs -0 clang-format --dry-run -Werror
}

# build PRESET [-DOPTION=VALUE...] [TARGET...]
build() {
  local preset=$1 options=()
  shift
  while [[ ${1-} == -D* ]]; do options+=("$1"); shift; done
  cmake --preset "$preset" "${options[@]}" || return
  cmake --build "build/$preset" --parallel "$jobs" ${1:+--target "$@"}
}

# run_mpi   Real ranks: one case at a time. The label mpi_full: those left to --full.
run_mpi() {
  local labels='^mpi$'
  [[ -z $full ]] || labels='^mpi'
  ctest --test-dir build/cpu -L "$labels" -j 1 --no-tests=error --output-on-failure \
    --output-junit "$PWD/$results/mpi.xml"
}

# run_programs NAME PRESET EXCLUDED PROGRAM...   Whole programs, cut into as many parts as there are
# cores: a process a case would take longer to start than most cases to run. Twice as many parts as
# cores run at a time, because cases wait for each other and for deadlines.
run_programs() {
  local name=$1 preset=$2 excluded=$3 failed=0 program shard log
  local -A logs=()
  shift 3
  for program; do
    for ((shard = 0; shard < jobs; ++shard)); do
      ((${#logs[@]} < 2 * jobs)) || await_program
      log=$results/$name.${program##*/}.$shard
      {
        GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$shard timeout --foreground 900 \
          "build/$preset/test/$program" --gtest_filter="-$excluded" --gtest_output="xml:$log.xml" || exit
      } >"$log.log" 2>&1 &  # a shell that exits: `wait -n` loses what a signal killed
      logs[$!]=$log.log
    done
  done
  while ((${#logs[@]})); do await_program; done
  return $failed
}

await_program() {
  local ended code=0
  wait -n -p ended "${!logs[@]}" || code=$?
  if ((code)); then
    failed=$code
    echo "exit code $code: ${logs[$ended]}"
    grep -aE '^\[  FAILED|Failure$|SUMMARY:|runtime error:' "${logs[$ended]}" || tail -n 30 "${logs[$ended]}"
  fi
  unset "logs[$ended]"
}

# The rest of the engine's tests are run under sanitizers, and here with --full only.
release_tests=(horovod_cpp_test runner_test scale_test)
run_cpp() {
  local programs=("${release_tests[@]/#/build/cpu/test/}")
  [[ -z $full ]] || programs=(build/cpu/test/*_test)  # every program that hvd_add_test made
  run_programs cpp cpu '' "${programs[@]##*/}"
}

make_environments() {
  make_venv && make_torch_venv && write_digits
}

# build_cpu   Without --full only what the other steps run, with kernels for this processor alone.
build_cpu() {
  local targets=(hvdrun mpi_tests adapter_job hvd_examples "${release_tests[@]}") isa=native
  [[ -z $full ]] || targets=(all) isa=all
  build cpu "-DHVD_ISA=$isa" "${targets[@]}"
}

# build_asan   With --full also the built-in layer, horovod_cpp/.
sanitized=(core_runtime_test ops_test core_base_test core_negotiate_test)
[[ -z $full ]] || sanitized+=(horovod_cpp_test)
build_asan() {
  build asan ${full:+-DHVD_TRAINING=ON} "${sanitized[@]}"
}

# How each source is compiled by itself, those of bindings/native too. Nothing is built there.
configure_lint() {
  cmake --preset lint -DPython3_EXECUTABLE="$PWD/build/venv/bin/python" \
    -Dpybind11_DIR="$(build/venv/bin/python -m pybind11 --cmakedir)"
}

cases="not full"  # the marker of cases that are left to --full
[[ -z $full ]] || cases=""

# run_lint   Checks of the tree, and the tests of these checks.
run_lint() {
  local code=0
  python3 test/lint/structure.py || code=1
  build/venv/bin/python -m pytest test/lint -q -m "$cases" --junitxml="$results/lint.xml" || code=1
  return $code
}

run_tidy() {
  python3 test/lint/tidy.py build/lint \
    ${HVD_TEST_LONG:+--checks='clang-analyzer-core.*,clang-analyzer-cplusplus.*'}
}

# run_pytest NAME ENVIRONMENT ARGUMENT...
run_pytest() {
  PATH="$PWD/$2/bin:$PATH" HVD_BUILD="$PWD/build/cpu" HVD_DIGITS="$PWD/build/data/digits" \
    "$2/bin/python" -m pytest -q -m "$cases" --junitxml="$results/$1.xml" "${@:3}"
}

# run_python NAME ENVIRONMENT [ARGUMENT...]   Most cases wait for processes: twice as many at a time as
# there are cores.
run_python() {
  run_pytest "$1" "$2" test/bindings test/hosts test/mpi --ignore="$faults" "${@:3}" \
    -n $((2 * jobs)) --dist worksteal
}

# One job at a time, beside what is left of Python's tests: it waits more than it computes.
faults=test/mpi/test_random_faults.py
run_faults() {
  run_pytest faults build/venv "$faults"
}

# The tests that compare with stored values of PyTorch, on other inputs: what it computes now.
run_references() {
  local folder=build/data/reference seed=(1)
  [[ -z ${HVD_TEST_LONG-} ]] || seed=()  # drawn and printed
  rm -rf "$folder"
  bash test/support/reference/live.sh build/torch/bin/python "$folder" "${seed[@]}" || return
  HVD_REFERENCE_DIR=$PWD/$folder ctest --test-dir build/cpu -R PyTorch -j "$jobs" --no-tests=error \
    --output-on-failure --output-junit "$PWD/$results/references.xml"
}

# run_torch NAME ENVIRONMENT
run_torch() {
  HVD_BUILD="$PWD/build/cpu" "$2/bin/python" -m pytest test/torch -q -m "$cases" -n "$jobs" \
    --dist worksteal --junitxml="$results/$1.xml"
}

# run_frameworks ENVIRONMENT SUFFIX   TensorFlow, Keras and the newest PyTorch. Of the first two, ranks
# spend much of the time on imports, and one core each.
run_frameworks() {
  begin 0 "tensorflow$2" run_pytest "tensorflow$2" "$1" test/tensorflow
  step "keras$2" run_pytest "keras$2" "$1" test/keras
  await "tensorflow$2"
  step "torch-newest$2" run_torch "torch-newest$2" "$1"
  step "install-trainers$2" add_trainers "$1" && step "trainers$2" run_pytest "trainers$2" "$1" test/trainers
}

# run_keras_2 NAME ENVIRONMENT
run_keras_2() {
  run_pytest "$1" "$2" test/keras/test_keras.py test/keras/test_keras2.py
}

# install_versions VERSIONS FRAMEWORK   Environments with the newest or the oldest versions that the
# requirements allow, and the package, built with them. FRAMEWORK: whose environment, torch or tf.
install_versions() {
  rm -rf "build/venv-$1" "build/$2-$1"
  make_venv "$1" && "make_$2_venv" "$1" && install_package "build/venv-$1" "build/$2-$1"
}

# refuse_old_tensorflow VERSION
refuse_old_tensorflow() {
  make_old_tf_venv "$1" && ! "build/tf-$1/bin/python" -c "import horovod_cpp.tensorflow" 2>"$results/$1.txt" &&
    grep "needs TensorFlow 2.13 or newer; this is $1" "$results/$1.txt"
}

# Python's front ends of GPUs, where CUDA was compiled: over CUDA's functions on host memory.
run_gpu_python() {
  HVD_GPU_MODULE="$PWD/build/cuda/test/on_host/libhvd_nccl.so" \
    build/torch/bin/python -m pytest test/gpu/python -q -n "$jobs" --dist worksteal \
    --junitxml="$results/gpu-python.xml"
}

# A program of somebody else's that finds the installed library with find_package(horovod_cpp).
check_install_tree() {
  rm -rf build/install build/consumer
  cmake --install build/cpu --prefix build/install &&
    cmake -S test/install -B build/consumer -G Ninja -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_PREFIX_PATH="$PWD/build/install" &&
    cmake --build build/consumer &&
    build/consumer/consumer || return
  # As if the build folder were gone: the installed module has to serve.
  local module=build/cpu/ops/mpi/libhvd_mpi.so code=0
  mv "$module" "$module.away"
  PATH="/usr/bin:/bin" build/install/bin/hvdrun -np 2 build/consumer/consumer || code=$?
  mv "$module.away" "$module"
  return $code
}

# Random bytes for the decoders and for RankProtocol::receive, and for what reads connections and
# files of others, grown from real ones.
run_fuzzer() {
  local corpus=build/fuzz/corpus name code=0
  build fuzz protocol_fuzz frames_fuzz fuzz_corpus && rm -rf "$corpus" &&
    build/fuzz/test/fuzz/fuzz_corpus "$corpus" || return
  for name in protocol frames; do
    "build/fuzz/test/fuzz/${name}_fuzz" -max_total_time=$((${HVD_TEST_LONG:-0} ? 300 : 10)) \
      -timeout=20 -malloc_limit_mb=64 -artifact_prefix="$results/" "$corpus/$name" || code=1
  done
  return $code
}

# has_nvcc   CUDA's compiler, which is not Debian's.
has_nvcc() {
  [[ ${HVD_CUDA-} == ON ]] || command -v nvcc >/dev/null || [[ -x ${CUDAToolkit_ROOT:-/usr/local/cuda}/bin/nvcc ]]
}

install_packages "${test_packages[@]}" "${torch_packages[@]}" ${full:+"${full_packages[@]}"} || { echo "could not install packages"; exit 1; }

# core/base and core/negotiate have no threads, and neither has arithmetic.
large_shapes='*TwoByThree*:*ThreeUneven*:*LocalMadeOfFlat*'  # of hosts: more threads, the same code
# Many bytes show no more races than few in small chunks (the cases "Tiny").
large_tensors='*OfSeveralMebibytes*'
left_to_full=
[[ -n $full ]] || left_to_full=:$(grep -v "^#" test/support/left_to_full.txt | paste -sd :)
too_large=BadSettings.ASamplerTooLargeForMemoryIsNamed
# What is too large for memory has to be an error of ours; a sanitizer's operator new ends the program.
export ASAN_OPTIONS=allocator_may_return_null=1
run_asan() {
  run_programs asan asan "*EverySmallProgram*:$too_large:$large_shapes$left_to_full" "${sanitized[@]}"
}

begin 0 environments make_environments
step format check_format
step build-cpu build_cpu
built=$?
await environments || { echo "nothing else can run without build/venv and build/torch"; exit 1; }
step ruff build/venv/bin/ruff check
begin 19 build-asan build_asan
begin 0 lint run_lint
if ((built == 0)); then
  begin 0 mpi run_mpi
  step cpp run_cpp
fi
# Beside MPI's cases, which wait more than they compute.
! await build-asan || begin 5 asan run_asan
if ((built == 0)); then
  await mpi
  [[ -z $full ]] || step references run_references
  if [[ -n ${HVD_TEST_LONG-} ]]; then
    install_packages "${long_packages[@]}" && step slurm bash test/mpi/slurm.sh build/cpu
  fi
  [[ -z $full ]] || step install-tree check_install_tree
fi
await lint
if [[ -n $full ]]; then
  # What CUDA compiles, on a machine without a GPU too; what needs one is run by test/gpu/run.sh.
  if has_nvcc; then
    if step build-cuda build cuda hvd_nccl hvd_nccl_on_host gpu_logic_test gpu_tensor_test gpu_test gpu_ranks gpu_bench; then
      step cuda run_programs cuda cuda '' gpu_logic_test on_host/gpu_tensor_test
    fi
  else
    echo "skipped: CUDA, because there is no nvcc (HVD_CUDA=ON makes that a failure)"
  fi
fi
if [[ -n $full ]] && step build-tsan build tsan core_runtime_test ops_test; then
  step tsan run_programs tsan tsan "*ReduceExactly*:*WireBatches*:*InRankOrder*:*Interleaved*:$large_tensors:$large_shapes" \
    core_runtime_test ops_test
fi
begin 19 python-package install_package build/venv build/torch
if [[ -n ${beside[asan]-} ]]; then
  await asan
  [[ -z $full ]] || step fuzz run_fuzzer
fi
await python-package
packaged=$?
[[ -z $full ]] || { step configure-lint configure_lint && begin 19 tidy run_tidy; }
[[ -z $full ]] || step wheel env CMAKE_ARGS=-DHVD_WERROR=ON bash bindings/build_wheel.sh
if ((packaged == 0)); then
  begin 0 torch run_torch torch build/torch
  begin 0 python run_python python build/venv
  await torch
  await python
  step faults run_faults
  if [[ -n $full ]]; then
    step tf-environment make_tf_venv && step tf-package install_wheel build/tf && run_frameworks build/tf ""
  elif without_installing=1 make_tf_venv; then
    install_wheel build/tf && step keras run_pytest keras build/tf test/keras/test_examples.py -k 'accuracy and tensorflow'
  fi
  [[ -z $full ]] || ! has_nvcc || step gpu-python run_gpu_python
  if [[ -n ${HVD_TEST_LONG-} ]]; then
    if step install-newest install_versions newest tf; then
      step python-newest run_python python-newest build/venv-newest
      run_frameworks build/tf-newest -unlocked
      step install-tf-keras add_tf_keras build/tf-newest &&
        TF_USE_LEGACY_KERAS=1 step tf-keras run_keras_2 tf-keras build/tf-newest
    fi
    if step install-oldest install_versions oldest torch; then
      # What mypy finds depends on the stubs of NumPy and matplotlib, which have grown since.
      step python-oldest run_python python-oldest build/venv-oldest --ignore=test/bindings/test_types.py
      step torch-oldest run_torch torch-oldest build/torch-oldest
    fi
    for version in 2.13.1 2.15.1; do
      if step "install-tf-$version" make_old_tf_venv "$version"; then
        step "tensorflow-$version" run_pytest "tensorflow-$version" "build/tf-$version" test/tensorflow
        step "keras-$version" run_keras_2 "keras-$version" "build/tf-$version"
      fi
      rm -rf "build/tf-$version"
    done
    step tensorflow-2.12.1 refuse_old_tensorflow 2.12.1
    rm -rf build/tf-2.12.1
  fi
fi
[[ -z ${beside[tidy]-} ]] || await tidy

echo "$((SECONDS - started)) s in all"
build/venv/bin/python test/support/count.py "$results"
