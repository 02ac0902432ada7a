#!/usr/bin/env bash
# N "hosts" on one machine: network namespaces on a switch (a bridge in a namespace of its own), each
# with its name, /etc/hosts, /dev/shm and /run. Needs root; exits with 77 and says why where that cannot
# be made. Hosts are called NAME-a, NAME-b, ..., and HOST is the letter. Nothing outside of the namespaces
# is changed except the folder /tmp/hvd-hosts-NAME, and nothing but the other hosts can be reached.
# Everything is removed when the process that called `make` ends, however it ends.
#
#   hosts.sh make NAME N            2 to 26 hosts
#   hosts.sh on NAME HOST CMD..     runs CMD, as the process that this script was
#   hosts.sh mpirun NAME ARGS..     mpirun on host a with an agent in place of ssh
#   hosts.sh link NAME HOST up|down plugs or pulls the host's cable
#   hosts.sh cut NAME A B [oneway]  the switch drops what A and B send to each other, or only what A sends B
#   hosts.sh mend NAME A B          ends that
#   hosts.sh loss NAME HOST PERCENT the switch drops so many of the host's packets, each way; 0 ends that
#   hosts.sh rate NAME HOST MBIT    of the host's cable, each way; 0: unlimited
#   hosts.sh freeze NAME HOST       stops all processes of the host; its kernel goes on acknowledging
#   hosts.sh thaw NAME HOST         continues them
#   hosts.sh power-off NAME HOST    pulls the cable and kills all, so that no peer sees connections close
#   hosts.sh processes NAME HOST    the ids of the host's processes
#   hosts.sh sshd NAME HOST         starts an ssh server, for ssh -F /tmp/hvd-hosts-NAME/ssh_config NAME-HOST
#   hosts.sh remove NAME            ends what runs there, removes everything
set -euo pipefail

action=$1 name=$2
shift 2
folder=/tmp/hvd-hosts-$name
network=10.213.77 network6=fd00:d:77:

skip() {
  echo "skipped: $*"
  exit 77
}

needs() {  # COMMAND PACKAGE
  command -v "$1" >/dev/null || skip "there is no $1 (Debian: $2)"
}

# Namespaces are held by a process each: a host's sleeps, the switch's removes all when `make`'s caller ends.
hold_host='hostname "$2"
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount --bind "$1/hosts" /etc/hosts
ip link set lo up
echo $$ $(readlink /proc/self/ns/net) >"$1/${2##*-}.held"
echo ready
exec sleep infinity >/dev/null'
hold_switch='ip link add name switch type bridge mcast_snooping 0
ip link set switch up
echo $$ $(readlink /proc/self/ns/net) >"$1/switch.held"
echo ready
exec >/dev/null
tail --pid="$2" -f /dev/null
exec bash "$3" remove "$4"'

# hold HOLD "NAMESPACES" ARGUMENTS...
hold() {
  local ready=
  read -r ready < <(exec setsid unshare $2 bash -ec "$1" hold "$folder" "${@:3}" </dev/null 2>"$folder/error") ||
    skip "this system has no network namespaces with a bridge: $(<"$folder/error")"
}

# The process that holds a host. It may have been killed, and its id be another process's since.
holder() {  # HOST
  local id namespace
  [[ -e $folder/$1.held ]] && read -r id namespace <"$folder/$1.held" &&
    [[ $(readlink "/proc/$id/ns/net") == "$namespace" ]] ||
    { echo "hosts.sh: there is no host $name-$1" >&2; return 1; }
  echo "$id"
}

network_of() {  # HOST CMD...   with the files of this machine
  local id
  id=$(holder "$1")
  shift
  nsenter --target "$id" --net "$@"
}

enter() {  # HOST CMD...
  local id
  id=$(holder "$1")
  shift
  exec nsenter --target "$id" --net --uts --mount --wdns="$PWD" "$@"
}

# All that are in the host's network, whoever their parents are, except the one that holds it.
processes() {  # HOST
  local id namespace
  read -r id namespace <"$folder/$1.held"
  find /proc/[0-9]*/ns/net -lname "${namespace//[][]/?}" 2>/dev/null | cut -d/ -f3 | grep -vx "$id" || true
}

stop_all() {  # HOST   until none is new: a process that is not stopped yet may start others
  local now before=
  holder "$1" >/dev/null
  while now=$(processes "$1"); [[ $now != "$before" ]]; do
    kill -STOP $now 2>/dev/null || true
    before=$now
  done
}

kill_all() {  # HOST   returns when they are gone
  local now
  while now=$(processes "$1"); [[ -n $now ]]; do
    kill -KILL $now 2>/dev/null || true
    sleep 0.01
  done
}

remove() {
  [[ -e $folder ]] || return 0
  local file host ids
  for file in "$folder"/?.held; do
    [[ -e $file ]] || continue
    host=$(basename "$file" .held)
    kill_all "$host"
    ids=$(holder "$host") && kill -KILL $ids || true
  done
  [[ ! -e $folder/switch.held ]] || ids="$(processes switch) $(holder switch)"
  # Open MPI's folders of sessions too: an mpirun that was killed leaves them.
  rm -rf "$folder" "${TMPDIR:-/tmp}/ompi.$name"-?.*
  kill -KILL ${ids-} 2>/dev/null || true  # this process may be among them
}

make() {  # N
  [[ $(id -u) == 0 ]] || skip "hosts need root for their network namespaces"
  needs ip iproute2
  [[ -e /proc/sys/net/ipv6 ]] || skip "this system has no IPv6"
  mkdir -m 700 "$folder" || exit 1
  trap remove EXIT  # whatever goes wrong from here
  local number host hosts=()
  for ((number = 0; number < $1; ++number)); do hosts+=("${letters:number:1}"); done
  printf '%s localhost\n' 127.0.0.1 ::1 >"$folder/hosts"
  for number in "${!hosts[@]}"; do
    host=$name-${hosts[number]}
    printf '%s %s\n' "$network.$((number + 1))" "$host" "$network6:$((number + 1))" "$host"
  done >>"$folder/hosts"
  hold "$hold_switch" --net "$PPID" "$(realpath "$0")" "$name"
  for number in "${!hosts[@]}"; do connect "${hosts[number]}" $((number + 1)); done
  [[ -z $(command -v nft) ]] || add_rules "${hosts[@]}"
  # What mpirun calls like ssh: AGENT HOST COMMAND... It stays on the caller's host, and is told of a
  # host without power as little as ssh is.
  printf '#!/bin/bash\nhost=$1; shift\nbash %q on %q "${host##*-}" bash -c "$*" || code=$?
[[ ${code-} != 137 ]] || exec sleep infinity\nexit ${code-0}\n' "$(realpath "$0")" "$name" >"$folder/agent"
  chmod +x "$folder/agent"
  trap - EXIT
}
letters=abcdefghijklmnopqrstuvwxyz

connect() {  # HOST NUMBER   with a cable, called like the host at the switch and eth0 in the host
  hold "$hold_host" "--net --uts --mount" "$name-$1"
  network_of switch ip link add name "$1" type veth peer name eth0 netns "$(holder "$1")"
  network_of switch ip link set dev "$1" master switch up
  network_of "$1" ip -batch - <<END
addr add $network.$2/24 dev eth0
addr add $network6:$2/64 dev eth0 nodad
link set eth0 up
END
}

# The switch's: pairs that are cut, and a chain for each host, with its loss.
add_rules() {  # HOST...
  local host
  {
    echo 'add table bridge faults'
    echo 'add set bridge faults cut { type ifname . ifname; }'
    echo 'add chain bridge faults forward { type filter hook forward priority 0; }'
    echo 'add rule bridge faults forward meta iifname . meta oifname @cut drop'
    for host; do
      echo "add chain bridge faults loss-$host"
      echo "add rule bridge faults forward iifname $host jump loss-$host"
      echo "add rule bridge faults forward oifname $host jump loss-$host"
    done
  } | network_of switch nft -f - || skip "this system has no nftables for bridges"
}

rule() {  # WORDS...
  needs nft nftables
  network_of switch nft "$*"
}

cut_pair() {  # A B [oneway]
  rule "add element bridge faults cut { $1 . $2 }"
  [[ ${3-} == oneway ]] || rule "add element bridge faults cut { $2 . $1 }"
}

mend_pair() {  # A B
  # Added first, because what is not there cannot be deleted.
  cut_pair "$@"
  rule "delete element bridge faults cut { $1 . $2, $2 . $1 }"
}

lose() {  # HOST PERCENT
  rule "flush chain bridge faults loss-$1; add rule bridge faults loss-$1 numgen random mod 100 < $2 drop"
}

limit() {  # HOST DEVICE MBIT
  network_of "$1" tc qdisc del dev "$2" root 2>/dev/null || true
  [[ $3 == 0 ]] || network_of "$1" tc qdisc add dev "$2" root tbf rate "$3mbit" burst 32kb latency 50ms
}

start_sshd() {  # HOST
  [[ -x /usr/sbin/sshd ]] || skip "there is no sshd (Debian: openssh-server)"
  local key=$folder/$1.host_key
  [[ -e $folder/key ]] || ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
  ssh-keygen -q -t ed25519 -N '' -f "$key"
  echo "$name-$1 $(<"$key.pub")" >>"$folder/known_hosts"
  printf '%s\n' "IdentityFile $folder/key" "UserKnownHostsFile $folder/known_hosts" "IdentitiesOnly yes" \
    "GlobalKnownHostsFile /dev/null" "StrictHostKeyChecking yes" "BatchMode yes" >"$folder/ssh_config"
  (enter "$1" mkdir /run/sshd)
  enter "$1" /usr/sbin/sshd -f /dev/null -h "$key" -o "AuthorizedKeysFile=$folder/key.pub" \
    -o StrictModes=no -o PermitRootLogin=yes
}

case $action in
make) make "$@" ;;
on) enter "$@" ;;
mpirun)
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  enter a mpirun --mca plm_rsh_agent "$folder/agent" --oversubscribe --bind-to none \
    --mca btl_tcp_if_include $network.0/24 --mca oob_tcp_if_include $network.0/24 "$@"
  ;;
link) network_of switch ip link set dev "$1" "$2" ;;
cut) cut_pair "$@" ;;
mend) mend_pair "$@" ;;
loss) lose "$@" ;;
rate)
  limit switch "$1" "$2"
  limit "$1" eth0 "$2"
  ;;
freeze) stop_all "$1" ;;
thaw) kill -CONT $(holder "$1") $(processes "$1") ;;
power-off)
  network_of switch ip link set dev "$1" down
  kill_all "$1"
  ;;
processes) processes "$1" ;;
sshd) start_sshd "$1" ;;
remove) remove ;;
*)
  echo "hosts.sh: unknown action $action" >&2
  exit 2
  ;;
esac
