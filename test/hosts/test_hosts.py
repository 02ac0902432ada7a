"""test/support/hosts.sh: hosts that reach each other and nothing else, and what can be done to them."""

import functools
import pathlib
import signal
import subprocess
import sys

import processes
import pytest
from hosts import Hosts
from waiting import wait_for

# Sends datagrams to a host's echo and prints how many come back.
PROBE = """
import socket, sys
name, family, count = sys.argv[1], getattr(socket, sys.argv[2]), int(sys.argv[3])
with socket.socket(family, socket.SOCK_DGRAM) as probe:
    probe.settimeout(0.3)
    address = socket.getaddrinfo(name, 7, family, socket.SOCK_DGRAM)[0][4]
    answers = 0
    try:
        for number in range(count):
            probe.sendto(b"%d" % number, address)
        while answers < count:
            probe.recv(16)
            answers += 1
    except OSError:
        pass
print(answers)
"""

ECHO = """
import socket
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as echo:
    echo.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    echo.bind(("::", 7))
    print("ready", flush=True)
    while True:
        echo.sendto(*echo.recvfrom(16))
"""

# Says how long bytes took, from the first to the last, that SEND sends.
TAKE = """
import socket, time
with socket.create_server(("", 9)) as server:
    print("ready", flush=True)
    connection, _ = server.accept()
    connection.recv(1)
    begin = time.monotonic()
    while connection.recv(1 << 16):
        pass
    print(time.monotonic() - begin)
"""
SEND = "import socket, sys; socket.create_connection((sys.argv[1], 9)).sendall(bytes(int(sys.argv[2])))"

LISTEN = """
import socket, time
with socket.create_server(("", 9)) as server:
    print("ready", flush=True)
    time.sleep(100)
"""
CONNECT = """
import socket, time
with socket.create_connection(("{}", 9)):
    print("ready", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def hosts():
    with Hosts(3) as made:
        yield made


def start(hosts, host, source):
    """A program that says when it is ready."""
    process = subprocess.Popen(hosts.command("on", host, sys.executable, "-c", source), text=True,
                               stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture
def answers(hosts):
    """A function: how many of `count` datagrams a host answers another one."""
    for letter in hosts.letters:
        start(hosts, letter, ECHO)

    def probe(origin, to, family="AF_INET", count=1):
        return int(hosts("on", origin, sys.executable, "-c", PROBE, f"{hosts.name}-{to}", family, count))

    return probe


def test_hosts_reach_each_other_by_name_and_nothing_else(hosts, answers):
    for origin, to in ("ab", "bc", "ca"):
        for family in ("AF_INET", "AF_INET6"):
            wait_for(functools.partial(answers, origin, to, family), 1)
    assert hosts("on", "b", "hostname").strip() == f"{hosts.name}-b"
    devices = hosts("on", "b", "ls", "/proc/sys/net/ipv4/conf").split()
    assert sorted(devices) == ["all", "default", "eth0", "lo"]
    assert "default" not in hosts("on", "b", "ip", "route")


def test_cables_and_packets_are_lost_until_they_are_mended(hosts, answers):
    def reaches(origin, to):  # within the second or two that the kernel takes to ask for an address again
        wait_for(lambda: answers(origin, to), 1)

    hosts("cut", "a", "b")
    assert answers("a", "b") == answers("b", "a", "AF_INET6") == 0
    reaches("a", "c")
    reaches("b", "c")
    hosts("mend", "a", "b")
    hosts("cut", "a", "c", "oneway")
    hosts("mend", "b", "c")  # which nobody cut
    reaches("a", "b")
    assert answers("c", "a") == 0  # the answer is what is dropped
    hosts("mend", "a", "c")
    hosts("link", "b", "down")
    assert answers("a", "b") == 0
    reaches("a", "c")
    hosts("link", "b", "up")
    reaches("a", "b")
    hosts("loss", "b", "30")
    wait_for(lambda: 40 < answers("a", "b", count=200) < 160, True)  # half of them pass twice
    hosts("loss", "b", "0")
    wait_for(lambda: answers("a", "b", count=100), 100)


def test_a_rate_limits_what_a_host_sends_and_gets(hosts):
    hosts("rate", "b", "8")  # a megabyte a second
    for origin, to in ("ab", "ba"):
        taking = start(hosts, to, TAKE)
        hosts("on", origin, sys.executable, "-c", SEND, f"{hosts.name}-{to}", 300_000)
        assert 0.2 < float(taking.communicate(timeout=20)[0]) < 2
    hosts("rate", "b", "0")


def test_a_frozen_host_stands_still_and_one_without_power_is_silent(hosts, answers):
    hosts("freeze", "b")
    assert answers("a", "b") == 0
    hosts("thaw", "b")
    wait_for(lambda: answers("a", "b"), 1)
    listener, peer = start(hosts, "c", LISTEN), start(hosts, "a", CONNECT.format(f"{hosts.name}-c"))
    hosts("power-off", "c")
    assert hosts("processes", "c") == "" and listener.wait(timeout=5) == -signal.SIGKILL
    assert answers("a", "c") == 0
    # The peer's connection is still established (01).
    assert " 01 " in pathlib.Path(f"/proc/{peer.pid}/net/tcp").read_text()


def test_nothing_is_left_when_the_caller_is_killed():
    owner = subprocess.Popen([sys.executable, "-c", MAKER], text=True, stdout=subprocess.PIPE,
                             env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": ":".join(sys.path)})
    name, pid = owner.stdout.readline().split()
    assert processes.is_running(int(pid))
    owner.kill()
    owner.wait()
    wait_for(pathlib.Path(f"/tmp/hvd-hosts-{name}").exists, False)
    wait_for(lambda: processes.is_running(int(pid)), False)


MAKER = """
import subprocess, time
from hosts import Hosts
hosts = Hosts(2)
hosts.__enter__()
sleeper = subprocess.Popen(hosts.command("on", "b", "sleep", "100"))
print(hosts.name, sleeper.pid, flush=True)
time.sleep(100)
"""


@pytest.mark.full
def test_ssh_enters_a_host_with_the_keys_of_the_test(hosts):
    for letter in "bc":
        hosts("sshd", letter)
    config = f"/tmp/hvd-hosts-{hosts.name}/ssh_config"
    assert hosts("on", "a", "ssh", "-F", config, f"{hosts.name}-b", "hostname").strip() == f"{hosts.name}-b"
    assert hosts("on", "b", "ssh", "-F", config, f"{hosts.name}-c", "hostname").strip() == f"{hosts.name}-c"
    with pytest.raises(AssertionError, match="Connection refused"):
        hosts("on", "b", "ssh", "-F", config, f"{hosts.name}-a", "true")
