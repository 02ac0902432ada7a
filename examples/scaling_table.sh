#!/usr/bin/env bash
# Trains the CIFAR-10 example in one process, by threads, on two ranks of this machine and on two machines, and
# prints a table with the times per epoch and batch.
#
#   bash examples/scaling_table.sh                         the second machine is made of network namespaces (as root)
#   bash examples/scaling_table.sh --hosts node1,node2     by ssh, which must not ask for a password
#   bash examples/scaling_table.sh --epochs 3 --data DIR   further words go to examples/cifar_vgg11.py
#
# Without such words it uses 1,280 made-up images, for two epochs. The last epoch counts, because the first one
# warms up. Every row takes the same batches, so the losses agree except for the batch statistics of each part.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
hosts=
case ${1-} in
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit ;;
  --hosts) hosts=${2:?--hosts needs two names, as in --hosts node1,node2}; shift 2 ;;
esac
(($#)) || set -- --synthetic --epochs 2
command -v hvdrun >/dev/null || { echo "scaling_table.sh: there is no hvdrun: pip install horovod_cpp" >&2; exit 1; }
train=(python "$root/examples/cifar_vgg11.py" --history "" --plot "")

# row NAME COMMAND...   runs a training, and prints its row
row() {
  local name=$1 said
  shift
  said=$("$@" 2>&1) || { printf '%s\n' "$said" "scaling_table.sh: '$name' failed" >&2; exit 1; }
  awk -v name="$name" '
    match($0, /[0-9]+ images, batches of [0-9]+/) { split(substr($0, RSTART), words, /[ ,]+/); images = words[1]; batch = words[5] + 0 }
    / samples\/s/ { sub(/ samples\/s.*/, ""); speed = $NF }
    END {
      if (!speed || !images) exit 1
      printf "| %s | %.2f | %.1f | %d |\n", name, int(images / batch) * batch / speed, 1000 * batch / speed, speed
    }' <<<"$said" || { printf '%s\n' "$said" "scaling_table.sh: '$name' printed no speed" >&2; exit 1; }
}

echo "| how | seconds per epoch | milliseconds per batch | images/s |"
echo "|---|---|---|---|"
row "one process" "${train[@]}" "$@"
row "two threads (DataParallel)" "${train[@]}" --method dp --replicas 2 "$@"
row "two ranks on one host" hvdrun -np 2 "${train[@]}" "$@"
if [[ -n $hosts ]]; then
  row "two hosts ($hosts)" hvdrun -np 2 -H "${hosts/,/:1,}:1" --launcher ssh "${train[@]}" "$@"
  exit
fi
tool=$root/test/support/hosts.sh name=hvd$$
if made=$(bash "$tool" make "$name" 2); then
  trap 'bash "$tool" remove "$name"' EXIT
  row "two hosts (network namespaces)" bash "$tool" on "$name" a hvdrun -np 2 -H "$name-a:1,$name-b:1" \
    --launcher "exec:/tmp/hvd-hosts-$name/agent" "${train[@]}" "$@"
else
  echo "scaling_table.sh: no row for two hosts: $made; --hosts takes machines of yours" >&2
fi
