"""One rank's process as its caller sees it."""

import contextlib
import dataclasses
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import IO, Any

from horovod_cpp import _native
from horovod_cpp.cluster.wire import Channel


@dataclasses.dataclass
class Outcome:
    """What became of a call on one rank."""

    kind: str  # "result", "failure", "ended" (the process did)
    value: Any  # bytes; what worker._describe() tells; how it ended, as text
    running: bool = False  # the rank's engine can go on
    untouched: bool = False  # it was not used in the call
    stopped: bool = False  # we asked for it: an interrupt, a time limit, another rank's failure
    at: float = dataclasses.field(default_factory=time.monotonic)

    def is_consequence(self) -> bool:
        """Whether something else than this rank began the trouble."""
        return self.stopped or (self.kind == "failure" and bool(self.value["lost_others"]))


def first_failure(outcomes: Mapping[int, Outcome]) -> int | None:
    """The rank that began the trouble, of Outcomes by rank; None if there was none."""
    failed = sorted((outcome.at, rank) for rank, outcome in outcomes.items()
                    if outcome.kind != "result")
    first = [rank for _, rank in failed if not outcomes[rank].is_consequence()]
    return next(iter([*first, *(rank for _, rank in failed)]), None)


class PoolWorker:
    """A process, its pipes and its channel. For the thread that runs the pool's event loop."""

    def __init__(self, rank: int, process: "subprocess.Popen[bytes]", mark: str) -> None:
        self.rank = rank
        self.process = process
        self.pidfd = os.pidfd_open(process.pid)
        self._mark = mark
        self._is_over = False  # its number may be another process's
        self._ending = threading.RLock()
        self.channel: Channel | None = None  # while it is connected
        self.is_ready = False  # for calls
        self.is_busy = False
        self.is_dropping = False  # the engine that it has
        self.calls = 0
        self.outcome: Outcome | None = None  # of the last call
        self._has_begun = False  # with it
        self._is_interrupted = False
        self.end: str | None = None  # why we killed it, as text
        assert process.stdout is not None and process.stderr is not None  # for mypy
        self.streams: dict[str, IO[bytes]] = {"stdout": process.stdout, "stderr": process.stderr}
        for stream in self.streams.values():
            os.set_blocking(stream.fileno(), False)

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
        if not self._has_begun:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGINT)

    def kill(self) -> None:
        """With everything that it started in its group. Any thread."""
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
        """After its end: how it ended, as text. Kills what it started."""
        with self._ending:
            self.kill()
            self._is_over = True  # before wait(): until then nobody else gets its number
        try:
            _native._kill_marked(self._mark)
        finally:
            code = self.process.wait()
            os.close(self.pidfd)
        return self.end or _describe_end(code)


def _describe_end(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
