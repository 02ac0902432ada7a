"""Where ranks connect: a peer that shows the job's key gets a Channel, any other gets nothing."""

import collections
import contextlib
import dataclasses
import errno
import hmac
import os
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Sequence

from horovod_cpp import _native
from horovod_cpp.cluster import wire

_AUTHENTICATION_LIMIT = 10.0  # seconds that a connection has to show the key
_MOST_UNAUTHENTICATED = 64  # and two for each rank: connections that have not shown it
_CHOSEN = "HOROVOD_GLOO_IFACE"
_BREATHER = 0.5  # seconds without accept() where the system has no descriptor left


@dataclasses.dataclass
class _UnauthenticatedPeer:
    """A connection that has not shown the key."""

    connection: socket.socket
    source: object  # the address it came from
    since: float = dataclasses.field(default_factory=time.monotonic)
    nonce: bytes = b""  # ours, once it said hello
    said: bytes = b""


class Listener:
    """Where the ranks of one job connect.

    For ranks of this machine a Unix socket with a name that no file has, so that nothing is left
    when this process is killed; other users' processes are refused. For other machines a TCP port
    on each of the addresses that they are told, and on no other.

    Whoever does not show the key is held in bounded memory, descriptors and time, and cannot take
    the place of connections from other addresses. One thread.
    """

    def __init__(self, key: bytes, addresses: Sequence[str] = (), ranks: int = 0) -> None:
        """``addresses``: of this machine, as other machines see it; none: this machine only.
        ``ranks``: how many may connect at once."""
        self._key = key
        self._room = _MOST_UNAUTHENTICATED + 2 * ranks
        self._unauthenticated: dict[int, _UnauthenticatedPeer] = {}  # by descriptor, oldest first
        self._selector = selectors.EpollSelector()
        self._resumes: float | None = None  # when accept() is tried again
        self._sockets = [socket.create_server((host, 0), backlog=1024) for host in addresses]
        places = ("{}:{}".format(*listening.getsockname()) for listening in self._sockets)
        self.address = "tcp:" + ",".join(places)
        if not addresses:
            name = f"hvd-{os.getpid()}-{secrets.token_hex(16)}"
            self._sockets = [
                socket.create_server("\0" + name, family=socket.AF_UNIX, backlog=1024)]
            self.address = "unix:" + name
        for listening in self._sockets:
            listening.setblocking(False)
        self._listen()

    def fileno(self) -> int:
        """Readable when admit() has something to do."""
        return self._selector.fileno()

    def due(self) -> float | None:
        """When admit() has to be called even if it has not, by time.monotonic()."""
        times = [peer.since + _AUTHENTICATION_LIMIT for peer in self._unauthenticated.values()][:1]
        return min([*times, *([self._resumes] if self._resumes is not None else [])], default=None)

    def close(self) -> None:
        for number in list(self._unauthenticated):
            self._drop(number)
        self._selector.close()
        for listening in self._sockets:
            listening.close()

    def admit(self) -> list[wire.Channel]:
        """Hears peers that connect. Returns the Channels of those that have shown the key."""
        admitted = []
        for key, _ in self._selector.select(0):
            if key.data is not None:
                self._accept(key.data)
            elif key.fd in self._unauthenticated:  # else it had to go just now
                channel = self._hear(self._unauthenticated[key.fd])
                admitted += [channel] if channel is not None else []
        now = time.monotonic()
        while self._unauthenticated:
            number, oldest = next(iter(self._unauthenticated.items()))
            if now < oldest.since + _AUTHENTICATION_LIMIT:
                break
            self._drop(number)
        if self._resumes is not None and now >= self._resumes:
            self._listen()
        return admitted

    def _listen(self) -> None:
        self._resumes = None
        for listening in self._sockets:
            self._selector.register(listening, selectors.EVENT_READ, listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, source = listening.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._make_room_for_descriptors()
            return
        if connection.family == socket.AF_UNIX and not _is_this_user(connection):
            connection.close()
            return
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            wire.set_options(connection)
        if len(self._unauthenticated) >= self._room:
            self._drop_one()
        self._unauthenticated[connection.fileno()] = _UnauthenticatedPeer(connection, source[:1])
        self._selector.register(connection, selectors.EVENT_READ)

    def _make_room_for_descriptors(self) -> None:
        """Else the listening socket stays readable, and the loop of our user never sleeps."""
        if self._unauthenticated:
            self._drop_one()
        elif self._resumes is None:
            self._resumes = time.monotonic() + _BREATHER
            for listening in self._sockets:
                self._selector.unregister(listening)

    def _drop_one(self) -> None:
        """The oldest of where most came from: a crowd takes no other peer's place."""
        crowds = collections.Counter(peer.source for peer in self._unauthenticated.values())
        source, _ = crowds.most_common(1)[0]
        self._drop(next(number for number, peer in self._unauthenticated.items()
                        if peer.source == source))

    def _drop(self, number: int) -> None:
        peer = self._unauthenticated.pop(number)
        self._selector.unregister(peer.connection)
        peer.connection.close()

    def _hear(self, peer: _UnauthenticatedPeer) -> wire.Channel | None:
        """Reads what a connection says: its Channel once it showed the key; closes it when it
        cannot be one of ours."""
        connection = peer.connection
        number = connection.fileno()
        hello = len(wire.MARK) + wire.NONCE
        needed = hello + (wire.TAG if peer.nonce else 0)
        try:
            part = connection.recv(needed - len(peer.said))
        except BlockingIOError:
            return None
        except OSError:
            part = b""
        peer.said += part
        if not part or not wire.MARK.startswith(peer.said[:len(wire.MARK)]):
            self._drop(number)
        elif len(peer.said) == needed and not peer.nonce:
            peer.nonce = secrets.token_bytes(wire.NONCE)
            answer = wire.derive(self._key, wire.CALLER_KNOWS, peer.said + peer.nonce)
            if not _says(connection, peer.nonce + answer):
                self._drop(number)
        elif len(peer.said) == needed:
            transcript = peer.said[:hello] + peer.nonce
            expected = wire.derive(self._key, wire.WORKER_KNOWS, transcript)
            if not hmac.compare_digest(peer.said[hello:], expected):
                self._drop(number)
                return None
            del self._unauthenticated[number]
            self._selector.unregister(connection)
            channel = wire.make_channel(connection, self._key, transcript, accepted=True)
            channel.queue(wire.ADMITTED)
            with contextlib.suppress(OSError):  # gone already: its reader will see it
                channel.flush()
            return channel
        return None


def _says(connection: socket.socket, data: bytes) -> bool:
    """Whether all of it was sent; the first bytes of a connection always have room."""
    try:
        return connection.send(data) == len(data)
    except OSError:
        return False


def _is_this_user(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    _, user, _ = struct.unpack("iII", credentials)
    return bool(user == os.geteuid())


def own_addresses(interfaces: Sequence[str] = ()) -> list[str]:
    """The first IPv4 address of each of these interfaces; none given: of those in
    HOROVOD_GLOO_IFACE, or of all except the loopback. Raises UnsupportedError if there are none."""
    where = f" on {', '.join(interfaces)}"
    if not interfaces:
        interfaces = [name for name in os.environ.get(_CHOSEN, "").split(",") if name]
        where = f" on {', '.join(interfaces)} ({_CHOSEN})" if interfaces else ""
    addresses: dict[str, str] = {}
    for label, address in _native._local_addresses():
        name = label.partition(":")[0]  # "eth0:1" is another address of eth0
        if name != "lo" and ":" not in address and (not interfaces or name in interfaces):
            addresses.setdefault(name, address)
    if not addresses:
        raise _native.UnsupportedError(
            f"this machine has no network address that others could reach{where}")
    return list(addresses.values())
