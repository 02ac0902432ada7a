"""A peer on a host of its own that comes to every port at which the host of a process listens: with what a recorder has
heard there, with other protocols, with silence, and with so many connections that none is kept for long.

    record              prints the ports and the bytes of what comes in, until it is killed
    come PID HOST FILE  says what was recorded into FILE, with a line for each that was not sent away; then prints
                        "flooding after N", of what was recorded, and comes until the process ends
"""

import collections
import os
import pathlib
import resource
import socket
import sys

HELD = 1000  # connections
SENT_AWAY_S = 20


def record():
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.bind(("eth0", 0))
    print("ready", flush=True)
    while True:
        packet, place = tap.recvfrom(1 << 16)
        packet = packet[14:]
        start, protocol = (40, packet[6]) if packet[0] >> 4 == 6 else (4 * (packet[0] & 15), packet[9])
        if protocol == 6 and place[2] != 4:  # TCP that is not this host's own
            segment = packet[start:]
            data = segment[4 * (segment[12] >> 4):]
            if data:
                print(*(int.from_bytes(segment[i:i + 2], "big") for i in (0, 2)), data[:1024].hex(), flush=True)


def listening(pid):
    lines = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/{pid}/net/{name}")]
    return sorted({int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A"})


def is_sent_away(host, port, parts):
    try:
        with socket.create_connection((host, port), SENT_AWAY_S) as peer:
            for part in parts:
                peer.sendall(part)
            while peer.recv(4096):
                pass
    except TimeoutError:
        return False
    except OSError:  # also where it listens at loopback alone
        pass
    return True


def come(pid, host, recorded):
    said = collections.defaultdict(list)
    for line in pathlib.Path(recorded).read_text().splitlines()[1:]:
        origin, port, data = line.split()
        said[origin, int(port)].append(bytes.fromhex(data))
    heard = [(port, parts[:3]) for (_, port), parts in said.items() if port in listening(pid)]
    for port, parts in heard + [(port, [words]) for port in listening(pid)
                                for words in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(1 << 16))]:
        if not is_sent_away(host, port, parts):
            print("kept:", port, parts, flush=True)
    print("flooding after", len(heard), flush=True)
    held = collections.deque(maxlen=HELD)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * HELD, 2 * HELD))
    hello = heard[0][1][0] if heard else b""
    while pathlib.Path(f"/proc/{pid}").exists():
        for port in listening(pid):
            for words in (b"", hello):
                try:
                    held.append(socket.create_connection((host, port), 1))
                    held[-1].sendall(words)
                except OSError:  # no room for it
                    pass


if __name__ == "__main__":
    {"record": record, "come": come}[sys.argv[1]](*sys.argv[2:])
