"""The processes of ranks. Always a new process, never a fork."""

import contextlib
import os
import pathlib
import secrets
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

from horovod_cpp import _native
from horovod_cpp.cluster.caller_loop import CalledRank

# Of an MPI or a rank that started this process: ranks would take its variables for their own.
_FOREIGN = ("OMPI_", "PMIX_", "PMI_", "MPI_LOCAL", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_",
            "HOROVOD_CROSS_", "HVD_RANK_PROCESS", "HVD_RENDEZVOUS", "HVD_WORLD", "HVD_JOB_ID",
            "HVDRUN_")

# Through them a worker finds its caller; it forgets them at once.
ADDRESS, KEY, CALLER = "HVD_WORKER_ADDRESS", "HVD_WORKER_KEY", "HVD_WORKER_CALLER"

# Whatever a rank starts inherits it, in whatever session, and is killed with the rank.
MARK = "HVD_RANK_MARK"

# Not -m: the namespace of a worker is its __main__, and has nothing of ours in it.
WORKER = ("-P", "-c", "from horovod_cpp.cluster.worker import main; main()")


def environment_outside_jobs() -> dict[str, str]:
    """This process's variables without those that its place in a job gave it."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith(_FOREIGN) or name.startswith("OMPI_ALLOW_")}


def memory_of(process: int) -> int:
    """Bytes of main memory that it takes; 0 when it has just ended."""
    try:
        pages = int(pathlib.Path(f"/proc/{process}/statm").read_text("ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def new_mark() -> str:
    return secrets.token_hex(16)


class PoolWorker(CalledRank):
    """A rank that is called again and again, and its process."""

    streams: Mapping[str, IO[bytes]] = {}  # what it writes to, where we read that

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.is_dropping = False  # the engine that it has
        self.calls = 0
        self._has_begun = False  # with the last call
        self._is_interrupted = False
        self.end: str | None = None  # why we killed it, as text

    def call_begins(self) -> None:
        """Before it is sent."""
        self.outcome, self.is_busy = None, True
        self._has_begun = self._is_interrupted = False
        self.calls += 1

    def has_begun(self) -> None:
        """It can be interrupted from now on."""
        self._has_begun = True
        if self._is_interrupted:
            self.interrupt()

    def interrupt(self) -> None:
        """As Ctrl-C does, as soon as the call has begun. The process alone, not what it started."""
        self._is_interrupted = True
        if self._has_begun:
            self._signal(signal.SIGINT)

    def defers(self, kind: str, content: list[Any]) -> bool:
        """Whether it keeps a message until what it wrote before that is here."""
        return False

    def memory(self) -> int:
        """Bytes that it takes."""
        raise NotImplementedError

    def _signal(self, number: int) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        """With everything that it started in its group. Any thread."""
        raise NotImplementedError

    def ends_within(self, seconds: float) -> bool:
        raise NotImplementedError

    def bury(self) -> str:
        """After its end: how it ended, as text. Kills what it started."""
        raise NotImplementedError


class LocalWorker(PoolWorker):
    """A process of this machine, which leads a process group of its own, its pipes and its channel.

    Args:
        meeting: variables that tell it where its caller and the other ranks are.
        env: further variables, of the user's.
    """

    def __init__(self, rank: int, size: int, meeting: Mapping[str, str],
                 env: Mapping[str, str] | None, executable: str | None) -> None:
        super().__init__(rank)
        mark = new_mark()
        self._mark = f"{MARK}={mark}"
        environment = environment_outside_jobs()
        environment.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // size)))
        environment |= {
            **(env or {}), **meeting, "HOROVOD_RANK": str(rank), "HOROVOD_SIZE": str(size),
            "HOROVOD_LOCAL_RANK": str(rank), "HOROVOD_LOCAL_SIZE": str(size),
            "HOROVOD_CROSS_RANK": "0", "HOROVOD_CROSS_SIZE": "1", "HOROVOD_CONTROLLER": "gloo",
            CALLER: str(os.getpid()), MARK: mark}
        self.process = process = subprocess.Popen(
            [executable or sys.executable, *WORKER], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, start_new_session=True)
        self.pidfd = os.pidfd_open(process.pid)
        self._is_over = False  # its number may be another process's
        self._ending = threading.RLock()
        self.pid = process.pid
        assert process.stdout is not None and process.stderr is not None  # for mypy
        self.streams = {"stdout": process.stdout, "stderr": process.stderr}
        for stream in self.streams.values():
            os.set_blocking(stream.fileno(), False)

    def memory(self) -> int:
        return memory_of(self.process.pid)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def kill(self) -> None:
        with self._ending, contextlib.suppress(ProcessLookupError):
            if not self._is_over:
                os.killpg(self.process.pid, signal.SIGKILL)

    def ends_within(self, seconds: float) -> bool:
        end = select.poll()
        end.register(self.pidfd, select.POLLIN)
        return bool(end.poll(seconds * 1000))

    def read(self, name: str) -> bytes | None:
        """What it wrote to "stdout" or "stderr"; None when nothing is there, b"" at the end."""
        try:
            return os.read(self.streams[name].fileno(), 1 << 16)
        except BlockingIOError:
            return None

    def bury(self) -> str:
        with self._ending:
            self.kill()
            self._is_over = True  # before wait(): until then nobody else gets its number
        try:
            _native._kill_marked(self._mark)
        finally:
            code = self.process.wait()
            os.close(self.pidfd)
        return self.end or describe_end(code)


def describe_end(code: int) -> str:
    """Of a process with this exit code; negative: the number of a signal."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
