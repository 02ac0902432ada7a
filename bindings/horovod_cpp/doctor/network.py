"""Interfaces, addresses and ssh, for jobs of several machines."""

import fcntl
import ipaddress
import os
import pathlib
import shutil
import socket
import struct
from collections.abc import Mapping, Sequence

from horovod_cpp.doctor.bounded import capture
from horovod_cpp.doctor.finding import Finding, ok, problem, warning

_SIOCGIFFLAGS, _SIOCGIFADDR = 0x8913, 0x8915
_UP = 1
_VIRTUAL = ("docker", "virbr", "veth", "br-", "cni", "flannel", "cali")
_SSH_SECONDS = 5


def checks() -> list[Finding]:
    addresses = {name: _addresses(name) for _, name in socket.if_nameindex() if _is_up(name)}
    return [*_interfaces(addresses), *_wanted(addresses), _own_name()]


def _request(name: str, number: int) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return fcntl.ioctl(probe, number, struct.pack("256s", name.encode()[:15]))


def _is_up(name: str) -> bool:
    try:
        return bool(struct.unpack_from("H", _request(name, _SIOCGIFFLAGS), 16)[0] & _UP)
    except OSError:
        return False


def _addresses(name: str) -> list[str]:
    found = []
    try:
        found.append(socket.inet_ntoa(_request(name, _SIOCGIFADDR)[20:24]))
    except OSError:
        pass  # it has none
    table = pathlib.Path("/proc/net/if_inet6")
    for line in table.read_text().splitlines() if table.exists() else ():
        digits, *_, owner = line.split()
        if owner == name:
            found.append(str(ipaddress.IPv6Address(bytes.fromhex(digits))))
    return found


def _speed(name: str) -> str:
    try:
        megabits = int(pathlib.Path(f"/sys/class/net/{name}/speed").read_text())
    except (OSError, ValueError):
        return ""
    return f", {megabits / 1000:g} Gbit/s" if megabits > 0 else ""


def _interfaces(addresses: Mapping[str, Sequence[str]]) -> list[Finding]:
    found, usable = [], []
    for name, own in addresses.items():
        kind = ", of containers or virtual machines" if name.startswith(_VIRTUAL) else ""
        found.append(ok(name, (", ".join(own) or "no address") + _speed(name) + kind))
        if own and name != "lo" and not kind:
            usable.append(name)
    if "127.0.0.1" not in addresses.get("lo", []):
        found.append(problem("lo", "the loopback interface is down: hvdrun and its ranks talk over "
                             "127.0.0.1", "ip link set lo up"))
    if not usable:
        found.append(ok("reach", "no interface to other machines; one machine needs none"))
    return found


def _wanted(addresses: Mapping[str, Sequence[str]]) -> list[Finding]:
    text = os.environ.get("HOROVOD_GLOO_IFACE", "")
    missing = [name for name in text.split(",") if name and name not in addresses]
    if not missing:
        return []
    return [problem("HOROVOD_GLOO_IFACE", f"{', '.join(missing)}: no such interface is up here",
                    "unset it, or name some of " + ", ".join(addresses))]


def _own_name() -> Finding:
    name = socket.gethostname()
    try:
        own = sorted({str(row[4][0]) for row in socket.getaddrinfo(name, None)})
    except OSError as error:
        return warning("host name", f"{name} has no address ({error.strerror})",
                       f"for jobs of several machines a line '<address> {name}' in /etc/hosts of "
                       "each of them")
    return ok("host name", f"{name} is {', '.join(own)}")


def ssh_checks(hosts: Sequence[str] = ()) -> list[Finding]:
    """localhost, and the machines that the user asked for; those have to answer."""
    ssh = shutil.which("ssh")
    if ssh is None:
        level = problem if hosts else warning
        return [level("client", "there is no ssh in PATH; jobs on one machine need none",
                      "for several machines: apt-get install openssh-client")]
    found = [ok("client", ssh)]
    if not hosts:
        found.append(_server())
    for host in hosts or ("localhost",):
        found.append(_login(ssh, host, bool(hosts)))
    return found


def _server() -> Finding:
    try:
        with socket.create_connection(("localhost", 22), timeout=_SSH_SECONDS) as connection:
            connection.settimeout(_SSH_SECONDS)
            banner = connection.recv(100).decode(errors="replace").strip()
    except OSError as error:
        return ok("server", f"not needed on one machine; nobody answers on port 22 here ({error})")
    return ok("server", banner)


def _login(ssh: str, host: str, needed: bool) -> Finding:
    # As hvdrun calls it: never a question, since nobody would see it.
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
