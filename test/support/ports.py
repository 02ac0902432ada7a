"""Free ports for ranks that are told one."""

import contextlib
import pathlib
import random
import socket


def _ports():
    """Such as the system gives nobody who asks for any."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    yield from range(random.randrange(first // 2, first), 0, -1)


_PORTS = _ports()


def free_port():
    """Another one each time."""
    for port in _PORTS:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
