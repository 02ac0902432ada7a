"""The event loop of a program that calls ranks: nothing in it polls."""

import contextlib
import secrets
import selectors
import signal
import socket
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from horovod_cpp.cluster.output import Printer
from horovod_cpp.cluster.wire import Channel, Listener, Refused

_LONGEST_WAIT = 3600.0  # seconds; the system takes no more than some weeks

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class CallerLoop:
    """Connections of ranks, what they print, and Ctrl-C. It runs in the thread that calls.

    Attributes:
        printer: shows what ranks print.
        interrupted: Ctrl-C came while catch_interrupts() was in force.
    """

    def __init__(self, printer: Printer) -> None:
        self.printer = printer
        self.interrupted = False
        self.key = secrets.token_bytes(32)
        self.selector = selectors.DefaultSelector()
        self._listener: Listener | None = None
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self.selector.register(self._wake, READ, self._on_wake)

    def close_loop(self) -> None:
        self.close_listener()
        self.selector.close()
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
        """What happens within so many seconds (None: any), once. Returns whether something did."""
        events = self.selector.select(None if timeout is None else min(timeout, _LONGEST_WAIT))
        # The end of a process (a number) first: what the others say is a consequence.
        for key, mask in sorted(events, key=lambda event: not isinstance(event[0].fileobj, int)):
            current = self.selector.get_map().get(key.fd)
            if current is None or current.fileobj is not key.fileobj:
                continue  # an earlier event ended it
            if mask & WRITE:
                assert isinstance(key.fileobj, Channel)  # nothing else waits for that
                self._flush(key.fileobj)
            if mask & READ:
                key.data(key.fileobj)
        self.printer.flush_due()
        return bool(events)

    def send(self, channel: Channel, message: tuple[Any, ...]) -> None:
        channel.queue(message)
        self._flush(channel)

    @staticmethod
    def receive(channel: Channel, take: Callable[[str, list[Any]], None],
                lost: Callable[[Exception], None]) -> None:
        """Calls take(kind, content) for each message that is there, as long as the channel is open,
        and lost(error) when its other end is gone. What take() raises is the caller's."""
        messages = channel.receive_ready()
        while channel.fileno() >= 0:
            try:
                message = next(messages, None)
            except (EOFError, OSError) as error:
                return lost(error)
            if message is None:
                return
            take(message[0], list(message[1:]))

    def _flush(self, channel: Channel) -> None:
        left = False
        with contextlib.suppress(OSError):  # its other end's end will be noticed
            left = channel.flush()
        data = self.selector.get_key(channel).data
        self.selector.modify(channel, READ | WRITE if left else READ, data)

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

    def listen(self, addresses: Sequence[str] = ()) -> str:
        """Where ranks may connect from now on: the text that they need."""
        if self._listener is None:
            self._listener = Listener(self.key, addresses)
            self.selector.register(self._listener, READ, self._on_connection)
        return self._listener.address

    def on_hello(self, rank: int, channel: Channel) -> None:
        """A rank has connected. The subclass reads the channel from now on."""
        raise NotImplementedError

    def close_listener(self) -> None:
        if self._listener is None:
            return
        for key in list(self.selector.get_map().values()):
            if key.data in (self._on_connection, self._on_stranger):
                self.selector.unregister(key.fileobj)
        self._listener.close()
        self._listener = None

    def _on_connection(self, listener: Listener) -> None:
        connection = listener.accept()
        if connection is not None:
            self.selector.register(connection, READ, self._on_stranger)

    def _on_stranger(self, connection: socket.socket) -> None:
        assert self._listener is not None  # it took the connection
        try:
            channel = self._listener.admit(connection)
        except Refused:
            self.selector.unregister(connection)
            connection.close()
            return
        if channel is not None:
            self.selector.unregister(connection)
            self.selector.register(channel, READ, self._on_first_message)

    def _on_first_message(self, channel: Channel) -> None:
        try:
            for _, rank in channel.receive_ready():
                self.on_hello(rank, channel)
                return  # what follows is not for this handler
        except (EOFError, OSError):
            self.selector.unregister(channel)
            channel.close()
