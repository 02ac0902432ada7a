"""Ranks of one call of hvd.run whose output hvdrun shows: with MPI, or with files of it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from horovod_cpp.cluster import pool_worker
from horovod_cpp.cluster.caller_loop import CalledRank, CallerLoop, Outcome
from horovod_cpp.cluster.calls import RankError
from horovod_cpp.cluster.event_loop import READ
from horovod_cpp.cluster.listener import own_addresses
from horovod_cpp.cluster.output import Printer, write_text
from horovod_cpp.cluster.relay import needed_hvdrun

_GRACE = 1.0  # seconds between asking hvdrun to stop and killing it
_LEAVE = 10.0  # seconds that ranks may take to end when all is done
_TAIL = 20  # last lines of output that are kept


class HvdrunJob(CallerLoop[CalledRank]):
    """hvdrun, its output, and one connection per rank: as a Pool, for one call.

    Args:
        options: words for hvdrun.
        remote: ranks may be on other machines; ``interfaces``: through which they reach this one.
    """

    def __init__(self, size: int, printer: Printer, options: Iterable[str], remote: bool,
                 interfaces: Sequence[str] = (), env: Mapping[str, str] | None = None,
                 executable: str | None = None, start_timeout: float = 60.0,
                 display: bool = False) -> None:
        super().__init__(size, printer, env or {}, display)
        self._ranks = [CalledRank(rank) for rank in range(size)]
        self.workers[:] = self._ranks
        self._start_timeout = start_timeout
        self._ended = False  # hvdrun
        self._tail: list[str] = []
        self._partial = b""
        address = self.listen(self.key, own_addresses(interfaces) if remote else (), size)
        command = [needed_hvdrun(), *options, executable or sys.executable, *pool_worker.WORKER]
        variables = {**os.environ, **(env or {}), pool_worker.ADDRESS: address,
                     pool_worker.KEY: self.key.hex()}
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=variables, start_new_session=True)
        assert self._process.stdout is not None  # for mypy
        self._output = self._process.stdout
        self.selector.register(self._output, READ, self._on_output)

    def ready(self) -> None:
        """Waits until all ranks are there. Raises RankError or KeyboardInterrupt."""
        deadline = time.monotonic() + self._start_timeout
        with self.catch_interrupts():
            self.serve(lambda: self.interrupted or self._ended
                       or all(rank.is_ready for rank in self._ranks), deadline)
        if self.interrupted:
            raise KeyboardInterrupt
        missing = [rank.rank for rank in self._ranks if not rank.is_ready]
        if missing:
            why = "hvdrun ended" if self._ended else f"after {self._start_timeout:g} s"
            raise RankError(f"ranks {missing} did not start ({why}){self.last_words()}")
        self.close_listener()

    def call(self, message: tuple[Any, ...], ranks: Iterable[int],
             timeout: float | None = None) -> dict[int, Outcome]:
        """As Pool.call(), on all ranks. Those that do not finish are killed."""
        with self.catch_interrupts():
            self._send_to_all(message)
            self.serve_call(self._ranks, timeout)
        stopped = Outcome("ended", "was stopped", stopped=True)
        return {rank.rank: rank.outcome or stopped for rank in self._ranks}

    def _send_to_all(self, message: tuple[Any, ...]) -> None:
        for rank in self._ranks:
            if rank.channel is not None:
                self.send(rank.channel, message)

    def last_words(self, rank: int | None = None) -> str:
        """Of all ranks: their output is one."""
        return "; the last lines:\n" + "\n".join(self._tail) if self._tail else ""

    def close(self) -> None:
        """Ends everything that still runs. Ranks leave when their connection closes."""
        try:
            if all(rank.outcome is not None and rank.outcome.kind == "result"
                   for rank in self._ranks):
                self._send_to_all(("leave",))
                self.serve(lambda: self._ended, time.monotonic() + _LEAVE)
        finally:
            for rank in self._ranks:
                self.close_channel(rank)
            self._end_hvdrun()
            self.close_loop()

    def _end_hvdrun(self) -> None:
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_GRACE)
        finally:
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._output.close()

    def on_lost(self, worker: CalledRank, error: Exception) -> None:
        self.close_channel(worker)
        self._ends(worker)

    def on_failed_setup(self, worker: CalledRank, traceback: str) -> None:
        self._tail += traceback.splitlines()
        self.close_channel(worker)

    @staticmethod
    def _ends(rank: CalledRank) -> None:
        if rank.outcome is None:
            rank.finish(Outcome("ended", "ended without a result"))

    def _on_output(self, stream: IO[bytes]) -> None:
        """Passes on whole lines; hvdrun has put the rank in front of each."""
        data = os.read(stream.fileno(), 1 << 16)
        *lines, self._partial = (self._partial + data).split(b"\n")
        if not data:
            self.selector.unregister(stream)
            self._ended = True
            lines += [self._partial] if self._partial else []
            for rank in self._ranks:
                self._ends(rank)
        for line in lines:
            text = line.decode(errors="replace").rpartition("\r")[2]
            self._tail = [*self._tail[1 - _TAIL:], text]
            write_text(sys.stdout, text + "\n")
            sys.stdout.flush()
