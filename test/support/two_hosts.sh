#!/usr/bin/env bash
# Two "hosts" on one machine: network namespaces joined by a cable (a veth pair); what runs there
# has the host's name, /etc/hosts and /dev/shm of its own. Needs root; exits with 77 and says why
# where namespaces cannot be made. Hosts are called NAME-a and NAME-b.
#
#   two_hosts.sh make NAME           NAME: letters and digits, at most 9
#   two_hosts.sh on NAME HOST CMD..  runs CMD on host a or b
#   two_hosts.sh mpirun NAME ARGS..  mpirun on host a with an agent in place of ssh
#   two_hosts.sh link NAME up|down   plugs the cable of host b
#   two_hosts.sh remove NAME         ends what runs there, removes everything
set -euo pipefail

action=$1 name=$2
shift 2
folder=/tmp/hvd-two-hosts-$name
network=10.213.77

skip() {
  echo "skipped: $*"
  exit 77
}

# Runs as the shell of a process that is in its own mount and name spaces.
inside='hostname "$HVD_HOST"
mount -t tmpfs tmpfs /dev/shm
mount --bind "$HVD_HOSTS" /etc/hosts
exec "$@"'

enter() {  # HOST CMD...
  local host=$1
  shift
  HVD_HOST=$name-$host HVD_HOSTS=$folder/hosts exec ip netns exec "$name-$host" \
    unshare --uts --mount bash -c "$inside" "$name-$host" "$@"
}

remove() {
  for host in a b; do
    [[ -e /run/netns/$name-$host ]] || continue
    local ids
    ids=$(ip netns pids "$name-$host")
    [[ -z $ids ]] || kill -KILL $ids 2>/dev/null || true
    ip netns del "$name-$host"
  done
  # Open MPI's folders of sessions too: an mpirun that was killed leaves them.
  rm -rf "$folder" "${TMPDIR:-/tmp}/ompi.$name"-[ab].*
}

make() {
  [[ $(id -u) == 0 ]] || skip "two hosts need root for their network namespaces"
  command -v ip >/dev/null || skip "there is no ip (Debian: iproute2)"
  [[ ! -e /run/netns/$name-a ]] || { echo "two_hosts.sh: there is a host $name-a already" >&2; exit 1; }
  ip netns add "$name-a" 2>/dev/null || skip "this system lets nobody make network namespaces"
  trap remove EXIT  # whatever goes wrong from here
  ip netns exec "$name-a" unshare --uts --mount true 2>/dev/null ||
    skip "this system lets nobody make mount namespaces"
  ip netns add "$name-b"
  ip link add "$name-va" netns "$name-a" type veth peer name "$name-vb" netns "$name-b" ||
    skip "this system has no veth devices"
  local number=1
  for host in a b; do
    ip -n "$name-$host" addr add $network.$number/24 dev "$name-v$host"
    ip -n "$name-$host" link set "$name-v$host" up
    ip -n "$name-$host" link set lo up
    number=$((number + 1))
  done
  mkdir -p "$folder"
  printf '127.0.0.1 localhost\n%s.1 %s-a\n%s.2 %s-b\n' $network "$name" $network "$name" \
    >"$folder/hosts"
  # What mpirun calls like ssh: AGENT HOST COMMAND...
  printf '#!/bin/bash\nhost=$1; shift\nexec bash %q on %q "${host##*-}" bash -c "$*"\n' \
    "$(realpath "$0")" "$name" >"$folder/agent"
  chmod +x "$folder/agent"
  trap - EXIT
}

case $action in
make) make ;;
on) enter "$@" ;;
mpirun)
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  enter a mpirun --mca plm_rsh_agent "$folder/agent" --oversubscribe --bind-to none \
    --mca btl_tcp_if_include $network.0/24 --mca oob_tcp_if_include $network.0/24 "$@"
  ;;
link) ip -n "$name-b" link set "$name-vb" "$1" ;;
remove) remove ;;
*)
  echo "two_hosts.sh: unknown action $action" >&2
  exit 2
  ;;
esac
