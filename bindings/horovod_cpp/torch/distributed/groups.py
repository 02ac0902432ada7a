"""Process groups of some of the ranks, as the engine's process sets.

PyTorch tells only the members of a new group about it, but the engine makes a process set with all
ranks. So every rank has a thread that is told: a member of the group asks rank 0, which tells all,
in one order.
"""

import contextlib
import os
import secrets
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from horovod_cpp import _native, broadcast_object
from horovod_cpp._native import ProcessSet
from horovod_cpp.cluster import wire
from horovod_cpp.cluster.event_loop import READ, EventLoop
from horovod_cpp.cluster.listener import own_addresses
from horovod_cpp.engine_thread import start_engine_thread


class Group(NamedTuple):
    """One that PyTorch asked for."""

    number: int  # 0: all ranks, when they met
    ranks: list[int]  # of the job, in the group's order
    process_set: ProcessSet | Exception  # the engine's refusal, which make() raises


class _Hub(EventLoop):
    """Rank 0's: hands requests on to all ranks. A thread, until all ranks have closed."""

    def __init__(self, key: bytes, addresses: Sequence[str]) -> None:
        super().__init__()
        self._missing = self._open = _native.size()  # ranks that have not connected, not closed
        self._channels: set[wire.Channel] = set()
        self._known: set[str] = set()  # names
        self.address = self.listen(key, addresses, self._missing)
        start_engine_thread(self._run, name="hvd-groups-hub")

    def _run(self) -> None:
        while self._open:
            self.handle(None)
        self.close_loop()

    def on_channel(self, channel: wire.Channel) -> None:
        self._channels.add(channel)
        self.selector.register(channel, READ, self._on_messages)
        self._missing -= 1
        if not self._missing:
            self.close_listener()

    def _on_messages(self, channel: wire.Channel) -> None:
        def take(name: str | None, content: list[Any]) -> None:
            if name is None:  # goodbye
                self._forget(channel)
            elif name not in self._known:
                self._known.add(name)
                for each in self._channels:  # one that has ended will be noticed
                    self.send(each, (len(self._known), name, *content))

        self.receive(channel, take, lambda _: self._forget(channel))

    def _forget(self, channel: wire.Channel) -> None:
        self.selector.unregister(channel)
        self._channels.remove(channel)
        channel.close()
        self._open -= 1


class Groups:
    """One rank's side. Made by all ranks of the job together."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}  # by name
        self._sets: dict[tuple[int, ...], ProcessSet] = {}  # by ascending ranks
        self._news = threading.Condition()
        self._channel: wire.Channel | None = None
        self._process = os.getpid()
        if _native.size() > 1:
            self._connect()

    def _connect(self) -> None:
        place: Any = None
        if _native.rank() == 0:
            key = secrets.token_bytes(32)
            is_one_host = _native.local_size() == _native.size()
            hub = _Hub(key, () if is_one_host else own_addresses())
            place = (hub.address, key)
        self._channel = wire.connect(*broadcast_object(place, name="torch.groups"))
        _native.barrier(name="torch.groups")  # from now on rank 0 tells all
        self._thread = start_engine_thread(self._listen, self._channel, name="hvd-groups")

    def make(self, name: str, ranks: list[int], timeout: float) -> Group:
        """The Group of that name; by every rank of it.

        Raises:
            InvalidArgumentError: ranks that the engine refuses; another rank named other ones.
            StalledError: not all ranks of the job learned of it within ``timeout`` seconds.
            UnsupportedError: the ranks are not in ascending order.
        """
        what = f"process group '{name}' of ranks {ranks}"
        if ranks != sorted(ranks):
            raise _native.UnsupportedError(f"{what}: the engine's sets are in ascending order; "
                                           "leave sort_ranks=True")
        if self._channel is None:
            self._add(len(self._groups) + 1, name, ranks)
        else:
            with contextlib.suppress(OSError):  # told below
                self._channel.send((name, ranks))
        with self._news:
            in_time = self._news.wait_for(lambda: name in self._groups or self._channel_ended(),
                                          timeout)
            group = self._groups.get(name)
        if group is None and in_time:
            raise _native.PeerLostError(f"{what}: rank 0 has ended")
        if group is None:
            raise _native.StalledError(f"{what}: not all ranks made it within {timeout:g} s")
        if group.ranks != ranks:
            raise _native.InvalidArgumentError(f"{what}: another rank made it of {group.ranks}")
        if isinstance(group.process_set, Exception):
            raise group.process_set
        return group

    def close(self) -> None:
        """Ends the thread."""
        if self._channel is not None and os.getpid() == self._process:  # a fork has neither
            with contextlib.suppress(OSError):  # rank 0 has ended before
                self._channel.send((None, None))

    def _channel_ended(self) -> bool:
        return self._channel is not None and not self._thread.is_alive()

    def _listen(self, channel: wire.Channel) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._add(*channel.receive())
        channel.close()
        with self._news:
            self._news.notify_all()

    def _add(self, number: int, name: str, ranks: list[int]) -> None:
        """By all ranks, in one order."""
        process_set: ProcessSet | Exception
        try:
            process_set = self._set_of(sorted(ranks))
        except _native.Error as failure:
            process_set = failure
        with self._news:
            self._groups[name] = Group(number, ranks, process_set)
            self._news.notify_all()

    def _set_of(self, ranks: list[int]) -> ProcessSet:
        if len(ranks) == _native.size():
            return _native.global_process_set
        if tuple(ranks) not in self._sets:
            # Named: the program may be adding sets of its own just now.
            name = f"torch.groups.{len(self._sets)}"
            self._sets[tuple(ranks)] = _native._add_process_set(ranks, name)
        return self._sets[tuple(ranks)]
