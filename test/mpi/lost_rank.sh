#!/usr/bin/env bash
# Usage: lost_rank.sh PROGRAM. Under --enable-recovery the launcher leaves the survivors alone, so
# that our own code has to notice.
set -uo pipefail
recovery=$(dirname "$0")/recovery.sh
output=$(bash "$recovery" 3 -np 4 bash "$recovery" rank "$1" 2>&1)
code=$?
echo "$output"
count=$(grep -c 'lost rank 2: rank 2 on host .* (pid [0-9]*) is gone' <<<"$output")
if [[ $code != 0 || $count != 3 ]]; then
  echo "exit code $code; $count of 3 survivors named rank 2"
  exit 1
fi
for name in /dev/shm/hvd-*; do
  [[ -e $name && ! -e /proc/$(cut -d- -f2 <<<"$name") ]] && echo "left behind: $name" && exit 1
done
exit 0
