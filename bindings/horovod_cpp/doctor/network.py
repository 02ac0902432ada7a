"""Interfaces, addresses and ssh, for jobs of several machines."""

import os
import pathlib
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence

from horovod_cpp import _native
from horovod_cpp.doctor.bounded import Finding, capture, ok, problem, warning

_VIRTUAL = ("docker", "virbr", "veth", "br-", "cni", "flannel", "cali")
_SSH_SECONDS = 5


def checks() -> Iterator[Finding]:
    addresses: dict[str, list[str]] = {name: [] for _, name in socket.if_nameindex()
                                       if name != "lo"}
    for name, address in _native._local_addresses():
        addresses.setdefault(name, []).append(address)
    yield from _interfaces(addresses)
    wanted = os.environ.get("HOROVOD_GLOO_IFACE", "").split(",")
    missing = [name for name in wanted if name and not addresses.get(name)]
    if missing:
        yield problem("HOROVOD_GLOO_IFACE", f"{', '.join(missing)}: no such interface with an "
                      "address is up here",
                      "unset it, or name some of " + ", ".join(filter(addresses.get, addresses)))
    yield _own_name()


def _speed(name: str) -> str:
    try:
        megabits = int(pathlib.Path(f"/sys/class/net/{name}/speed").read_text())
    except (OSError, ValueError):
        return ""
    return f", {megabits / 1000:g} Gbit/s" if megabits > 0 else ""


def _interfaces(addresses: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    usable = False
    for name, own in addresses.items():
        kind = ", of containers or virtual machines" if name.startswith(_VIRTUAL) else ""
        yield ok(name, (", ".join(own) or "down, or without address") + _speed(name) + kind)
        usable |= bool(own) and name != "lo" and not kind
    if "127.0.0.1" not in addresses.get("lo", []):
        yield problem("lo", "the loopback interface is down: hvdrun and its ranks talk over "
                      "127.0.0.1", "ip link set lo up")
    if not usable:
        yield ok("reach", "no interface to other machines; one machine needs none")


def _own_name() -> Finding:
    name = socket.gethostname()
    try:
        own = sorted({str(row[4][0]) for row in socket.getaddrinfo(name, None)})
    except OSError as error:
        return warning("host name", f"{name} has no address ({error.strerror})",
                       f"for jobs of several machines a line '<address> {name}' in /etc/hosts of "
                       "each of them")
    return ok("host name", f"{name} is {', '.join(own)}")


def ssh_checks(hosts: Sequence[str] = ()) -> Iterator[Finding]:
    """localhost, and the machines that the user asked for; those have to answer."""
    ssh = shutil.which("ssh")
    if ssh is None:
        level = problem if hosts else warning
        yield level("client", "there is no ssh in PATH; jobs on one machine need none",
                    "for several machines: apt-get install openssh-client")
        return
    yield ok("client", ssh)
    if not hosts:
        yield _server()
    yield from (_login(ssh, host, bool(hosts)) for host in hosts or ("localhost",))


def _server() -> Finding:
    try:
        with socket.create_connection(("localhost", 22), timeout=_SSH_SECONDS) as connection:
            connection.settimeout(_SSH_SECONDS)
            banner = connection.recv(100).decode(errors="replace").strip()
    except OSError as error:
        return ok("server", f"not needed on one machine; nothing answers on port 22 here ({error})")
    return ok("server", banner)


def _login(ssh: str, host: str, needed: bool) -> Finding:
    # As hvdrun calls it: never a question, since no one would see it.
    output = capture([ssh, "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_SSH_SECONDS}", "--",
                      host, "true"], _SSH_SECONDS + 3)
    if output.code == 0:
        return ok(host, "lets us in without a password")
    if not needed:
        return ok(host, "not needed on one machine (no login here without a password); --hosts NAME "
                  "looks at others")
    fix = f"ssh-keygen (once), ssh-copy-id {host}, then ssh {host} true must ask nothing"
    if "Host key verification failed" in output.text:
        fix = f"ssh-keyscan {host} >> ~/.ssh/known_hosts, after a look at what it prints"
    return problem(host, f"no login without a password ({output.why()})", fix)
