"""Messages between a caller and its ranks: a header with the length, then a pickle.

Nothing is unpickled before both ends have shown that they know the job's key, by HMAC-SHA256 over
random bytes of both. The two tags of that handshake and the keys of the messages in either
direction are derived from the job's key under labels of their own, so that none of them reveals
anything about another. Over a network, where others can write into a connection, the length and the
content of each message have tags as well.

The handshake, of the worker that connects (version 2)::

    worker -> caller   hello: the version's mark, 32 random bytes
    caller -> worker   32 random bytes, tag "the caller knows the key"
    worker -> caller   tag "the worker knows the key"
    caller -> worker   the first message: it was admitted
"""

import contextlib
import hashlib
import hmac
import pickle
import secrets
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

_Bytes: TypeAlias = bytes | bytearray | memoryview

MARK = b"HVDWIRE2"  # what every hello begins with; another version, another mark
NONCE = 32  # bytes
TAG = hashlib.sha256().digest_size
_HEADER = struct.Struct("<4sQ")  # mark and length of each message
_MESSAGE = b"HVD2"
_CHUNK = 1 << 18
_READS = 1000  # of receive_ready(): an end, however fast the other end writes
_MESSAGE_LIMIT = 60.0  # seconds without a byte in the middle of a message
_CONNECT_TIMEOUT = 10.0  # seconds a worker tries one address, and waits there to be admitted
_RETRY = 0.1  # seconds until it tries once more, where it was turned away unheard
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}  # a host that lost power

CALLER_KNOWS = b"horovod_cpp wire 2, tag: the caller knows the key"
WORKER_KNOWS = b"horovod_cpp wire 2, tag: the worker knows the key"
_CALLER_SAYS = b"horovod_cpp wire 2, key: messages of the caller"
_WORKER_SAYS = b"horovod_cpp wire 2, key: messages of the worker"

ADMITTED = "admitted"


def derive(key: bytes, label: bytes, transcript: bytes) -> bytes:
    """A tag to be sent, or a key never to be sent, as the label says."""
    return hmac.digest(key, label + b"\0" + transcript, "sha256")


class BrokenMessage(ConnectionError):
    """What arrived is not one of our messages: something else writes into the connection."""


def raised_here(error: Exception) -> bool:
    """Whether it is not a signal handler's, which may come between any two steps."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename == __file__


class Keys(NamedTuple):
    """Of the messages in the two directions."""

    ours: bytes
    theirs: bytes


class Channel:
    """A connection whose other end has shown the key. For one thread at a time in each direction.

    Args:
        keys: with which messages are tagged; None: they are not.
    """

    def __init__(self, connection: socket.socket, keys: Keys | None = None) -> None:
        self._socket = connection
        self._keys = keys
        self._sent = self._received = 0  # messages
        self._unsent: list[memoryview] = []
        self._part = bytearray()  # what has come of the header, or of the content
        self._length: int | None = None  # of the content; None: the header comes
        self._progress = 0.0  # time of the last byte

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    # -- sending

    def send(self, value: object) -> None:
        """On a socket that blocks. Raises OSError when the other end is gone."""
        self.queue(value)
        while self._unsent:
            self.flush()

    def queue(self, value: object) -> None:
        """Keeps it for flush()."""
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        header = _HEADER.pack(_MESSAGE, len(data))
        parts = [header, data]
        if self._keys is not None:
            tags = (_tag(self._keys.ours, self._sent, kind, part)
                    for kind, part in ((b"header", header), (b"content", data)))
            parts = [header + next(tags), data, next(tags)]
        self._sent += 1
        self._unsent += map(memoryview, parts)

    def flush(self) -> bool:
        """Sends what a socket that does not block takes. Returns whether something is left."""
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                sent = self._socket.send(self._unsent[0][:_CHUNK])
                self._unsent[0] = self._unsent[0][sent:]
                if not self._unsent[0]:
                    del self._unsent[0]
        return bool(self._unsent)

    # -- receiving

    def receive(self) -> Any:
        """Waits for one message. Raises EOFError or OSError when the other end is gone."""
        while True:
            whole, value = self._read()
            if whole:
                return value

    def receive_ready(self) -> Iterator[Any]:
        """Yields messages that a socket that does not block has. Errors as receive(), and
        BrokenMessage when the rest of a message does not come; see due()."""
        try:
            for _ in range(_READS):
                whole, value = self._read()
                if whole:
                    yield value
        except BlockingIOError:
            due = self.due()
            if due is not None and time.monotonic() >= due:
                raise BrokenMessage("sent a malformed message (it ends in the middle, and nothing "
                                    f"came for {_MESSAGE_LIMIT:g} s)") from None

    def due(self) -> float | None:
        """When receive_ready() has to be called even if nothing comes, by time.monotonic(); None:
        no message has begun."""
        begun = bool(self._part) or self._length is not None
        return self._progress + _MESSAGE_LIMIT if begun else None

    def _read(self) -> tuple[bool, Any]:
        """Takes what is there; whether a message is complete, and the message."""
        is_header = self._length is None
        needed = (_HEADER.size if self._length is None else self._length) + (
            TAG if self._keys is not None else 0)
        # Memory grows with what arrives, whatever length the header gives.
        data = self._socket.recv(min(needed - len(self._part), _CHUNK))
        if not data:
            raise EOFError("the other end closed the connection")
        self._part += data
        self._progress = time.monotonic()
        if is_header and not _MESSAGE.startswith(self._part[:len(_MESSAGE)]):
            raise BrokenMessage("sent a malformed message (it does not begin as one)")
        if len(self._part) < needed:
            return False, None
        part, self._part = self._part, bytearray()
        if is_header:
            _, self._length = _HEADER.unpack(self._checked(b"header", part))
            return False, None
        content, self._length = self._checked(b"content", part), None
        self._received += 1
        try:
            return True, pickle.loads(content)
        except Exception as error:
            if not raised_here(error):
                raise
            raise BrokenMessage(
                f"sent a malformed message ({type(error).__name__}: {error})") from None

    def _checked(self, kind: bytes, part: bytearray) -> _Bytes:
        """Without its tag."""
        if self._keys is None:
            return part
        view = memoryview(part)
        tag = _tag(self._keys.theirs, self._received, kind, view[:-TAG])
        if not hmac.compare_digest(view[-TAG:], tag):
            raise BrokenMessage("sent a malformed message (it was changed on its way)")
        return view[:-TAG]


def _tag(key: bytes, number: int, kind: bytes, data: _Bytes) -> bytes:
    """Of the message of that number, counted in its direction."""
    code = hmac.new(key, kind + struct.pack("<Q", number), "sha256")
    code.update(data)
    return code.digest()


def make_channel(connection: socket.socket, key: bytes, transcript: bytes,
                  accepted: bool) -> Channel:
    if connection.family == socket.AF_UNIX:  # no other process can write into it
        return Channel(connection)
    labels = (_CALLER_SAYS, _WORKER_SAYS) if accepted else (_WORKER_SAYS, _CALLER_SAYS)
    return Channel(connection, Keys(*(derive(key, label, transcript) for label in labels)))


def connect(address: str, key: bytes) -> Channel:
    """A worker's Channel to its caller. Raises OSError when no peer with the key is there."""
    kind, _, where = address.partition(":")
    failures = []
    for place in where.split(",") if kind == "tcp" else [where]:
        try:
            return _join(kind, place, key)
        except OSError as error:
            failures.append(f"{place}: {error}")
    raise ConnectionError(
        f"{socket.gethostname()} cannot reach the caller of this job's ranks: "
        + "; ".join(failures))


class _SentAway(ConnectionError):
    """The caller closed the connection before it said anything."""


def _join(kind: str, place: str, key: bytes) -> Channel:
    """Where too many others connect for there to be room, it tries again."""
    deadline = time.monotonic() + _CONNECT_TIMEOUT
    while True:
        connection = _open(kind, place)
        try:
            return _introduce(connection, kind, place, key)
        except OSError as error:
            connection.close()
            sent_away = isinstance(
                error, (_SentAway, ConnectionResetError, BrokenPipeError, BlockingIOError))
            if not sent_away or time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY)


def _open(kind: str, place: str) -> socket.socket:
    if kind == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_CONNECT_TIMEOUT)
        return connection
    host, _, port = place.rpartition(":")
    connection = socket.create_connection((host, int(port)), _CONNECT_TIMEOUT)
    set_options(connection)
    return connection


def _introduce(connection: socket.socket, kind: str, place: str, key: bytes) -> Channel:
    if kind == "unix":
        connection.connect("\0" + place)  # BlockingIOError: many others connect
    hello = MARK + secrets.token_bytes(NONCE)
    connection.sendall(hello)
    answer = _read_exactly(connection, NONCE + TAG)
    transcript = hello + answer[:NONCE]
    if not hmac.compare_digest(answer[NONCE:], derive(key, CALLER_KNOWS, transcript)):
        raise ConnectionError("what listens there does not know this job's key")
    connection.settimeout(_CONNECT_TIMEOUT)
    connection.sendall(derive(key, WORKER_KNOWS, transcript))
    channel = make_channel(connection, key, transcript, accepted=False)
    try:
        channel.receive()  # that it was admitted
    except EOFError:
        raise _SentAway("the caller refused this rank") from None
    connection.settimeout(None)
    return channel


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    """Raises TimeoutError after _CONNECT_TIMEOUT, however often a byte comes."""
    deadline = time.monotonic() + _CONNECT_TIMEOUT
    data = b""
    while len(data) < count:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connection.recv(count - len(data))
        if not part:
            raise _SentAway("the caller refused this rank")
        data += part
    return data


def set_options(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
