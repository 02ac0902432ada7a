"""The machines that hvd.run and hvd.Cluster are given."""

import os
import pathlib
import socket
from collections.abc import Iterable, Mapping, Sequence

from horovod_cpp import _native

_RANKS = 2  # by default

Words = str | Iterable[str] | None


def number_of_ranks(caller: str, np: object, slots: Mapping[str, int]) -> int:
    """``np``, or what the hosts have room for."""
    room = sum(slots.values())
    if np is None:
        return room or _RANKS
    if not isinstance(np, int) or isinstance(np, bool):
        raise TypeError(f"np is a number of ranks, got {type(np).__name__}")
    if np < 1:
        raise _native.InvalidArgumentError(f"{caller}: np is {np}, must be at least 1")
    if slots and np > room:
        raise _native.InvalidArgumentError(
            f"{caller}: np is {np}, but the hosts have {room} slots")
    return np


def slots_of(caller: str, hosts: Words, hostfile: str | os.PathLike[str] | None) -> dict[str, int]:
    """Ranks that each host may have, from what the caller was given."""
    if hosts is not None and hostfile is not None:
        raise _native.InvalidArgumentError(f"{caller} takes hosts or hostfile, not both")
    slots: dict[str, int] = {}
    if hostfile is not None:
        for line in pathlib.Path(hostfile).read_text(encoding="utf-8").splitlines():
            words = line.partition("#")[0].split()
            if words:
                host, *counts = words[0].split(":", 1)
                counts += [word[6:] if word.startswith("slots=") else "" for word in words[1:]]
                _add_slots(slots, host, counts, f"{caller}, {hostfile}: {line!r}")
        if not slots:
            raise _native.InvalidArgumentError(f"{caller}: {hostfile} names no host")
        return slots
    for part in names_in(hosts):
        host, *counts = part.split(":", 1)
        _add_slots(slots, host, counts, f"{caller}, hosts: {part!r}")
    return slots


def _add_slots(slots: dict[str, int], host: str, counts: Sequence[str], origin: str) -> None:
    number = ",".join(counts or ["1"])
    if (not host or host.startswith("-")  # an option of ssh
            or not number.isdecimal() or int(number) < 1 or host in slots):
        raise _native.InvalidArgumentError(
            f"{origin}: expected different names with a number of slots, node1:4 (in a file also "
            "node1 slots=4)")
    slots[host] = int(number)


def names_in(names: Words) -> list[str]:
    """The names in a text with commas, or a list."""
    if names is None:
        return []
    return [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]


class Hosts:
    """Where ranks run, and how hvdrun starts them.

    Args:
        np: number of ranks.
        slots: ranks that each machine may have; none: this machine.
        launcher: how hvdrun starts agents on other machines; None: with ssh.
        interfaces: through which they reach this one; none: all.
        use_mpi: mpirun starts the agents.
        options: further arguments for hvdrun.
    """

    def __init__(self, np: int, slots: Mapping[str, int], launcher: str | None = None,
                 interfaces: Sequence[str] = (), use_mpi: bool = False,
                 options: Sequence[str] = ()) -> None:
        self.np = np
        self.interfaces = interfaces
        self.use_mpi = use_mpi
        self.are_remote = not all(map(_is_local, slots))
        if not self.are_remote:
            slots = {"localhost": np}
        self.words = ",".join(f"{host}:{number}" for host, number in slots.items())  # for -H
        names = [host if self.are_remote else None for host, number in slots.items()
                 for _ in range(number)]
        self.by_rank = names[:np]  # None: this machine
        self._launcher = launcher or "ssh"
        self._options = options

    def options(self) -> list[str]:
        """Arguments for hvdrun."""
        words = ["-np", str(self.np), "-H", self.words, "--mpi" if self.use_mpi else "--gloo"]
        if self.are_remote and not self.use_mpi:
            words += ["--launcher", self._launcher]
        if self.interfaces and (self.are_remote or self.use_mpi):
            words += ["--network-interfaces", ",".join(self.interfaces)]
        return [*words, *self._options]


def _is_local(host: str) -> bool:
    name = socket.gethostname()
    return host in ("localhost", name, name.partition(".")[0]) or host.startswith("127.")
