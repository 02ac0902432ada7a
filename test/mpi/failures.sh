#!/usr/bin/env bash
# Usage: failures.sh PROGRAM HOST HOST [VARIABLE=VALUE..]. Each case of runtime_test that ends its job in
# error is a run of three ranks, two on the first host and one on the second, which may be the same; the
# victim of a death does not end with 0. HVD_CONTROL_PLANE=mpi notices no death, and says so.
set -uo pipefail
program=$1 first=$2 second=$3 variables=("${@:4}")
recovery=$(dirname "$0")/recovery.sh
failed=0 runs=0
run() {  # suite, ranks that end with 0
  local name
  for name in $("$program" --gtest_list_tests --gtest_filter="$1/*" | awk '/^ / {print $1}'); do
    runs=$((runs + 1))
    local rank=(bash "$recovery" rank "$program" "--gtest_filter=$1/RuntimeContract.$name")
    bash "$recovery" "$2" -np 2 env "HOROVOD_HOSTNAME=$first" "${variables[@]}" "${rank[@]}" : \
      -np 1 env "HOROVOD_HOSTNAME=$second" "${variables[@]}" "${rank[@]}" && continue
    echo "failed: $name"
    failed=1
  done
}
run Failures 3
[[ " ${variables[*]} " == *" HVD_CONTROL_PLANE=mpi "* ]] || run Deaths 2
[[ $runs -gt 3 && $failed == 0 ]]
