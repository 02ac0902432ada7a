"""hvdrun, which runs the ranks of hvd.run and hvd.Cluster for a caller that starts, interrupts and
kills them."""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from horovod_cpp import _native
from horovod_cpp.cluster.worker import WORKER

# Of an MPI or a rank that started this process: ranks would take its variables for their own.
_FOREIGN = ("OMPI_", "PMIX_", "PMI_", "MPI_LOCAL", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_",
            "HOROVOD_CROSS_", "HVD_RANK_PROCESS", "HVD_RENDEZVOUS", "HVD_WORLD", "HVD_JOB_ID",
            "HVDRUN_")

# The messages of runner/link/wire.h: length and type, rank, payload.
_HEADER = struct.Struct("<IBi")
OUTPUT, END, DONE, _SIGNAL, _START = 1, 2, 3, 6, 9
_STREAMS = ("stdout", "stderr")
_EXITED, _SIGNALED, _NOT_STARTED = range(3)  # kinds of ends; any other: its host is lost
_CHUNK = 1 << 18
_LEAVE = 5.0  # seconds that hvdrun has to end all it started; it kills them at once


class Relay:
    """One hvdrun, which runs an agent on each host.

    Args:
        options: arguments for hvdrun.
    """

    def __init__(self, options: Iterable[str], executable: str | None) -> None:
        self._socket, theirs = socket.socketpair()
        self._sending = threading.RLock()  # a signal handler may kill
        self._data = bytearray()
        self._program = executable or sys.executable
        with theirs:
            self._process = subprocess.Popen(
                [_needed_hvdrun(), "--relay", *options, self._program, *WORKER],
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env=environment_outside_jobs(), start_new_session=True)

    def fileno(self) -> int:
        return self._socket.fileno()

    def _say(self, kind: int, rank: int, payload: bytes) -> None:
        with self._sending, contextlib.suppress(OSError):  # receive() finds out that it is gone
            self._socket.sendall(_HEADER.pack(len(payload), kind, rank) + payload)

    def start(self, rank: int, process: int, variables: Mapping[str, str]) -> None:
        joined = b"".join(os.fsencode(f"{name}={value}") + b"\0"
                          for name, value in variables.items())
        empty = struct.pack("<I", 0)  # command and folder, which hvdrun knows
        self._say(_START, rank, empty + struct.pack("<I", len(joined)) + joined + empty
                  + struct.pack("<BI", 0, process))

    def signal(self, rank: int, process: int, number: int) -> None:
        self._say(_SIGNAL, rank, struct.pack("<iI", number, process))

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

    def end_in(self, payload: bytes) -> str:
        """How a process ended, of an END."""
        kind, value = struct.unpack_from("<Bi", payload)
        failure = f"could not be started ({self._program}: {os.strerror(value)})"
        ends: dict[int, str] = {_EXITED: describe_end(value), _SIGNALED: describe_end(-value),
                                _NOT_STARTED: failure}
        return ends.get(kind, "was lost")

    def close(self) -> str:
        """Ends all that it started. Returns what hvdrun said of itself."""
        with contextlib.suppress(OSError):  # it has ended
            self._socket.shutdown(socket.SHUT_RDWR)  # a fork of this process may have it open
        self._socket.close()
        try:
            _, text = self._process.communicate(timeout=_LEAVE)
        except subprocess.TimeoutExpired:  # agents notice
            self._process.kill()
            _, text = self._process.communicate()
        return text.decode(errors="replace").rstrip()


def environment_outside_jobs() -> dict[str, str]:
    """This process's variables without those that its place in a job gave it."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith(_FOREIGN) or name.startswith("OMPI_ALLOW_")}


def output_in(payload: bytes) -> tuple[str, bytes]:
    """Stream and bytes of an OUTPUT."""
    return _STREAMS[payload[0]], payload[5:]


def describe_end(code: int) -> str:
    """Of a process with this exit code; negative: the number of a signal."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def find_hvdrun() -> str | None:
    """The hvdrun that was installed with this package, else the one in PATH; None: neither."""
    return shutil.which("hvdrun", path=os.pathsep.join(_folders())) or shutil.which("hvdrun")


def _folders() -> list[str]:
    return [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]


def _needed_hvdrun() -> str:
    found = find_hvdrun()
    if found is None:
        raise _native.UnsupportedError(
            "hvd.run and hvd.Cluster start ranks with hvdrun, and it is neither in "
            + " nor in ".join(dict.fromkeys(_folders())) + "; reinstall horovod_cpp")
    return found
