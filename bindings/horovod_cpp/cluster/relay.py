"""Ranks of other machines, which hvdrun runs and a caller here starts, interrupts and kills."""

import collections
import contextlib
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from horovod_cpp import _native
from horovod_cpp.cluster.pool_worker import (
    WORKER,
    PoolWorker,
    describe_end,
    environment_outside_jobs,
)

# The messages of runner/link/wire.h: length and type, rank, payload.
_HEADER = struct.Struct("<IBi")
OUTPUT, END, DONE, _SIGNAL, _START, _FLUSH, FLUSHED = 1, 2, 3, 6, 9, 10, 11
_STREAMS = ("stdout", "stderr")
_EXITED, _SIGNALED, _NOT_STARTED = range(3)  # kinds of ends; any other: its host is lost
_CHUNK = 1 << 18
_LEAVE = 5.0  # seconds that hvdrun has to end all it started; it kills them at once


class Relay:
    """One hvdrun, which runs an agent on each host.

    Args:
        options: words for hvdrun.
        hosts: names, by rank.
    """

    def __init__(self, options: Iterable[str], hosts: Sequence[str], executable: str | None) -> None:
        self.hosts = hosts
        self._socket, theirs = socket.socketpair()
        self._sending = threading.RLock()  # a signal handler may kill
        self._data = bytearray()
        with theirs:
            self._process = subprocess.Popen(
                [needed_hvdrun(), "--relay", *options, executable or sys.executable, *WORKER],
                stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env=environment_outside_jobs(), start_new_session=True)

    def fileno(self) -> int:
        return self._socket.fileno()

    def say(self, kind: int, rank: int, payload: bytes = b"") -> None:
        with self._sending, contextlib.suppress(OSError):  # receive() finds out that it is gone
            self._socket.sendall(_HEADER.pack(len(payload), kind, rank) + payload)

    def start(self, rank: int, variables: Mapping[str, str]) -> None:
        joined = b"".join(os.fsencode(f"{name}={value}") + b"\0"
                          for name, value in variables.items())
        empty = struct.pack("<I", 0)  # command and folder, which hvdrun knows
        self.say(_START, rank, empty + struct.pack("<I", len(joined)) + joined + empty + b"\0")

    def signal(self, rank: int, number: int) -> None:
        self.say(_SIGNAL, rank, struct.pack("<i", number))

    def flush(self, rank: int) -> None:
        """It answers FLUSHED once it has said what the rank wrote so far."""
        self.say(_FLUSH, rank)

    def receive(self) -> Iterator[tuple[int, int, bytes]]:
        """Yields what has come. Raises EOFError when hvdrun has ended."""
        try:
            data = self._socket.recv(_CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            raise EOFError
        self._data += data
        while len(self._data) >= _HEADER.size:
            length, kind, rank = _HEADER.unpack_from(self._data)
            end = _HEADER.size + length
            if len(self._data) < end:
                return
            payload = bytes(self._data[_HEADER.size:end])
            del self._data[:end]
            yield kind, rank, payload

    def close(self) -> str:
        """Ends all that it started. Returns what hvdrun said of itself."""
        self._socket.close()
        try:
            _, text = self._process.communicate(timeout=_LEAVE)
        except subprocess.TimeoutExpired:  # agents notice
            self._process.kill()
            _, text = self._process.communicate()
        return text.decode(errors="replace").rstrip()


def output_in(payload: bytes) -> tuple[str, bytes]:
    """Stream and bytes of an OUTPUT."""
    return _STREAMS[payload[0]], payload[5:]


class HostedWorker(PoolWorker):
    """A rank that hvdrun runs.

    Args:
        serve: handles what the relay has said.
    """

    def __init__(self, rank: int, relay: Relay, variables: Mapping[str, str],
                 serve: Callable[[Relay], None]) -> None:
        super().__init__(rank)
        self._relay, self._serve = relay, serve
        self.is_over = False
        # Messages over its own connection may be here before what it wrote earlier.
        self._deferred: collections.deque[tuple[str, list[Any]]] = collections.deque()
        relay.start(rank, variables)

    def defers(self, kind: str, content: list[Any]) -> bool:
        if kind == "begun" or self.is_over:
            return False
        self._deferred.append((kind, content))
        self._relay.flush(self.rank)
        return True

    def due_messages(self) -> Iterator[tuple[str, list[Any]]]:
        """One for a FLUSHED; all of them when no output will follow."""
        while self._deferred:
            yield self._deferred.popleft()
            if not self.is_over:
                return

    def memory(self) -> int:
        """As it said after its last call."""
        return self.outcome.memory if self.outcome else 0

    def _signal(self, number: int) -> None:
        if not self.is_over:
            self._relay.signal(self.rank, number)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def ends_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self.is_over and time.monotonic() < deadline:
            select.select([self._relay], [], [], max(deadline - time.monotonic(), 0))
            self._serve(self._relay)
        return self.is_over

    def note_end(self, payload: bytes) -> None:
        """Of an END."""
        kind, value = struct.unpack_from("<Bi", payload)
        host = self._relay.hosts[self.rank]
        ends = {_EXITED: describe_end(value), _SIGNALED: describe_end(-value),
                _NOT_STARTED: f"could not be started ({os.strerror(value)})"}
        self.end = self.end or f"{ends.get(kind, 'was lost')} on host {host}"

    def bury(self) -> str:
        return self.end or "was lost with hvdrun"


def find_hvdrun() -> str | None:
    """The hvdrun that was installed with this package, else the one in PATH; None: neither."""
    return shutil.which("hvdrun", path=os.pathsep.join(_folders())) or shutil.which("hvdrun")


def _folders() -> list[str]:
    return [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]


def needed_hvdrun() -> str:
    found = find_hvdrun()
    if found is None:
        raise _native.UnsupportedError(
            "ranks on other machines and MPI need hvdrun, and it is neither in "
            + " nor in ".join(dict.fromkeys(_folders())) + "; reinstall horovod_cpp")
    return found
