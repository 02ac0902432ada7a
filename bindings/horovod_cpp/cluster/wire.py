"""Messages between a caller and its ranks: eight bytes of length, then a pickle.

Nothing is unpickled before both ends have shown that they know the job's key, by HMAC-SHA256 over
random bytes of the other end. Over a network, where others can write into a connection, every
message has a tag of its own besides.
"""

import contextlib
import hashlib
import hmac
import os
import pickle
import secrets
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

_Bytes: TypeAlias = bytes | bytearray | memoryview

_LENGTH = struct.Struct("<Q")
_NONCE = 32  # bytes
_TAG = hashlib.sha256().digest_size
_CHUNK = 1 << 20
_READS = 1000  # of receive_ready(): an end, however fast the other end writes
_CONNECT_TIMEOUT = 10.0  # seconds a worker tries one address, and waits for the caller's answer


def _tag(key: bytes, *parts: _Bytes) -> bytes:
    return hmac.digest(key, b"".join(parts), hashlib.sha256)


class Refused(Exception):
    """The other end does not know the key, or is gone."""


class BrokenMessage(ConnectionError):
    """What came is none of our messages: something else writes into the connection."""


class Channel:
    """A connection whose other end has shown the key. For one thread at a time."""

    def __init__(self, connection: socket.socket, key: bytes = b"", nonces: bytes = b"",
                 accepted: bool = False) -> None:
        self._socket = connection
        # For messages of ours and of the other end; None: not tagged.
        self._keys: list[bytes] | None = None
        if connection.family != socket.AF_UNIX:
            ours, theirs = (b"caller", b"worker") if accepted else (b"worker", b"caller")
            self._keys = [_tag(key, ours, nonces), _tag(key, theirs, nonces)]
        self._counts = [0, 0]
        self._unsent: list[memoryview] = []
        self._buffer = bytearray()  # of the part that is being read
        self._filled = 0
        self._reads_length = True
        self._expect(_LENGTH.size)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, value: object) -> None:
        """Raises OSError when the other end is gone."""
        self.queue(value)
        while self._unsent:
            self.flush()

    def queue(self, value: object) -> None:
        """Keeps it for flush()."""
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        tag = self._next_tag(self._keys, 0, data) if self._keys else b""
        self._unsent += [memoryview(_LENGTH.pack(len(data) + len(tag)) + tag), memoryview(data)]

    def flush(self) -> bool:
        """Sends what a socket that does not block takes. Returns whether something is left."""
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                sent = self._socket.send(self._unsent[0][:_CHUNK])
                self._unsent[0] = self._unsent[0][sent:]
                if not self._unsent[0]:
                    del self._unsent[0]
        return bool(self._unsent)

    def receive(self) -> Any:
        """Waits for one message. Raises EOFError or OSError when the other end is gone."""
        while True:
            whole, value = self._read()
            if whole:
                return value

    def receive_ready(self) -> Iterator[Any]:
        """Yields messages that a socket that does not block has. Errors as receive()."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_READS):
                whole, value = self._read()
                if whole:
                    yield value

    def _expect(self, count: int) -> None:
        self._buffer = bytearray(count)
        self._filled = 0

    def _read(self) -> tuple[bool, Any]:
        """Takes what is there; whether a message is complete, and the message."""
        view = memoryview(self._buffer)[self._filled:]
        count = self._socket.recv_into(view[:_CHUNK])
        if count == 0:
            raise EOFError("the other end closed the connection")
        self._filled += count
        if self._filled < len(self._buffer):
            return False, None
        data = self._buffer
        try:
            if self._reads_length:
                self._reads_length = False
                self._expect(_LENGTH.unpack(data)[0])
                return False, None
            self._reads_length = True
            self._expect(_LENGTH.size)
            return True, pickle.loads(self._checked(data))
        except (EOFError, OSError):
            raise
        except Exception as error:
            raise BrokenMessage(
                f"sent what is no message ({type(error).__name__}: {error})") from None

    def _next_tag(self, keys: Sequence[bytes], direction: int, data: _Bytes) -> bytes:
        count = _LENGTH.pack(self._counts[direction])
        self._counts[direction] += 1
        return _tag(keys[direction], count, data)

    def _checked(self, data: bytearray) -> _Bytes:
        if self._keys is None:
            return data
        view = memoryview(data)
        if not hmac.compare_digest(view[:_TAG], self._next_tag(self._keys, 1, view[_TAG:])):
            raise EOFError("a message was changed on its way")
        return view[_TAG:]


class Listener:
    """Where the ranks of one job connect.

    For ranks of this machine a Unix socket with a name that no file has, so that nothing is left
    when this process is killed; other users' processes are refused. For other machines a TCP port.
    """

    def __init__(self, key: bytes, addresses: Sequence[str] = ()) -> None:
        """``addresses``: of this machine, as other machines see it; none: this machine only."""
        self._key = key
        # Our nonce and the bytes so far, by connection.
        self._strangers: dict[socket.socket, tuple[bytes, bytes]] = {}
        if addresses:
            self._socket = socket.create_server(("", 0), backlog=1024)
            port = self._socket.getsockname()[1]
            self.address = "tcp:" + ",".join(f"{host}:{port}" for host in addresses)
        else:
            name = f"hvd-{os.getpid()}-{secrets.token_hex(16)}"
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind("\0" + name)
            self._socket.listen(1024)
            self.address = "unix:" + name
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        for connection in (*self._strangers, self._socket):
            connection.close()
        self._strangers.clear()

    def accept(self) -> socket.socket | None:
        """The next connection, which has to be given to admit(); None if it was refused."""
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return None
        if connection.family == socket.AF_UNIX and not _is_this_user(connection):
            connection.close()
            return None
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        nonce = secrets.token_bytes(_NONCE)
        try:
            connection.send(nonce)
        except OSError:  # gone already
            connection.close()
            return None
        self._strangers[connection] = (nonce, b"")
        return connection

    def admit(self, connection: socket.socket) -> Channel | None:
        """Reads what a connection says: its Channel once it showed the key, None before that.

        Raises Refused, and closes it, when it cannot be one of ours.
        """
        nonce, said = self._strangers[connection]
        try:
            part = connection.recv(_NONCE + _TAG - len(said))
        except BlockingIOError:
            return None
        except OSError:
            part = b""
        said += part
        if part and len(said) < _NONCE + _TAG:
            self._strangers[connection] = (nonce, said)
            return None
        del self._strangers[connection]
        theirs, tag = said[:_NONCE], said[_NONCE:]
        if not hmac.compare_digest(tag, _tag(self._key, b"worker", nonce, theirs)):
            connection.close()
            raise Refused
        try:
            connection.send(_tag(self._key, b"caller", theirs, nonce))
        except OSError:
            connection.close()
            raise Refused from None
        return Channel(connection, self._key, nonce + theirs, accepted=True)


def connect(address: str, key: bytes) -> Channel:
    """A worker's Channel to its caller. Raises OSError when nobody with the key is there."""
    connection = _connect(address)
    connection.settimeout(_CONNECT_TIMEOUT)
    theirs = _read_exactly(connection, _NONCE)
    nonce = secrets.token_bytes(_NONCE)
    connection.sendall(nonce + _tag(key, b"worker", theirs, nonce))
    answer = _read_exactly(connection, _TAG)
    if not hmac.compare_digest(answer, _tag(key, b"caller", nonce, theirs)):
        raise ConnectionError(f"what listens at {address} does not know this job's key")
    connection.settimeout(None)
    return Channel(connection, key, theirs + nonce)


def _connect(address: str) -> socket.socket:
    kind, _, where = address.partition(":")
    if kind == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.connect("\0" + where)
        return connection
    failures = []
    for place in where.split(","):
        host, _, port = place.rpartition(":")
        try:
            connection = socket.create_connection((host, int(port)), _CONNECT_TIMEOUT)
        except OSError as error:
            failures.append(f"{place}: {error}")
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    raise ConnectionError(
        f"{socket.gethostname()} cannot reach the caller of hvd.run: " + "; ".join(failures))


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("the caller refused this rank")
        data += part
    return data


def _is_this_user(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    _, user, _ = struct.unpack("iII", credentials)
    return bool(user == os.geteuid())
