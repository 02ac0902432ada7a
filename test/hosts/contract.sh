#!/usr/bin/env bash
# Usage: contract.sh PLACES all|failures PROGRAM [GTEST_FLAG..]. Ranks that are started by hand, without a launcher:
# PLACES has a letter per rank, the host (test/support/hosts.sh) that it runs on, such as aabb. MPI must be hidden
# (without.py mpi). `all`: the program runs once, and every rank has to end with 0. `failures`: each case of
# runtime_test that ends its job in error is a run of its own, and the victim of a death does not end with 0.
set -uo pipefail
places=$1 what=$2 program=("${@:3}")
tool=$(dirname "$0")/../support/hosts.sh
name=hvd$$ said=
python3 -c 'import ctypes; ctypes.CDLL("libmpi.so.40")' 2>/dev/null && { echo "MPI is not hidden"; exit 1; }
letters=$(grep -o . <<<"$places" | sort -u)
bash "$tool" make "$name" "$(wc -w <<<"$letters")"
status=$?
[[ $status == 0 ]] || exit $status
trap 'bash "$tool" remove "$name"; rm -rf "$said"' EXIT  # not before: they may be another's
said=$(mktemp -d)
export WORLD_SIZE=${#places} HVD_RENDEZVOUS=tcp://$name-a:29400 HVD_TEST_FOLDER=$said
HVD_RENDEZVOUS_KEY=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export HVD_RENDEZVOUS_KEY

run() {  # COUNT PROGRAM...   COUNT ranks have to end with 0
  local rank started=() good=0
  rm -f "$said"/*
  for ((rank = 0; rank < WORLD_SIZE; ++rank)); do
    RANK=$rank timeout --foreground 200 bash "$tool" on "$name" "${places:rank:1}" "${@:2}" >"$said/said.$rank" 2>&1 &
    started+=($!)
  done
  for rank in "${!started[@]}"; do
    wait "${started[rank]}" && good=$((good + 1)) || echo "rank $rank: exit code $?" >>"$said/said.$rank"
  done
  [[ $good == "$1" ]] && return
  tail -n 200 "$said"/said.*
  return 1
}

if [[ $what == all ]]; then
  run "$WORLD_SIZE" "${program[@]}" || exit 1
  tail -n 3 "$said/said.0"
  exit
fi
failed=0 runs=0
for suite in Failures Deaths; do
  lost=$([[ $suite == Deaths ]] && echo 1 || echo 0)
  for case in $("${program[@]}" --gtest_list_tests --gtest_filter="$suite/*" | awk '/^ / {print $1}'); do
    runs=$((runs + 1))
    run $((WORLD_SIZE - lost)) "${program[@]}" "--gtest_filter=$suite/RuntimeContract.$case" && continue
    echo "failed: $case"
    failed=1
  done
done
[[ $runs -gt 3 && $failed == 0 ]]
