"""A program that calls ranks: its event loop, and what becomes of calls."""

import contextlib
import dataclasses
import functools
import os
import secrets
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from horovod_cpp.cluster.event_loop import READ, EventLoop
from horovod_cpp.cluster.output import Printer
from horovod_cpp.cluster.wire import Channel

_AFTER_FAILURE = 1.0  # seconds that the other ranks may go on after one failed


@dataclasses.dataclass
class Outcome:
    """What became of a call on one rank."""

    kind: str  # "result", "failure", "ended" (the process did)
    value: Any  # bytes; what worker._describe() tells; how it ended, as text
    running: bool = False  # the rank's engine can go on
    untouched: bool = False  # it was not used in the call
    memory: int = 0  # bytes that the rank takes
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


class CalledRank:
    """One rank as its caller sees it. For the thread that runs the event loop."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.channel: Channel | None = None  # while it is connected
        self.pid: int | None = None  # on its host
        self.is_ready = False  # for calls
        self.is_busy = False
        self.outcome: Outcome | None = None  # of the last call

    def finish(self, outcome: Outcome) -> None:
        self.outcome, self.is_busy = outcome, False


_Rank = TypeVar("_Rank", bound=CalledRank)


class CallerLoop(EventLoop, Generic[_Rank]):
    """Connections of ranks, what they print, and Ctrl-C. It runs in the thread that calls.

    Args:
        size: number of ranks.
        variables: that the ranks set when Python runs already.
        display: ranks show what they display; needs IPython.

    Attributes:
        workers: by rank; None: its process does not run.
        printer: shows what ranks print.
        interrupted: Ctrl-C came while catch_interrupts() was in force.
        engines_run: the ranks have joined one job, in which another call can be made.
    """

    def __init__(self, size: int, printer: Printer, variables: Mapping[str, str],
                 display: bool) -> None:
        super().__init__()
        self.size = size
        self.workers: list[_Rank | None] = [None] * size
        self.printer = printer
        self.interrupted = False
        self.engines_run = False
        self._variables = variables
        self._display = display
        self.key = secrets.token_bytes(32)
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._waker_before = -1
        self.selector.register(self._wake, READ, self._on_wake)

    def close_loop(self) -> None:
        super().close_loop()
        self._wake.close()
        self._waker.close()

    # -- events

    def serve(self, done: Callable[[], bool], deadline: float | None = None) -> None:
        """Handles events until done() or the deadline."""
        while not done():
            times = [at for at in (deadline, self.printer.due()) if at is not None]
            self.handle(max(0.0, min(times) - time.monotonic()) if times else None)
            if deadline is not None and time.monotonic() >= deadline:
                return

    def handle(self, timeout: float | None) -> bool:
        something = super().handle(timeout)
        self.printer.flush_due()
        return something

    @contextlib.contextmanager
    def catch_interrupts(self) -> Iterator[None]:
        """Ctrl-C only leaves a note, so that it cannot come between two steps of the loop."""
        if (threading.current_thread() is not threading.main_thread()
                or signal.getsignal(signal.SIGINT) is not signal.default_int_handler):
            yield
            return

        def note(number: int, frame: types.FrameType | None) -> None:
            self.interrupted = True

        signal.signal(signal.SIGINT, note)
        # The selector has to wake: note() alone runs when that returns, and a signal that comes just
        # before it waits, or to another thread, does not end its wait.
        self._waker_before = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(self._waker_before)
            self._waker_before = -1
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_wake(self, wake: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            signals = wake.recv(64)
            if self._waker_before >= 0:  # of the program's own loop, asyncio for instance
                os.write(self._waker_before, signals)

    # -- ranks that connect

    def on_channel(self, channel: Channel) -> None:
        self.selector.register(channel, READ, self._on_first_message)

    def _on_first_message(self, channel: Channel) -> None:
        try:
            for _, rank, pid in channel.receive_ready():
                worker = self.worker(rank)
                worker.channel, worker.pid = channel, pid
                self.selector.modify(channel, READ, functools.partial(self.read_messages, worker))
                self.send(channel,
                          ("setup", sys.path, sys.argv, self._variables, self._display))
                return  # what follows is not for this handler
        except (EOFError, OSError):
            self.selector.unregister(channel)
            channel.close()

    def worker(self, rank: int) -> _Rank:
        worker = self.workers[rank]
        assert worker is not None  # it was started
        return worker

    def close_channel(self, worker: _Rank) -> None:
        if worker.channel is not None:
            self.selector.unregister(worker.channel)
            worker.channel.close()
            worker.channel = None

    # -- what they say

    def read_messages(self, worker: _Rank, _: object = None) -> None:
        assert worker.channel is not None  # it is readable
        self.receive(worker.channel, functools.partial(self.on_message, worker),
                     functools.partial(self.on_lost, worker))

    def on_message(self, worker: _Rank, kind: str, content: list[Any]) -> None:
        if kind == "begun" or self.printer.take(worker.rank, kind, content):
            return
        if worker.is_ready:
            worker.finish(Outcome(*content))
        elif content[0] == "result":  # of "setup"
            worker.is_ready = True
        else:
            self.on_failed_setup(worker, content[1]["traceback"])

    def on_failed_setup(self, worker: _Rank, traceback: str) -> None:
        """The rank cannot be called."""
        raise NotImplementedError

    def on_lost(self, worker: _Rank, error: Exception) -> None:
        """The connection of a rank has ended or is broken."""
        raise NotImplementedError

    def last_words(self, rank: int) -> str:
        """The last lines that a rank printed, to be put behind what became of it."""
        raise NotImplementedError

    def serve_call(self, workers: Sequence[_Rank], timeout: float | None) -> bool:
        """Until all of these have an outcome, a second has passed since one failed, Ctrl-C or the
        end of the time. Returns whether all have one."""
        def over() -> bool:
            return all(worker.outcome is not None for worker in workers)

        def failed() -> bool:
            return any(w.outcome is not None and w.outcome.kind != "result" for w in workers)

        self.serve(lambda: over() or failed() or self.interrupted,
                   None if timeout is None else time.monotonic() + timeout)
        if failed() and not self.interrupted:
            self.serve(lambda: over() or self.interrupted, time.monotonic() + _AFTER_FAILURE)
        return over()
