#!/usr/bin/env bash
# Usage: lost_rank.sh PROGRAM. Under --enable-recovery the launcher leaves the survivors alone, so
# that our own code has to notice.
set -uo pipefail
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
output=$(timeout 60 mpirun --enable-recovery --oversubscribe --bind-to none -np 4 "$1" 2>&1)
echo "$output"
count=$(grep -c 'lost rank 2 after [012] s: rank 2 on host .* (pid [0-9]*) is gone' <<<"$output")
if [[ $count != 3 ]]; then
  echo "$count of 3 survivors named rank 2 within 2 s"
  exit 1
fi
for name in /dev/shm/hvd-*; do
  [[ -e $name && ! -e /proc/$(cut -d- -f2 <<<"$name") ]] && echo "left behind: $name" && exit 1
done
exit 0
