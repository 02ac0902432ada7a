#!/usr/bin/env bash
# Usage: two_hosts.sh HOSTS CASE JOB CONNECT_TEST. A job of 2 + 2 ranks on two "hosts" of one machine
# (test/support/hosts.sh): results, topology, settings that differ, a killed rank, a cable that is
# pulled.
set -uo pipefail
tool=$1 case=$2 job=$3 connect_test=$4
name=hvd$$
output=/tmp/$name.output  # of mpirun
said=/tmp/$name.said      # of the ranks: .0 to .3, on either host
bash "$tool" make "$name" 2
status=$?
[[ $status == 0 ]] || exit $status
trap 'bash "$tool" remove "$name"; rm -f "$output" "$said".*' EXIT  # not before: they may be another's

fail() {
  tail -n +1 "$output" "$said".* 2>/dev/null
  echo "FAILED: $*"
  exit 1
}

launch() {  # what mpirun gets
  timeout 120 bash "$tool" mpirun "$name" -H "$name-a:2,$name-b:2" -np 4 "$@" >"$output" 2>&1
}

count() {  # PATTERN
  cat "$said".* 2>/dev/null | grep -cE "$1"
}

expect() {  # COUNT PATTERN
  [[ $(count "$2") == "$1" ]] || fail "$(count "$2") lines instead of $1 say '$2'"
}

# Waits for COUNT lines with PATTERN, 30 s.
await() {
  for _ in $(seq 300); do
    [[ $(count "$2") -ge $1 ]] && return
    sleep 0.1
  done
  fail "after 30 s fewer than $1 lines say '$2'"
}

# Waits until COUNT ranks of HOST, a pattern too, were told PATTERN, at most SECONDS after FROM.
told() {
  await "$1" "^TOLD rank [0-9] host $name-$2"
  expect "$1" "^TOLD rank [0-9] host $name-$2 at [0-9.]+: .*$3"
  while read -r at; do
    awk -v at="$at" -v from="$5" -v limit="$4" 'BEGIN { exit !(at - from <= limit) }' ||
      fail "told at $at, more than $4 s after $5"
  done < <(sed -nE "s/^TOLD .* host $name-$2 at ([0-9.]+): .*/\1/p" "$said".*)
}

# Starts a job that loses the rank VICTIM, or -1.
lose() {
  rm -f "$said".*
  launch --enable-recovery -x HVD_FLIGHT_RECORDER_SIZE=0 "$job" "$said" lose "$1" &
}

results() {
  launch -x HOROVOD_HIERARCHICAL_ALLREDUCE="$1" -x HOROVOD_HIERARCHICAL_ALLGATHER="$1" \
    "$job" "$said" results || fail "exit code $?"
  expect 1 "^RESULT rank 0 of 4 host $name-a local 0/2 cross 0/2 hash"
  expect 1 "^RESULT rank 1 of 4 host $name-a local 1/2 cross 0/2 hash"
  expect 1 "^RESULT rank 2 of 4 host $name-b local 0/2 cross 1/2 hash"
  expect 1 "^RESULT rank 3 of 4 host $name-b local 1/2 cross 1/2 hash"
  hashes=$(sed -nE 's/^RESULT .* hash (.*)/\1/p' "$said".* | sort -u)
  [[ $(wc -l <<<"$hashes") == 1 ]] || fail "ranks have different results"
}

case $case in
results)
  results 1
  with=$hashes
  results 0
  [[ $with == "$hashes" ]] || fail "results differ with and without hierarchy"
  ;;
agreement)
  for setting in HVD_CONTROL_PLANE=mpi HOROVOD_HIERARCHICAL_ALLREDUCE=0 HOROVOD_HIERARCHICAL_ALLGATHER=0 \
    HOROVOD_DETERMINISTIC=1 HOROVOD_CPU_OPERATIONS=mpi; do
    timeout 120 bash "$tool" mpirun "$name" -H "$name-a:2,$name-b:2" \
      -host "$name-a:2" -np 2 "$job" "$said" agree : \
      -host "$name-b:2" -np 2 -x "$setting" "$job" "$said" agree \
      >"$output" 2>&1 || fail "exit code $?"
    differs="${setting%=*} is '.*' \(the default\) on ranks 0, 1 and '${setting#*=}' on ranks 2, 3"
    expect 2 "^REFUSED host $name-a: .*$differs"
    expect 2 "^REFUSED host $name-b: .*$differs"
  done
  ;;
contract)
  launch -x HOROVOD_DETERMINISTIC=1 "$connect_test" || fail "exit code $?"
  ;;
killed_rank)
  for victim in 3 2 0; do
    lose $victim
    host=$([[ $victim -ge 2 ]] && echo "$name-b" || echo "$name-a")
    await 1 '^DIED'
    died=$(sed -nE 's/^DIED rank [0-9] at ([0-9.]+)/\1/p' "$said".*)
    told 3 '[ab]' "rank $victim on host $host" 15 "$died"
    bash "$tool" remove "$name"  # mpirun waits for an MPI_Finalize that does not come
    wait
    bash "$tool" make "$name" 2
  done
  ;;
pulled_cable)
  lose -1
  await 4 '^RUNNING'
  bash "$tool" link "$name" b down
  pulled=$(python3 -c 'import time; print(time.monotonic())')
  told 2 a "rank [0-9] on host $name-b" 20 "$pulled"
  ;;
*)
  fail "no case $case"
  ;;
esac
