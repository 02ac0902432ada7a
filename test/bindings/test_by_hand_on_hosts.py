"""Ranks that are started by hand, one on each of two hosts (network namespaces of this machine), and
find each other without MPI. As root."""

import functools
import os
import re
import secrets
import signal
import subprocess
import sys
import time

import pytest
from hosts import Hosts

PROGRAM = """
import numpy as np
import horovod_cpp as hvd
from horovod_cpp import nn

equal = np.testing.assert_array_equal

def check_collectives(rank, size):
    for count in (1, 100_000):
        equal(hvd.allreduce(np.full(count, rank + 1, np.float32), hvd.Sum), size * (size + 1) / 2)
    equal(hvd.allgather(np.full(rank + 1, rank)), np.repeat(range(size), range(1, size + 1)))
    equal(hvd.broadcast(np.array([rank + 5.0]), 1), 6)
    equal(hvd.alltoall(np.arange(size) + 10 * rank), 10 * np.arange(size) + rank)
    got = np.zeros(100_000)
    transfers = [hvd.isend(np.full(100_000, float(rank)), (rank + 1) % size), hvd.irecv(got, (rank - 1) % size)]
    for transfer in transfers:
        hvd.synchronize(transfer)
    equal(got, (rank - 1) % size)
    ends = hvd.add_process_set([0, size - 1])
    if ends.included():
        equal(hvd.allreduce(np.full(10, rank), hvd.Sum, process_set=ends), size - 1)
    hvd.remove_process_set(ends)

def check_training(rank, size):
    model = nn.Linear(1, 1, bias=False)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(hvd.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    before = model.weight.numpy().copy()
    hvd.mean(model(hvd.tensor(np.full((1, 1), rank + 1, np.float32)))).backward()
    optimizer.step()
    equal(model.weight.numpy(), before - np.float32((size + 1) / 2))

try:
    hvd.init()
    check_collectives(hvd.rank(), hvd.size())
    check_training(hvd.rank(), hvd.size())
    print("met", hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), flush=True)
except hvd.Error as error:
    print(type(error).__name__, error, flush=True)
"""
# As PyTorch's TCPStore does at MASTER_PORT.
TAKES_MASTER_PORT = """
import socket
listener = socket.create_server(("::", 29500), family=socket.AF_INET6, dualstack_ipv6=True)
"""


# After PROGRAM: the ends of all connections, as numbers in hexadecimal, the last byte first.
LISTS_CONNECTIONS = """
import pathlib
for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
    here, there, state = row.split()[1:4]
    if state == "01":
        print("connected", here[:8], there[:8], flush=True)
"""


class Ranks:
    """Ranks that are started on hosts."""

    def __init__(self, hosts, folder):
        self.folder = folder
        self.on = functools.partial(hosts, "on")  # "a", "b": what a command prints there
        self._hosts = hosts
        self._ranks = []

    def host(self, letter):
        return f"{self._hosts.name}-{letter}"

    def start(self, letter, rank, size=2, source=PROGRAM, **environment):
        """A rank on that host, with MASTER_ADDR and MASTER_PORT of host a unless HVD_RENDEZVOUS is
        given."""
        program = self.folder / f"program-{letter}.py"
        program.write_text(source)
        place = {"MASTER_ADDR": self.host("a"), "MASTER_PORT": "29500"}
        variables = {"RANK": str(rank), "WORLD_SIZE": str(size), "HOROVOD_START_TIMEOUT": "60",
                     **({} if "HVD_RENDEZVOUS" in environment else place), **environment}
        process = subprocess.Popen(
            self._hosts.command("on", letter, sys.executable, "-u", program), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder,
            env={**os.environ, **variables})
        self._ranks.append(process)
        return process

    def outputs(self, *started):
        return [process.communicate(timeout=120)[0] for process in started]

    def end(self):
        for process in self._ranks:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def made_hosts():
    with Hosts(2) as made:
        yield made


@pytest.fixture
def hosts(made_hosts, tmp_path):
    started = Ranks(made_hosts, tmp_path)
    yield started
    started.end()


def expect_met(outputs, letters="ab"):
    """Those of ranks 0, 1, ... on these hosts: each knows its place there and in the job, and has
    computed what it should."""
    for rank, (letter, output) in enumerate(zip(letters, outputs, strict=True)):
        place = f"{rank} {len(letters)} {letters[:rank].count(letter)} {letters.count(letter)}"
        assert re.search(f"^met {place}$", output, re.MULTILINE), output


KEY = {"HVD_RENDEZVOUS_KEY": secrets.token_hex(16)}
PLACES = {
    "env": lambda hosts: {},
    "name": lambda hosts: {"HVD_RENDEZVOUS": f"tcp://{hosts.host('a')}:29400"},
    "ipv4": lambda hosts: {"HVD_RENDEZVOUS": "tcp://10.213.77.1:29400"},
    "ipv6": lambda hosts: {"HVD_RENDEZVOUS": "tcp://[fd00:d:77::1]:29400"},
    "file": lambda hosts: {"HVD_RENDEZVOUS": f"file://{hosts.folder}/meeting"},
    "range": lambda hosts: {"HVD_RENDEZVOUS": f"file://{hosts.folder}/meeting",
                            "HVD_PORT_RANGE": "20000-20009"},
}


def test_a_name_that_is_loopback_on_its_own_host_is_listened_for_there(hosts):
    """As Debian writes it into /etc/hosts. HOROVOD_GLOO_IFACE does not list that address."""
    file = hosts.folder / "hosts"
    file.write_text(f"127.0.1.1 {hosts.host('a')}\n")
    hosts.on("a", "mount", "--bind", file, "/etc/hosts")
    try:
        outputs = hosts.outputs(*(hosts.start(letter, rank, 3, HOROVOD_GLOO_IFACE="eth0", **KEY)
                                  for rank, letter in enumerate("aab")))
    finally:
        hosts.on("a", "umount", "/etc/hosts")
    expect_met(outputs, "aab")


def test_the_advertised_address_is_used_and_no_other(hosts):
    """A second one of each host, that is not of the network which both have."""
    for letter, own, other in (("a", 1, 2), ("b", 2, 1)):
        hosts.on(letter, "ip", "addr", "add", f"10.213.78.{own}/32", "dev", "eth0")
        hosts.on(letter, "ip", "route", "add", f"10.213.78.{other}", "via", f"10.213.77.{other}")
    outputs = hosts.outputs(*(
        hosts.start(letter, rank, source=PROGRAM + LISTS_CONNECTIONS,
                    HVD_RENDEZVOUS=f"file://{hosts.folder}/meeting",
                    HVD_ADVERTISE_ADDRESS=f"10.213.78.{rank + 1}")
        for rank, letter in enumerate("ab")))
    for letter, own in (("a", 1), ("b", 2)):
        hosts.on(letter, "ip", "addr", "del", f"10.213.78.{own}/32", "dev", "eth0")
    expect_met(outputs)
    connections = re.findall("^connected .*$", "".join(outputs), re.MULTILINE)
    assert connections and all("4ED50A" in each for each in connections), outputs


@pytest.mark.parametrize("place, first", [
    ("env", 0), ("env", 1), ("ipv6", 1), ("range", 0), *(
        pytest.param(place, first, marks=pytest.mark.full) for place, first in (
            ("name", 0), ("name", 1), ("ipv4", 0), ("ipv4", 1), ("ipv6", 0), ("file", 0), ("file", 1),
            ("range", 1)))])
def test_one_rank_by_hand_on_each_host_in_any_order(hosts, place, first):
    variables = {**PLACES[place](hosts), **KEY}
    started = {}
    for rank in (first, 1 - first):
        started[rank] = hosts.start("ab"[rank], rank, **variables)
        time.sleep(0.5)
    outputs = hosts.outputs(started[0], started[1])
    expect_met(outputs)
    assert "KEY" not in "".join(outputs), outputs
    assert not (hosts.folder / "meeting").exists()


def test_a_late_rank_is_waited_for_with_a_report_of_who_is_missing(hosts):
    zero = hosts.start("a", 0, 3)
    one = hosts.start("a", 1, 3)
    time.sleep(9)
    outputs = hosts.outputs(zero, one, hosts.start("b", 2, 3))
    expect_met(outputs, "aab")
    text = "".join(outputs)
    assert re.search(r"2 of 3 ranks are here, waiting for rank 2 at tcp://\S+:29500 "
                     r"\(start timeout in 5\d s\)", text), text
    assert re.search(r"rank 1 has met rank 0 at .* and waits for the others", text), text


def test_a_rank_that_waits_for_rank_zero_says_so_and_names_it_at_the_end(hosts):
    [text] = hosts.outputs(hosts.start("b", 1, HOROVOD_START_TIMEOUT="7"))
    place = f"tcp://{hosts.host('a')}:29500"
    assert f"rank 1 looks for rank 0 at {place}: " in text, text
    assert "StalledError" in text and f"rank 0 was not found at {place}" in text, text


def test_a_missing_rank_is_named_on_every_host(hosts):
    limit = {"HOROVOD_START_TIMEOUT": "6"}
    for text in hosts.outputs(hosts.start("a", 0, 3, **limit), hosts.start("b", 1, 3, **limit)):
        assert "StalledError" in text and "rank(s) 2 did not connect" in text, text


def test_other_sizes_and_keys_are_told_on_both_hosts(hosts):
    for zero, one in [({"size": 2}, {"size": 3}), (KEY, {"HVD_RENDEZVOUS_KEY": "0" * 32})]:
        texts = hosts.outputs(hosts.start("a", 0, HOROVOD_START_TIMEOUT="8", **zero),
                              hosts.start("b", 1, HOROVOD_START_TIMEOUT="8", **one))
        for text in texts:
            assert ("world of 3" in text) if "size" in one else ("know the key" in text), texts


def test_no_key_is_a_warning_on_rank_zero_or_an_error(hosts):
    zero, one = hosts.outputs(hosts.start("a", 0), hosts.start("b", 1))
    expect_met([zero, one])
    assert zero.count("HVD_RENDEZVOUS_KEY is not set") == 1 and "HVD_RENDEZVOUS_KEY" not in one
    for text in hosts.outputs(*(hosts.start("ab"[rank], rank, HVD_REQUIRE_KEY="1")
                                for rank in range(2))):
        assert "InvalidArgumentError" in text and "HVD_RENDEZVOUS_KEY is not set" in text, text
    file = {"HVD_RENDEZVOUS": f"file://{hosts.folder}/meeting", "HVD_REQUIRE_KEY": "1"}
    expect_met(hosts.outputs(hosts.start("a", 0, **file), hosts.start("b", 1, **file)))


def test_a_name_that_does_not_resolve_is_named(hosts):
    place = {"HVD_RENDEZVOUS": "tcp://nowhere.invalid:29400", "HOROVOD_START_TIMEOUT": "3"}
    for text in hosts.outputs(hosts.start("a", 0, **place), hosts.start("b", 1, **place)):
        assert "StalledError" in text and "the address of host 'nowhere.invalid'" in text, text


def test_a_taken_port_and_a_full_range_are_named(hosts):
    source = TAKES_MASTER_PORT + PROGRAM
    [text] = hosts.outputs(hosts.start("a", 0, source=source, LOCAL_WORLD_SIZE="1"))
    assert "InvalidArgumentError" in text and "29500: Address already in use" in text, text
    assert "HVD_RENDEZVOUS=tcp://host:port" in text, text
    # Where nothing says that there are other hosts, this host's ranks could still come.
    [text] = hosts.outputs(hosts.start("a", 0, source=source, HOROVOD_START_TIMEOUT="1"))
    assert "StalledError" in text and "HVD_RENDEZVOUS=tcp://host:port" in text, text
    full = {"HVD_RENDEZVOUS": f"file://{hosts.folder}/meeting", "HVD_PORT_RANGE": "29500-29500"}
    [text] = hosts.outputs(hosts.start("a", 0, source=source, **full))
    assert "InvalidArgumentError" in text and "29500: Address already in use" in text, text


def test_garbage_and_silence_at_the_port_disturb_nobody(hosts):
    zero = hosts.start("a", 0, **KEY)
    hosts.on("b", sys.executable, "-c", f"""
import socket, time
deadline = time.monotonic() + 60
while True:
    try:
        peers = [socket.create_connection(({hosts.host("a")!r}, 29500)) for _ in range(20)]
        break
    except OSError:
        assert time.monotonic() < deadline
        time.sleep(0.05)
for peer in peers[:10]:
    peer.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
""")
    expect_met(hosts.outputs(zero, hosts.start("b", 1, **KEY)))


def test_ranks_that_wait_learn_at_once_that_rank_zero_is_gone(hosts):
    zero = hosts.start("a", 0, 3)
    one = hosts.start("b", 1, 3)
    for line in zero.stdout:
        if "2 of 3 ranks are here" in line:
            break
    killed = time.monotonic()
    subprocess.run(["pkill", "-KILL", "-P", str(zero.pid)], check=False)
    zero.send_signal(signal.SIGKILL)
    [text] = hosts.outputs(one)
    assert "PeerLostError" in text and "rank 0 at" in text and "ended during the rendezvous" in text
    assert time.monotonic() - killed < 20
