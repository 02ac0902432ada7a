"""Ranks that hvdrun starts, for one call of hvd.run: on other machines, or with MPI."""

import contextlib
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from horovod_cpp import _native
from horovod_cpp.cluster import launch
from horovod_cpp.cluster.addresses import own_addresses
from horovod_cpp.cluster.caller_loop import CallerLoop
from horovod_cpp.cluster.event_loop import READ
from horovod_cpp.cluster.output import Printer, write_text
from horovod_cpp.cluster.pool_worker import Outcome
from horovod_cpp.cluster.rank_error import RankError
from horovod_cpp.cluster.wire import Channel

_GRACE = 1.0  # seconds between asking hvdrun to stop and killing it
_AFTER_FAILURE = 1.0  # seconds that the other ranks may go on after one failed
_LEAVE = 10.0  # seconds that ranks may take to end when all is done
_TAIL = 20  # last lines of output that are kept


class HvdrunJob(CallerLoop):
    """hvdrun, its output, and a connection a rank: as a Pool, for one call.

    Args:
        size: number of ranks.
        options: words for hvdrun.
        remote: ranks may be on other machines; ``interfaces``: through which they reach this one.
    """

    engines_run = False  # for another call: there is none

    def __init__(self, size: int, printer: Printer, options: Iterable[str], remote: bool,
                 interfaces: Sequence[str] = (), env: Mapping[str, str] | None = None,
                 executable: str | None = None, start_timeout: float = 60.0,
                 display: bool = False) -> None:
        super().__init__(printer)
        self._size = size
        self._start_timeout = start_timeout
        self._setup = ("setup", sys.path, sys.argv, env or {}, display)
        self._channels: dict[int, Channel] = {}  # by rank, while they are open
        self._ready: set[int] = set()  # ranks
        self._outcomes: dict[int, Outcome] = {}  # by rank
        self._ended = False  # hvdrun
        self._tail: list[str] = []
        self._partial = b""
        address = self.listen(self.key, own_addresses(interfaces) if remote else (), size)
        command = [_needed_hvdrun(), *options, executable or sys.executable, *launch.WORKER]
        variables = {**os.environ, **(env or {}), launch.ADDRESS: address,
                     launch.KEY: self.key.hex()}
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
            self.serve(lambda: self.interrupted or self._ended or len(self._ready) == self._size,
                       deadline)
        if self.interrupted:
            raise KeyboardInterrupt
        if len(self._ready) < self._size:
            missing = sorted(set(range(self._size)) - self._ready)
            why = "hvdrun ended" if self._ended else f"after {self._start_timeout:g} s"
            raise RankError(f"ranks {missing} did not start ({why}){self.last_words(None)}")
        self.close_listener()

    def call(self, message: tuple[Any, ...], ranks: Iterable[int],
             timeout: float | None = None) -> dict[int, Outcome]:
        """As Pool.call(), on all ranks. Those that do not finish are killed."""
        def over() -> bool:
            return len(self._outcomes) == self._size

        def failed() -> bool:
            return any(outcome.kind != "result" for outcome in self._outcomes.values())

        deadline = None if timeout is None else time.monotonic() + timeout
        with self.catch_interrupts():
            for channel in self._channels.values():
                self.send(channel, message)
            self.serve(lambda: over() or failed() or self.interrupted, deadline)
            if failed() and not self.interrupted:
                self.serve(lambda: over() or self.interrupted, time.monotonic() + _AFTER_FAILURE)
        for rank in set(range(self._size)) - set(self._outcomes):
            self._outcomes[rank] = Outcome("ended", "was stopped", stopped=True)
        return self._outcomes

    def last_words(self, rank: int | None) -> str:
        """The end of the output, to be put behind what became of a rank."""
        return "; the last lines:\n" + "\n".join(self._tail) if self._tail else ""

    def close(self) -> None:
        """Ends everything that still runs. Ranks leave when their connection closes."""
        try:
            kinds = [outcome.kind for outcome in self._outcomes.values()]
            if kinds == ["result"] * self._size:
                for channel in self._channels.values():
                    self.send(channel, ("leave",))
                self.serve(lambda: self._ended, time.monotonic() + _LEAVE)
        finally:
            for rank in list(self._channels):
                self._close_channel(rank)
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

    def on_hello(self, rank: int, channel: Channel) -> None:
        self._channels[rank] = channel
        self.selector.modify(channel, READ, lambda _: self._on_messages(rank, channel))
        self.send(channel, self._setup)

    def _on_messages(self, rank: int, channel: Channel) -> None:
        def lost(_: Exception) -> None:
            self._close_channel(rank)
            self._outcomes.setdefault(rank, Outcome("ended", "ended without a result"))

        self.receive(channel, functools.partial(self._on_message, rank), lost)

    def _on_message(self, rank: int, kind: str, content: list[Any]) -> None:
        if kind == "begun" or self.printer.take(rank, kind, content):
            return
        if rank in self._ready:
            self._outcomes[rank] = Outcome(*content)
        elif content[0] == "result":  # of "setup"
            self._ready.add(rank)
        else:
            self._tail += content[1]["traceback"].splitlines()
            self._close_channel(rank)

    def _close_channel(self, rank: int) -> None:
        channel = self._channels.pop(rank)
        self.selector.unregister(channel)
        channel.close()

    def _on_output(self, stream: IO[bytes]) -> None:
        """Passes on whole lines; hvdrun has put the rank in front of each."""
        data = os.read(stream.fileno(), 1 << 16)
        *lines, self._partial = (self._partial + data).split(b"\n")
        if not data:
            self.selector.unregister(stream)
            self._ended = True
            lines += [self._partial] if self._partial else []
            for rank in set(range(self._size)) - set(self._outcomes):
                self._outcomes[rank] = Outcome("ended", "ended without a result")
        for line in lines:
            text = line.decode(errors="replace").rpartition("\r")[2]
            self._tail = [*self._tail[1 - _TAIL:], text]
            write_text(sys.stdout, text + "\n")
            sys.stdout.flush()


def find_hvdrun() -> str | None:
    """The hvdrun that was installed with this package, else the one in PATH; None: neither."""
    return shutil.which("hvdrun", path=os.pathsep.join(_folders())) or shutil.which("hvdrun")


def _folders() -> list[str]:
    return [sysconfig.get_path("scripts"), str(pathlib.Path(sys.executable).parent)]


def _needed_hvdrun() -> str:
    found = find_hvdrun()
    if found is None:
        raise _native.UnsupportedError(
            "hvd.run needs hvdrun for other machines and MPI, and it is neither in "
            + " nor in ".join(dict.fromkeys(_folders())) + "; reinstall horovod_cpp")
    return found
