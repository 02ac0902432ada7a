#!/usr/bin/env bash
# Usage: two_hosts.sh TWO_HOSTS CASE JOB CONNECT_TEST. A job of 2 + 2 ranks on two "hosts" of one machine
# (test/support/two_hosts.sh): results, topology, a killed rank, a cable that is pulled.
set -uo pipefail
tool=$1 case=$2 job=$3 connect_test=$4
name=$(printf 'hvd%06x' $$)  # process numbers have at most 22 bits; at most 9 characters are allowed
output=/tmp/$name.output
bash "$tool" make "$name"
status=$?
[[ $status == 0 ]] || exit $status
trap 'bash "$tool" remove "$name"; rm -f "$output"' EXIT  # not before: they may be another's

fail() {
  cat "$output"
  echo "FAILED: $*"
  exit 1
}

launch() {  # what mpirun gets
  timeout 120 bash "$tool" mpirun "$name" -H "$name-a:2,$name-b:2" -np 4 "$@" >"$output" 2>&1
}

expect() {  # COUNT PATTERN
  local count
  count=$(grep -cE "$2" "$output")
  [[ $count == "$1" ]] || fail "$count lines instead of $1 say '$2'"
}

# Waits for COUNT lines with PATTERN, 30 s.
await() {
  for _ in $(seq 300); do
    [[ $(grep -cE "$2" "$output") -ge $1 ]] && return
    sleep 0.1
  done
  fail "after 30 s fewer than $1 lines say '$2'"
}

# Each of COUNT ranks was told PATTERN, at most SECONDS after the time FROM.
told() {
  expect "$1" "^TOLD rank [0-9] host $name-[ab] at [0-9.]+: .*$2"
  while read -r at; do
    awk -v at="$at" -v from="$4" -v limit="$3" 'BEGIN { exit !(at - from <= limit) }' ||
      fail "told at $at, more than $3 s after $4"
  done < <(sed -nE 's/^TOLD .* at ([0-9.]+): .*/\1/p' "$output")
}

results() {
  launch -x HOROVOD_HIERARCHICAL_ALLREDUCE="$1" -x HOROVOD_HIERARCHICAL_ALLGATHER="$1" \
    "$job" results || fail "exit code $?"
  expect 1 "^RESULT rank 0 of 4 host $name-a local 0/2 cross 0/2 hash"
  expect 1 "^RESULT rank 1 of 4 host $name-a local 1/2 cross 0/2 hash"
  expect 1 "^RESULT rank 2 of 4 host $name-b local 0/2 cross 1/2 hash"
  expect 1 "^RESULT rank 3 of 4 host $name-b local 1/2 cross 1/2 hash"
  hashes=$(sed -nE 's/^RESULT .* hash (.*)/\1/p' "$output" | sort -u)
  [[ $(wc -l <<<"$hashes") == 1 ]] || fail "ranks have different results"
}

case $case in
results)
  results 1
  with=$hashes
  results 0
  [[ $with == "$hashes" ]] || fail "results differ with and without hierarchy"
  ;;
contract)
  launch -x HOROVOD_DETERMINISTIC=1 "$connect_test" || fail "exit code $?"
  ;;
killed_rank)
  for victim in 3 2 0; do
    : >"$output"
    launch --enable-recovery -x HVD_FLIGHT_RECORDER_SIZE=0 "$job" lose $victim &
    await 3 '^TOLD'  # then mpirun waits for an MPI_Finalize that does not come
    died=$(sed -nE 's/^DIED rank [0-9] at ([0-9.]+)/\1/p' "$output")
    host=$([[ $victim -ge 2 ]] && echo "$name-b" || echo "$name-a")
    told 3 "rank $victim on host $host" 5 "$died"
    bash "$tool" remove "$name"
    wait
    bash "$tool" make "$name"
  done
  ;;
pulled_cable)
  : >"$output"
  launch --enable-recovery -x HVD_FLIGHT_RECORDER_SIZE=0 "$job" lose -1 &
  await 4 '^RUNNING'
  bash "$tool" link "$name" down
  pulled=$(date +%s.%N)
  await 2 '^TOLD'  # host b cannot print any more
  told 2 "rank [0-9] on host $name-b" 20 "$pulled"
  ;;
*)
  fail "no case $case"
  ;;
esac
