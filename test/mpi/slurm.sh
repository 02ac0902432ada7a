#!/usr/bin/env bash
# A Slurm of one node, started here for the time of this test: srun with and without PMIx, salloc
# and sbatch with hvdrun. Needs Debian's slurm-wlm and munge; part of test/run.sh --long.
#
#   bash test/mpi/slurm.sh BUILD_FOLDER
set -uo pipefail
build=$(realpath "$1")
hvdrun=$build/runner/hvdrun
program=$build/test/mpi/mpi_connect_test
chosen=--gtest_filter=Connect.SeesTheWorld*:*AllReduce_Sum*
home=$(mktemp -d)
host=$(hostname -s)
failures=0

finish() {
  local file
  for file in slurmd.pid slurmctld.pid munge/pid; do
    [[ -s $home/$file ]] && kill "$(<"$home/$file")" 2>/dev/null
  done
  rm -rf "$home"
}
trap finish EXIT

start_slurm() {
  mkdir -p "$home"/{state,spool,munge} && chmod 755 "$home" && chmod 700 "$home/munge" || return
  head -c 1024 /dev/urandom >"$home/munge.key" && chmod 600 "$home/munge.key" || return
  munged --key-file="$home/munge.key" --socket="$home/munge.socket" --pid-file="$home/munge/pid" \
    --log-file="$home/munge/log" --seed-file="$home/munge/seed" --force || return
  cat >"$home/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthInfo=socket=$home/munge.socket
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool
SlurmctldPidFile=$home/slurmctld.pid
SlurmdPidFile=$home/slurmd.pid
SlurmctldLogFile=$home/slurmctld.log
SlurmdLogFile=$home/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
NodeName=$host CPUs=4 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=10 State=UP
CONF
  export SLURM_CONF=$home/slurm.conf
  slurmctld -c || return
  slurmd -c || return
  local second
  for ((second = 0; second < 30; ++second)); do
    [[ $(sinfo --noheader --format=%T) == idle ]] && return
    sleep 1
  done
  cat "$home/slurmctld.log" "$home/slurmd.log"
  return 1
}

# expect NAME CODE TEXT COMMAND...   The command ends with CODE and its output has TEXT.
expect() {
  local name=$1 wanted=$2 text=$3 output code=0
  shift 3
  output=$(timeout 60 "$@" 2>&1) || code=$?
  if { [[ $wanted == fails ]] && ((code != 0)) || [[ $wanted == "$code" ]]; } &&
    [[ $output == *"$text"* ]]; then
    echo "ok      $name"
    return
  fi
  echo "FAILED  $name: exit code $code, expected $wanted and '$text' in"
  printf '%s\n' "$output"
  failures=$((failures + 1))
}

run_batch() {
  printf '#!/bin/sh\n%s\n' "'$hvdrun' sh -c 'echo rank \$RANK of \$WORLD_SIZE'" \
    >"$home/job.sh"
  sbatch --wait -n 2 --output="$home/job.out" "$home/job.sh"
  cat "$home/job.out"
}

start_slurm || { echo "FAILED  Slurm does not start here"; exit 1; }
export -f run_batch
export hvdrun home
expect "srun with PMIx makes one world" 0 "PASSED" srun --mpi=pmix -n 2 "$program" "$chosen"
expect "srun without PMIx says what to do" fails "srun --mpi=pmix" srun --mpi=none -n 2 "$program" "$chosen"
expect "srun without PMIx names the rank" fails "rank 1 of 2, local rank 1" \
  srun --mpi=none -n 2 "$program" "$chosen"
expect "a single task needs no MPI" 0 "PASSED" srun --mpi=none -n 1 "$program" "$chosen"
expect "hvdrun in salloc takes its tasks" 0 "[2] rank 2 of 3" salloc -n 3 \
  "$hvdrun" sh -c 'echo rank $RANK of $WORLD_SIZE'
expect "hvdrun in salloc makes one world" 0 "PASSED" salloc -n 2 "$hvdrun" --mpi "$program" "$chosen"
expect "hvdrun refuses more ranks than the job has" 2 "more ranks than this Slurm job has tasks" \
  salloc -n 2 "$hvdrun" -np 3 true
expect "hvdrun in a batch script takes its tasks" 0 "[1] rank 1 of 2" bash -c run_batch
((failures == 0))
