"""The event loop of a process with connections to ranks: nothing in it polls."""

import contextlib
import selectors
import time
from collections.abc import Callable, Sequence
from typing import Any

from horovod_cpp.cluster.listener import Listener
from horovod_cpp.cluster.wire import Channel, raised_here

_LONGEST_WAIT = 3600.0  # seconds; the system takes no more than some weeks

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class EventLoop:
    """Ranks that connect, and their messages. It runs in the thread that calls handle()."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self._listener: Listener | None = None
        self._begun: set[Channel] = set()  # which have a part of a message

    def close_loop(self) -> None:
        self.close_listener()
        self.selector.close()

    # -- events

    def handle(self, timeout: float | None) -> bool:
        """Handles what happens within this many seconds (None: any), once. Whether anything did."""
        due = self._due()
        if due is not None:
            left = max(0.0, due - time.monotonic())
            timeout = left if timeout is None else min(timeout, left)
        events = self.selector.select(None if timeout is None else min(timeout, _LONGEST_WAIT))
        # The end of a rank, which hvdrun says, first: what the others say is a consequence.
        for key, mask in sorted(events, key=lambda event: isinstance(event[0].fileobj, Channel)):
            self._dispatch(key, mask)
        if due is not None and time.monotonic() >= due:
            self._look_at_what_is_due()
        return bool(events)

    def _dispatch(self, key: selectors.SelectorKey, mask: int) -> None:
        current = self.selector.get_map().get(key.fd)
        if current is None or current.fileobj is not key.fileobj:
            return  # an earlier event ended it
        if mask & WRITE:
            assert isinstance(key.fileobj, Channel)  # nothing else waits for that
            self._flush(key.fileobj)
        if mask & READ:
            key.data(key.fileobj)
            if isinstance(key.fileobj, Channel):
                (self._begun.discard if key.fileobj.due() is None else self._begun.add)(key.fileobj)

    def _due(self) -> float | None:
        times = [self._listener.due() if self._listener is not None else None,
                 *(channel.due() for channel in self._begun)]
        return min((at for at in times if at is not None), default=None)

    def _look_at_what_is_due(self) -> None:
        if self._listener is not None:
            self._on_connection(self._listener)
        for channel in list(self._begun):
            due = channel.due()
            if channel.fileno() < 0 or due is None:
                self._begun.discard(channel)
            elif time.monotonic() >= due:
                self._dispatch(self.selector.get_key(channel), READ)

    def send(self, channel: Channel, message: Any) -> None:
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
                if not raised_here(error):
                    raise
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

    # -- ranks that connect

    def listen(self, key: bytes, addresses: Sequence[str] = (), ranks: int = 0) -> str:
        """Where ranks may connect from now on: the text that they need. See Listener."""
        if self._listener is None:
            self._listener = Listener(key, addresses, ranks)
            self.selector.register(self._listener, READ, self._on_connection)
        return self._listener.address

    def on_channel(self, channel: Channel) -> None:
        """A rank has connected. The subclass registers the channel."""
        raise NotImplementedError

    def close_listener(self) -> None:
        if self._listener is not None:
            self.selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _on_connection(self, listener: Listener) -> None:
        for channel in listener.admit():
            self.on_channel(channel)
