#!/usr/bin/env bash
# A Slurm of this machine, started here for the time of this test: srun with and without PMIx, salloc and sbatch
# with hvdrun, and a job array whose tasks meet by a file. Two further nodes are this machine too, with other names:
# hvdrun starts their agents by srun. Needs Debian's slurm-wlm and munge; part of test/run.sh --long.
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
  for file in "$home"/slurmd.*.pid "$home"/{slurmctld.pid,munge/pid}; do
    [[ -s $file ]] && kill "$(<"$file")" 2>/dev/null
  done
  # They write last things while they end.
  for _ in 1 2 3 4 5; do
    rm -rf "$home" 2>/dev/null && break
    sleep 1
  done
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
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool/%n
SlurmctldPidFile=$home/slurmctld.pid
SlurmdPidFile=$home/slurmd.%n.pid
SlurmctldLogFile=$home/slurmctld.log
SlurmdLogFile=$home/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
NodeName=$host Port=16818 CPUs=4 State=UNKNOWN
NodeName=n[1-2] NodeHostname=$host Port=[16819-16820] CPUs=4 State=UNKNOWN
PartitionName=test Nodes=$host Default=YES MaxTime=10 State=UP
PartitionName=two Nodes=n[1-2] MaxTime=10 State=UP
CONF
  export SLURM_CONF=$home/slurm.conf
  slurmctld -c || return
  local node second
  for node in "$host" n1 n2; do slurmd -c -N "$node" || return; done
  for ((second = 0; second < 30; ++second)); do
    [[ $(sinfo --noheader --format=%T | sort -u) == idle ]] && return
    sleep 1
  done
  cat "$home"/slurm*.log
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

# Two jobs, each with a rank that is started without a launcher.
run_array() {
  local options="--synthetic --examples 8 --batch-size 4 --steps 2 --sync-bn --history '' --save-per-rank"
  printf '#!/bin/sh\n%s\n' "RANK=\$SLURM_ARRAY_TASK_ID WORLD_SIZE=2 HVD_RENDEZVOUS=file://$home/\$SLURM_ARRAY_JOB_ID \
    '$build/examples/cifar_vgg11' $options --checkpoint '$home/vgg.safetensors'" >"$home/array.sh"
  sbatch --wait --array=0,1 --partition=two -n 1 --output="$home/array.%a" "$home/array.sh"
  cat "$home"/array.[01]
  cmp "$home"/vgg.rank[01].safetensors && echo "equal parameters"
}

start_slurm || { echo "FAILED  Slurm does not start here"; exit 1; }
export -f run_batch run_array
export hvdrun home build
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
expect "hvdrun starts agents by srun" 0 "[1] rank 1 of 2 on n2" salloc --partition=two -N 2 -n 2 \
  "$hvdrun" sh -c 'echo rank $RANK of $WORLD_SIZE on $SLURMD_NODENAME'
expect "ranks of agents that srun started make one world" 0 "PASSED" salloc --partition=two -N 2 -n 2 \
  "$hvdrun" "$program" "$chosen"
expect "a node whose agent srun does not start is named" 1 "host n9: srun failed" salloc --partition=two -N 2 -n 2 \
  env 'SLURM_JOB_NODELIST=n[1,9]' "$hvdrun" true
expect "the tasks of an array meet by a file and end with equal parameters" 0 "equal parameters" bash -c run_array
((failures == 0))
