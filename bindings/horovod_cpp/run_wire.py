"""Messages between hvd.run() and its ranks: eight bytes of length, then a pickle."""

import pickle
import struct

_LENGTH = struct.Struct("<Q")


def send(connection, value):
    data = pickle.dumps(value)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection):
    """Waits for one message. Raises EOFError when the other side is gone."""
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
    return pickle.loads(_read(connection, length))


def _read(connection, count):
    parts = []
    while count > 0:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise EOFError("the other side closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
