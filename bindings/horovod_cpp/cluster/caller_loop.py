"""A program that calls ranks: its event loop, and the outcomes of calls."""

import contextlib
import functools
import os
import secrets
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from horovod_cpp.cluster.event_loop import READ, EventLoop
from horovod_cpp.cluster.output import Printer
from horovod_cpp.cluster.pool_worker import Outcome, PoolWorker
from horovod_cpp.cluster.wire import Channel

_AFTER_FAILURE = 1.0  # seconds that the other ranks may go on after one failed


class CallerLoop(EventLoop):
    """Connections of ranks, what they print, and Ctrl-C. It runs in the thread that calls.

    Args:
        size: number of ranks.
        display: ranks show what they display; needs IPython.

    Attributes:
        workers: by rank; None: its process does not run.
        printer: shows what ranks print.
        interrupted: Ctrl-C came while catch_interrupts() was in force.
        engines_run: the ranks have joined one job, in which another call can be made.
    """

    def __init__(self, size: int, printer: Printer, display: bool) -> None:
        super().__init__()
        self.size = size
        self.workers: list[PoolWorker | None] = [None] * size
        self.printer = printer
        self.interrupted = False
        self.engines_run = False
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
        """Ctrl-C only sets a flag, so that it cannot come between two steps of the loop."""
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
            for _, rank, number, pid in channel.receive_ready():
                worker = self.workers[rank]
                if worker is None or worker.number != number:
                    raise EOFError  # its process has ended since
                worker.channel, worker.pid = channel, pid
                self.selector.modify(channel, READ, functools.partial(self.read_messages, worker))
                self.send(channel, ("setup", sys.path, sys.argv, self._display))
                return  # what follows is not for this handler
        except (EOFError, OSError):
            self.selector.unregister(channel)
            channel.close()

    def worker(self, rank: int) -> PoolWorker:
        worker = self.workers[rank]
        assert worker is not None  # it was started
        return worker

    def close_channel(self, worker: PoolWorker) -> None:
        if worker.channel is not None:
            self.selector.unregister(worker.channel)
            worker.channel.close()
            worker.channel = None

    # -- what they say

    def read_messages(self, worker: PoolWorker, _: object = None) -> None:
        assert worker.channel is not None  # it is readable
        self.receive(worker.channel, functools.partial(self.on_message, worker),
                     functools.partial(self.on_lost, worker))

    def on_message(self, worker: PoolWorker, kind: str, content: list[Any]) -> None:
        written, *content = content
        if kind == "begun":
            worker.has_begun()
            return
        worker.defer(written, kind, content)
        self.take_due(worker)

    def take_due(self, worker: PoolWorker) -> None:
        """What a rank said, once all that it wrote before that is here."""
        for kind, content in worker.due_messages():
            if kind == "dropped":
                worker.is_dropping = False
            elif self.printer.take(worker.rank, kind, content):
                pass
            elif worker.is_ready:
                worker.finish(Outcome(*content))
            elif content[0] == "result":  # of "setup"
                worker.is_ready = True
            else:  # the rank cannot be called
                self.printer.feed(worker.rank, "stderr", content[1]["traceback"].encode())
                worker.kill()

    def on_lost(self, worker: PoolWorker, error: Exception) -> None:
        """The connection of a rank has ended or is broken."""
        raise NotImplementedError

    def last_lines(self, rank: int) -> str:
        """The last lines that a rank printed, to be appended to how it ended."""
        tail = self.printer.tail(rank)
        return f"; its last lines:\n{tail}" if tail else ""

    def serve_call(self, workers: Sequence[PoolWorker], timeout: float | None) -> bool:
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
