"""This machine's addresses, as other machines see them."""

import fcntl
import os
import socket
import struct
from collections.abc import Sequence

from horovod_cpp import _native

_SIOCGIFFLAGS, _SIOCGIFADDR = 0x8913, 0x8915
_UP = 1
_CHOSEN = "HOROVOD_GLOO_IFACE"


def _request(name: str, number: int) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        return fcntl.ioctl(asking, number, struct.pack("256s", name.encode()[:15]))


def is_up(interface: str) -> bool:
    try:
        return bool(struct.unpack_from("H", _request(interface, _SIOCGIFFLAGS), 16)[0] & _UP)
    except OSError:
        return False


def ipv4_address(interface: str) -> str | None:
    try:
        return socket.inet_ntoa(_request(interface, _SIOCGIFADDR)[20:24])
    except OSError:  # it has none
        return None


def own_addresses(interfaces: Sequence[str] = ()) -> list[str]:
    """IPv4 addresses of these interfaces; none given: of those in HOROVOD_GLOO_IFACE, or of all
    but the loopback. Raises UnsupportedError if there are none."""
    where = f" on {', '.join(interfaces)}"
    if not interfaces:
        interfaces = [name for name in os.environ.get(_CHOSEN, "").split(",") if name]
        where = f" on {', '.join(interfaces)} ({_CHOSEN})" if interfaces else ""
    found = [ipv4_address(name) for _, name in socket.if_nameindex()
             if name != "lo" and (not interfaces or name in interfaces)]
    addresses = [address for address in found if address is not None]
    if not addresses:
        raise _native.UnsupportedError(
            f"this machine has no network address that others could reach{where}")
    return addresses
