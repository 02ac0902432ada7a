"""A rank is killed, or its host switched off, while the ranks of three hosts start: at moments from before they meet
until they have reduced a few tensors, so that all that a start consists of is interrupted somewhere. The survivors say
who is gone or missing, in time, and nothing is left behind. Unauthenticated peers at the meeting end nothing."""

import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import time

import pytest
from hosts import Hosts
from waiting import wait_for

HOST_OF = "aabc"  # of each rank
START_S = 4       # what the ranks wait for one that is missing
LATE_S = 6        # later on cores that other tests keep busy
LISTENS = ":72D8 "  # at port 29400
PEER = pathlib.Path(__file__).parents[1] / "support" / "unauthenticated_peer.py"
PROGRAM = """
import json, os, pathlib, sys, time
import numpy as np
import horovod_cpp as hvd

folder, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"]

def write(name, value):
    part = folder / f"{name}{rank}.part"
    part.write_text(json.dumps(value))
    part.rename(folder / f"{name}{rank}")

write("ready", os.getpid())
while not (folder / "go").exists():
    time.sleep(0.001)
phase = "start"
try:
    hvd.init()
    phase = "work"
    while True:
        hvd.allreduce(np.ones(1000), name="x")
except hvd.Error as error:
    write("told", {"phase": phase, "text": str(error), "at": time.monotonic()})
"""


@pytest.fixture(scope="module")
def hosts():
    with Hosts(3) as made:
        yield made


def kill_one(hosts, folder, victim, delay, power_off=False):
    """Returns in which phases the survivors were."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "WORLD_SIZE": str(len(HOST_OF)), "HOROVOD_START_TIMEOUT": str(START_S),
                   "HVD_LINK_TIMEOUT_SECONDS": str(START_S),
                   "HVD_RENDEZVOUS": f"tcp://{hosts.name}-a:29400", "HVD_RENDEZVOUS_KEY": secrets.token_hex(16),
                   "HVD_FLIGHT_RECORDER_SIZE": "0"}
    ranks = [subprocess.Popen(hosts.command("on", host, sys.executable, program, folder), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**environment, "RANK": str(rank)}) for rank, host in enumerate(HOST_OF)]
    for rank in range(len(ranks)):
        wait_for((folder / f"ready{rank}").exists, True)
    if delay is not None:
        (folder / "go").touch()
        time.sleep(delay)
    if power_off:
        hosts("power-off", HOST_OF[victim])
    else:
        os.kill(json.loads((folder / f"ready{victim}").read_text()), signal.SIGKILL)
    killed = time.monotonic()
    (folder / "go").touch()
    outputs = [rank.communicate(timeout=60)[0] for rank in ranks]
    phases = set()
    for rank in set(range(len(ranks))) - {victim}:
        assert (folder / f"told{rank}").exists(), outputs
        told = json.loads((folder / f"told{rank}").read_text())
        assert re.search(rf"\brank(\(s\))? {victim}\b", told["text"]), (rank, told, outputs)
        assert told["at"] - killed < START_S + LATE_S, (rank, told, killed)
        phases.add(told["phase"])
    for host in set(HOST_OF):
        wait_for(lambda host=host: hosts("processes", host), "")
        assert "hvd" not in hosts("on", host, "ls", "/dev/shm")
    return phases


@pytest.mark.parametrize("victim", [0, *(pytest.param(rank, marks=pytest.mark.full) for rank in (1, 2, 3))])
def test_a_rank_that_is_killed_during_the_start_is_named(hosts, victim, tmp_path):
    delays = [None, *(0.002 * step for step in range(12)), 0.06]  # None: before anybody looks for another
    phases = set()
    for number, delay in enumerate(delays[::8] if victim == 0 else delays):
        folder = tmp_path / str(number)
        folder.mkdir()
        phases |= kill_one(hosts, folder, victim, delay)
    assert "start" in phases


@pytest.mark.full
@pytest.mark.parametrize("delay", [None, 0, 0.02, 0.05])  # and what it takes to do it
def test_a_host_that_is_switched_off_during_the_start_is_named(hosts, delay, tmp_path):
    kill_one(hosts, tmp_path, 2, delay, power_off=True)
    hosts("link", HOST_OF[2], "up")


MEETS = """
import numpy as np
import horovod_cpp as hvd
hvd.init()
assert (hvd.allreduce(np.ones(100000), hvd.Sum, name="x") == hvd.size()).all()
"""


@pytest.mark.full
def test_unauthenticated_peers_and_ranks_of_another_job_do_not_keep_the_ranks_from_meeting(tmp_path):
    place = {**os.environ, "WORLD_SIZE": str(len(HOST_OF)), "HVD_FLIGHT_RECORDER_SIZE": "0"}
    with Hosts(4) as hosts:  # the fourth one has no rank
        place["HVD_RENDEZVOUS"] = f"tcp://{hosts.name}-a:29400"

        def start(rank, host, key):
            return subprocess.Popen(hosts.command("on", host, sys.executable, "-c", MEETS), text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    env={**place, "RANK": str(rank), "HVD_RENDEZVOUS_KEY": key})

        key = secrets.token_hex(16)
        ranks = [start(0, "a", key)]
        wait_for(lambda: LISTENS in hosts("on", "a", "cat", "/proc/net/tcp", "/proc/net/tcp6"), True)
        (tmp_path / "nothing").touch()
        peer = subprocess.Popen(
            hosts.command("on", "d", sys.executable, PEER, "come", ranks[0].pid, f"{hosts.name}-a",
                          tmp_path / "nothing"), text=True, stdout=subprocess.PIPE)
        other = start(1, "b", secrets.token_hex(16))
        assert "does not know the key" in other.communicate(timeout=60)[0] and other.returncode != 0
        assert peer.stdout.readline() == "flooding after 0\n"
        time.sleep(1)
        ranks += [start(rank, host, key) for rank, host in enumerate(HOST_OF) if rank > 0]
        for rank in ranks:
            output = rank.communicate(timeout=60)[0]
            assert rank.returncode == 0, output
