"""The event loop of a program that calls ranks."""

import contextlib
import secrets
import signal
import socket
import threading
import time
import types
from collections.abc import Callable, Iterator

from horovod_cpp.cluster.event_loop import READ, EventLoop
from horovod_cpp.cluster.output import Printer
from horovod_cpp.cluster.wire import Channel


class CallerLoop(EventLoop):
    """Connections of ranks, what they print, and Ctrl-C. It runs in the thread that calls.

    Attributes:
        printer: shows what ranks print.
        interrupted: Ctrl-C came while catch_interrupts() was in force.
    """

    def __init__(self, printer: Printer) -> None:
        super().__init__()
        self.printer = printer
        self.interrupted = False
        self.key = secrets.token_bytes(32)
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
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
            with contextlib.suppress(BlockingIOError):
                self._waker.send(b"x")

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_wake(self, wake: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            wake.recv(64)

    # -- ranks that connect

    def on_hello(self, rank: int, channel: Channel) -> None:
        """A rank has connected. The subclass reads the channel from now on."""
        raise NotImplementedError

    def on_channel(self, channel: Channel) -> None:
        self.selector.register(channel, READ, self._on_first_message)

    def _on_first_message(self, channel: Channel) -> None:
        try:
            for _, rank in channel.receive_ready():
                self.on_hello(rank, channel)
                return  # what follows is not for this handler
        except (EOFError, OSError):
            self.selector.unregister(channel)
            channel.close()
