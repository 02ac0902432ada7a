"""This machine's addresses, as other machines see them."""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Sequence

from horovod_cpp import _native

_SIOCGIFADDR = 0x8915
_CHOSEN = "HOROVOD_GLOO_IFACE"


def own_addresses(interfaces: Sequence[str] = ()) -> list[str]:
    """IPv4 addresses of these interfaces; none given: of those in HOROVOD_GLOO_IFACE, or of all
    but the loopback. Raises UnsupportedError if there are none."""
    where = f" on {', '.join(interfaces)}"
    if not interfaces:
        interfaces = [name for name in os.environ.get(_CHOSEN, "").split(",") if name]
        where = f" on {', '.join(interfaces)} ({_CHOSEN})" if interfaces else ""
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            if name == "lo" or (interfaces and name not in interfaces):
                continue
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):  # it has none
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, request)
                addresses.append(socket.inet_ntoa(answer[20:24]))
    if not addresses:
        raise _native.UnsupportedError(
            f"this machine has no network address that others could reach{where}")
    return addresses
