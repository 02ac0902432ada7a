"""Connections between a caller and its ranks: who may come in, and what may come over them."""

import contextlib
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
from random import Random

import pytest

from horovod_cpp.cluster import listener as listening
from horovod_cpp.cluster import wire
from horovod_cpp.cluster.event_loop import READ, EventLoop
from horovod_cpp.cluster.listener import Listener

LIMIT = 60  # seconds, for what never ends if it is broken


class Evil:
    """Runs code where it is unpickled."""

    def __reduce__(self):
        return print, ("this code is another's",)


class Caller(EventLoop):
    """Takes messages until it is told to stop, on a thread of its own."""

    def __init__(self, addresses, key=b"k" * 32, ranks=0):
        super().__init__()
        self.taken, self.lost = [], []
        self.address = self.listen(key, addresses, ranks)
        self.over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self.over:
            self.handle(0.05)
        self.close_loop()

    def on_channel(self, channel):
        def lost(error):
            self.selector.unregister(channel)
            channel.close()
            self.lost.append(error)

        self.selector.register(channel, READ, lambda _: self.receive(
            channel, lambda kind, content: self.taken.append((kind, *content)), lost))

    def end(self):
        self.over = True
        self._thread.join()


@pytest.fixture
def caller():
    made = []

    def make(*arguments, **options):
        made.append(Caller(*arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.end()


def wait_until(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.005)


class Proxy:
    """Somebody in the path of one connection: reads all, and may write and change."""

    def __init__(self, address, change=lambda data: data):
        self.seen = {"worker": b"", "caller": b""}
        self._change = change
        self._place = tuple(address.removeprefix("tcp:").split(":"))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp:127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        self.inner, _ = self._server.accept()
        self._server.close()
        self.outer = socket.create_connection((self._place[0], int(self._place[1])))
        threading.Thread(target=self._pass_on, args=("worker", self.inner, self.outer),
                         daemon=True).start()
        self._pass_on("caller", self.outer, self.inner)

    def _pass_on(self, name, source, target):
        try:
            while data := source.recv(1 << 16):
                self.seen[name] += data
                target.sendall(self._change(data) if name == "worker" else data)
        except OSError:
            pass

    def close(self):
        self.inner.close()
        self.outer.close()


@pytest.mark.parametrize("addresses", [(), ("127.0.0.1",)])
def test_messages_travel_in_both_directions(addresses):
    listener = Listener(b"k" * 32, addresses)
    answers = []

    def work():
        channel = wire.connect(listener.address, b"k" * 32)
        channel.send({"large": bytes(3_000_000)})
        answers.extend([channel.receive(), channel.receive()])
        channel.close()

    worker = threading.Thread(target=work)
    worker.start()
    channels = []
    while not channels:
        assert select.select([listener], [], [], LIMIT)[0]
        channels = listener.admit()
    message = None
    while message is None:
        assert select.select([channels[0]], [], [], LIMIT)[0]
        message = next(channels[0].receive_ready(), None)
    assert len(message["large"]) == 3_000_000
    channels[0].queue("one")
    channels[0].queue("two")
    assert not channels[0].flush()
    worker.join(LIMIT)
    assert answers == ["one", "two"]
    channels[0].close()
    listener.close()


def forge(real, name, at):
    """What somebody can do who reads all of a worker's handshake: 32 bytes of it, of what the
    worker or the caller said, taken for the key of the worker's messages. None: no such bytes."""
    proxy = Proxy(real.address)
    worker = wire.connect(proxy.address, b"k" * 32)
    seen = proxy.seen[name]  # both have said all of it
    stolen = seen[at:at + 32]
    if len(stolen) == 32:
        with contextlib.suppress(OSError):  # which the caller has closed already
            wire.Channel(proxy.outer, wire.Keys(stolen, b"")).send(("outcome", Evil()))
        lost = at + 1 if name == "worker" else at + 42
        wait_until(lambda: len(real.lost) == lost or real.taken)
        assert real.taken == [], "the caller unpickles what somebody in the path wrote"
        assert "it was changed on its way" in str(real.lost[-1])
    worker.close()
    proxy.close()
    return len(stolen) == 32


def test_nothing_that_was_seen_on_the_wire_authenticates_a_message(caller):
    real = caller(["127.0.0.1"])
    for name, count in (("worker", 72 - 32 + 1), ("caller", 64 - 32 + 1)):
        for at in range(count):
            assert forge(real, name, at)
    assert real.taken == []


@pytest.mark.parametrize("place", [0, 5, 13, 45, -33, -1])
def test_a_message_that_was_changed_on_its_way_is_refused(caller, place):
    real = caller(["127.0.0.1"])
    introduced = []

    def change(data):
        if not introduced or not -len(data) <= place < len(data):
            return data
        changed = bytearray(data)
        changed[place] ^= 1
        return bytes(changed)

    proxy = Proxy(real.address, change)
    worker = wire.connect(proxy.address, b"k" * 32)
    introduced.append(True)
    worker.send(("outcome", "x" * 100))
    wait_until(lambda: real.lost)
    assert "sent a malformed message" in str(real.lost[0]) and real.taken == []


def test_a_message_cannot_be_sent_twice(caller):
    real = caller(["127.0.0.1"])
    proxy = Proxy(real.address)
    worker = wire.connect(proxy.address, b"k" * 32)
    before = len(proxy.seen["worker"])
    worker.send(("once", 1))
    wait_until(lambda: real.taken)
    proxy.outer.sendall(proxy.seen["worker"][before:])
    wait_until(lambda: real.lost)
    assert real.taken == [("once", 1)]


def test_nonsense_is_refused_at_its_first_bytes():
    ours, theirs = socket.socketpair()
    theirs.sendall(struct.pack("<Q", 512 << 20) + b"nonsense")
    with pytest.raises(wire.BrokenMessage, match="does not begin as one"):
        wire.Channel(ours).receive()


class Signals:
    """Raises a signal where it is unpickled."""

    def __reduce__(self):
        return signal.raise_signal, (signal.SIGUSR1,)


@pytest.mark.parametrize("error", [ValueError, TimeoutError])
def test_what_a_signal_handler_raises_is_not_taken_for_a_malformed_message_or_a_lost_rank(error):
    def raise_mine(number, frame):
        raise error("mine")

    ours, theirs = socket.socketpair()
    before = signal.signal(signal.SIGUSR1, raise_mine)
    with ours, theirs:
        wire.Channel(theirs).send(Signals())
        ours.setblocking(False)
        try:
            with pytest.raises(error, match="mine"):
                EventLoop.receive(wire.Channel(ours), None, lambda lost: pytest.fail(str(lost)))
        finally:
            signal.signal(signal.SIGUSR1, before)


def test_memory_grows_with_what_arrives_and_not_with_the_length_given():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.sendall(struct.pack("<4sQ", b"HVD2", 1 << 40) + b"x" * 1000)
    channel = wire.Channel(ours)
    tracemalloc.start()
    assert list(channel.receive_ready()) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20
    assert channel.due() is not None


def test_a_message_that_ends_in_the_middle_is_refused_after_a_while(monkeypatch, caller):
    real = caller([])
    worker = wire.connect(real.address, b"k" * 32)
    whole = struct.pack("<4sQ", b"HVD2", 1000) + b"x" * 10
    monkeypatch.setattr(wire, "_MESSAGE_LIMIT", 0.2)
    os.write(worker.fileno(), whole)
    wait_until(lambda: real.lost)
    assert "it ends in the middle" in str(real.lost[0])


def test_a_connection_has_a_limit_within_messages_only():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    channel, other = wire.Channel(ours), wire.Channel(theirs)
    assert channel.due() is None
    for number in range(2):
        other.send(("small", number))
        assert list(channel.receive_ready()) == [("small", number)]
        assert channel.due() is None
    theirs.sendall(b"H")
    assert list(channel.receive_ready()) == [] and channel.due() > time.monotonic()


def changed(data, random):
    """Cut, or with other bytes somewhere, or with some inserted."""
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice([
        b"", random.randbytes(random.randrange(1, 40)) + data[at:],
        bytes(byte ^ random.randrange(1, 256) for byte in data[at:at + 1]) + data[at + 1:]])


@pytest.mark.parametrize("seed", range(4))
def test_of_random_bytes_nothing_is_taken_for_a_message(seed):
    random = Random(seed)
    keys = wire.Keys(b"one", b"other")
    sent = [{"a": 1}, "x" * 300, ("outcome", None)]
    for _ in range(250):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            sender = wire.Channel(theirs, wire.Keys(keys.theirs, keys.ours))
            for value in sent:
                sender.queue(value)
            theirs.sendall(changed(b"".join(sender._unsent), random))
            theirs.shutdown(socket.SHUT_WR)
            received = []
            with pytest.raises((EOFError, wire.BrokenMessage)):
                for value in wire.Channel(ours, keys).receive_ready():
                    received.append(value)
            assert received == sent[:len(received)]


# -- who does not show the key


@pytest.mark.parametrize("addresses", [(), ("127.0.0.1",)])
def test_random_handshakes_admit_nobody_and_keep_nobody_out(caller, addresses):
    random = Random(1)
    real = caller(addresses)
    for _ in range(100):
        peer = wire._open(*real.address.split(":", 1))
        if not addresses:
            peer.connect("\0" + real.address.partition(":")[2])
        with peer, contextlib.suppress(OSError):  # gone before it had sent all
            peer.sendall(changed(wire.MARK + bytes(wire.NONCE + wire.TAG), random))
    worker = wire.connect(real.address, b"k" * 32)
    worker.send(("real", 1))
    wait_until(lambda: real.taken)
    assert real.taken == [("real", 1)] and real.lost == []
    worker.close()


def test_a_worker_refuses_random_answers():
    random = Random(2)
    server = socket.create_server(("127.0.0.1", 0))

    def answer():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(wire.NONCE + len(wire.MARK))
                    connection.sendall(random.randbytes(wire.NONCE + wire.TAG))

    answering = threading.Thread(target=answer)
    answering.start()
    for _ in range(20):
        with pytest.raises(ConnectionError, match="does not know this job's key"):
            wire.connect(f"tcp:127.0.0.1:{server.getsockname()[1]}", b"k" * 32)
    server.shutdown(socket.SHUT_RDWR)
    answering.join(LIMIT)
    server.close()


def open_files():
    return len(os.listdir("/proc/self/fd"))


def place_of(address):
    host, _, port = address.removeprefix("tcp:").rpartition(":")
    return host, int(port)


def test_unauthenticated_peers_hold_a_bounded_number_of_descriptors_and_keep_nobody_out(caller):
    real = caller(["127.0.0.1"], ranks=2)
    peers = []
    for number in range(300):
        peers.append(socket.create_connection(place_of(real.address)))
        if number % 3 == 1:
            peers[-1].sendall(wire.MARK)
        elif number % 3 == 2:
            peers[-1].sendall(wire.MARK + bytes(32))  # a hello, which needs no key
    worker = wire.connect(real.address, b"k" * 32)
    worker.send(("hello", 1))
    wait_until(lambda: real.taken == [("hello", 1)])
    assert len(real._listener._unauthenticated) <= listening._MOST_UNAUTHENTICATED + 2 * 2
    dropped = [peer for peer in peers if is_closed(peer)]
    assert len(dropped) >= 300 - listening._MOST_UNAUTHENTICATED - 2 * 2
    for peer in peers:
        peer.close()


def is_closed(connection):
    connection.setblocking(False)
    try:
        while data := connection.recv(100):
            assert len(data) <= 64
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def test_a_crowd_from_one_address_costs_another_no_place():
    listener = Listener(b"k" * 32, ["127.0.0.1"])
    patient = socket.create_connection(place_of(listener.address), source_address=("127.0.0.2", 0))
    while not listener._unauthenticated:
        select.select([listener], [], [], LIMIT)
        listener.admit()
    crowd = []
    for _ in range(200):
        crowd.append(socket.create_connection(place_of(listener.address),
                                              source_address=("127.0.0.3", 0)))
        select.select([listener], [], [], LIMIT)
        listener.admit()
    assert len(listener._unauthenticated) == listening._MOST_UNAUTHENTICATED
    assert not is_closed(patient) and is_closed(crowd[0])
    for connection in (patient, *crowd):
        connection.close()
    listener.close()


def test_who_says_nothing_or_too_little_has_to_go(monkeypatch, caller):
    monkeypatch.setattr(listening, "_AUTHENTICATION_LIMIT", 0.2)
    real = caller(["127.0.0.1"])
    silent, slow = (socket.create_connection(place_of(real.address)) for _ in range(2))
    slow.sendall(wire.MARK)
    wait_until(lambda: is_closed(silent) and is_closed(slow))


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n" * 10_000, b"x", b"HVDWIRE1" + bytes(64),
                                  wire.MARK + bytes(32) + bytes(32)])
def test_who_says_something_else_has_to_go_at_once(caller, said):
    real = caller(["127.0.0.1"])
    peer = socket.create_connection(place_of(real.address))
    try:
        peer.sendall(said)
    except OSError:
        pass  # gone before it had said all
    wait_until(lambda: is_closed(peer))
    assert real.taken == real.lost == []


def test_many_ranks_at_once_are_all_admitted_where_there_is_little_room(monkeypatch, caller):
    monkeypatch.setattr(listening, "_MOST_UNAUTHENTICATED", 1)
    real = caller(["127.0.0.1"])
    workers = [threading.Thread(target=lambda rank=rank: wire.connect(
        real.address, b"k" * 32).send(("hello", rank))) for rank in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(LIMIT)
    wait_until(lambda: len(real.taken) == 20)
    assert sorted(real.taken) == [("hello", rank) for rank in range(20)]


WITHOUT_DESCRIPTORS = """
import resource, select, socket, sys, time
from horovod_cpp.cluster.listener import Listener
from horovod_cpp.cluster import wire

listener = Listener(b"k" * 32, ["127.0.0.1"])
host, _, port = listener.address.removeprefix("tcp:").rpartition(":")
peer = socket.create_connection((host, int(port)))
assert select.select([listener], [], [], 60)[0]
free = peer.fileno() + 1
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (free, most))
listener.admit()
assert not select.select([listener], [], [], 0)[0], "the loop would never sleep"
assert listener.due() is not None
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
while not listener._unauthenticated:
    time.sleep(max(0, (listener.due() or 0) - time.monotonic()))
    listener.admit()
print("admitted later")
"""


def test_a_process_without_descriptors_sleeps_and_goes_on_when_it_has_some():
    done = subprocess.run([sys.executable, "-c", WITHOUT_DESCRIPTORS], capture_output=True,
                          text=True, timeout=LIMIT)
    assert done.stdout == "admitted later\n", done.stdout + done.stderr


def test_only_the_addresses_that_are_told_are_bound():
    listener = Listener(b"k" * 32, ["127.0.0.2", "127.0.0.3"])
    places = [place_of("tcp:" + each) for each in listener.address.removeprefix("tcp:").split(",")]
    assert [host for host, _ in places] == ["127.0.0.2", "127.0.0.3"]
    for host, port in places:
        socket.create_connection((host, port)).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    listener.close()


def test_a_worker_goes_on_to_the_address_where_its_caller_is(caller):
    """At the others are a program that does not know the key, one that hangs up, and nobody."""
    real, other = caller(["127.0.0.1"]), caller(["127.0.0.1"], key=b"o" * 32)
    nobody = socket.socket()
    nobody.bind(("127.0.0.1", 0))  # and does not listen
    places = [place.removeprefix("tcp:") for place in
              ("tcp:127.0.0.1:%d" % nobody.getsockname()[1], other.address, real.address)]
    worker = wire.connect("tcp:" + ",".join(places), b"k" * 32)
    worker.send(("hello", 2))
    wait_until(lambda: real.taken == [("hello", 2)])
    with pytest.raises(ConnectionError, match="does not know this job's key"):
        wire.connect("tcp:" + ",".join(places), b"w" * 32)
    assert other.taken == []


def test_a_worker_does_not_wait_for_who_says_a_byte_now_and_then(monkeypatch):
    monkeypatch.setattr(wire, "_CONNECT_TIMEOUT", 0.2)
    server = socket.create_server(("127.0.0.1", 0))

    def listen():
        connection, _ = server.accept()
        with contextlib.suppress(OSError):  # until it hangs up
            while True:
                connection.sendall(b"x")
                time.sleep(0.02)

    thread = threading.Thread(target=listen)
    thread.start()
    with pytest.raises(ConnectionError, match="timed out"):
        wire.connect("tcp:127.0.0.1:%d" % server.getsockname()[1], b"k" * 32)
    thread.join()
    server.close()


def test_a_worker_tells_nobody_the_key_nor_anything_of_a_message():
    """It speaks first, to whoever listens: random bytes, and its tag only to who knows the key."""
    server = socket.create_server(("127.0.0.1", 0))
    said = []

    def listen():
        connection, _ = server.accept()
        said.append(connection.recv(1000))
        connection.sendall(bytes(64))
        said.append(connection.recv(1000))

    thread = threading.Thread(target=listen)
    thread.start()
    with pytest.raises(ConnectionError, match="does not know this job's key"):
        wire.connect(f"tcp:127.0.0.1:{server.getsockname()[1]}", b"k" * 32)
    thread.join(LIMIT)
    assert len(said[0]) == 40 and said[0][:8] == wire.MARK and said[1] == b""
    server.close()


def test_a_pickle_before_the_key_was_shown_is_not_read(caller):
    real = caller(["127.0.0.1"])
    peer = socket.create_connection(place_of(real.address))
    data = pickle.dumps(Evil())
    peer.sendall(wire.MARK + bytes(32))
    peer.recv(64)
    peer.sendall(bytes(32) + struct.pack("<4sQ", b"HVD2", len(data)) + data)
    wait_until(lambda: is_closed(peer))
    assert real.taken == []
