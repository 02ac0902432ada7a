"""Failures of a busy job on three hosts: who is gone is named on every survivor in time, nothing is left
behind, and what is only slow ends nothing. The same for each way to start a job (STARTS)."""

import json
import os
import pathlib
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time

import pytest
from hosts import Hosts
from ranks import hvdrun
from waiting import wait_for

PROGRAM = pathlib.Path(__file__).parents[1] / "mpi" / "fault_job.py"
HOST_OF = "aabc"  # of each rank
PROCESS_S = 1     # a process that ended is named after
HOST_S = 5        # and a host that is gone
HVDRUN_S = 15     # and hvdrun ends: it waits for the rank that the others name, then for those that it ended
BUSY_S = 2        # later on cores that other tests keep busy
OWN_S = 5         # what a rank itself may do meanwhile with 64 MiB, before it hears of it on such cores
PEER = pathlib.Path(__file__).parents[1] / "support" / "unauthenticated_peer.py"
PEERS_KEPT = 64   # by a rank
PEERS_MIB = 64    # by which the memory of the job's own tensors varies
SETTINGS = {
    "HVD_LINK_TIMEOUT_SECONDS": str(HOST_S), "HVD_FLIGHT_RECORDER_SIZE": "0", "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def mpirun(hosts, program):
    """What is left to end when a rank is gone is MPI's: mpirun waits for an MPI_Finalize that does not come."""
    shares = ",".join(f"{hosts.name}-{host}:{HOST_OF.count(host)}" for host in hosts.letters)
    exported = [word for name in SETTINGS for word in ("-x", name)]
    return hosts.command("mpirun", "-H", shares, "-np", len(HOST_OF), "--enable-recovery", *exported, *program)


def by_hand(hosts, program):
    """Ends when all ranks have ended."""
    ranks = [f"RANK={rank} {shlex.join(hosts.command('on', host, *program))} &" for rank, host in enumerate(HOST_OF)]
    place = [f"HVD_RENDEZVOUS=tcp://{hosts.name}-a:29400", f"HVD_RENDEZVOUS_KEY={secrets.token_hex(16)}"]
    return ["env", f"WORLD_SIZE={len(HOST_OF)}", *place, "bash", "-c", " ".join([*ranks, "wait"])]


def hvdrun_exec(hosts, program):
    shares = ",".join(f"{hosts.name}-{host}:{HOST_OF.count(host)}" for host in hosts.letters)
    launcher = f"exec:/tmp/hvd-hosts-{hosts.name}/agent"
    return hosts.command("on", "a", hvdrun(), "-np", len(HOST_OF), "-H", shares, "--launcher", launcher, *program)


STARTS = {"by_hand": by_hand, "hvdrun_exec": hvdrun_exec, "mpirun": mpirun}


class Job:
    def __init__(self, hosts, folder, start, *words):
        self.hosts, self.folder, self.output, self.start = hosts, folder, folder / "output", start
        self.program = [sys.executable, str(PROGRAM), str(folder), "1", *words]
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(start(hosts, self.program), stdout=output, stderr=subprocess.STDOUT,
                                            env={**os.environ, **SETTINGS})
        for rank in range(len(HOST_OF)):
            self.wait_for(f"running{rank}")

    def wait_for(self, name, seconds=60):
        """What a rank wrote into a file."""
        path, end = self.folder / name, time.monotonic() + seconds
        while not path.exists():
            assert time.monotonic() < end, (name, self.output.read_text(errors="replace")[-6000:])
            time.sleep(0.01)
        return json.loads(path.read_text())

    def left(self, host):
        """Processes of the program and what they would leave in shared memory, on a host."""
        words = "".join(word + "\0" for word in self.program).encode()
        found = []
        for pid in self.hosts("processes", host).split():
            try:
                found += [pid] if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() == words else []
            except OSError:  # it has ended
                pass
        return found + [name for name in self.hosts("on", host, "ls", "/dev/shm").split() if "hvd" in name]

    def finish(self):
        """Ends the training, whose ranks have checked each result."""
        (self.folder / "finish").touch()
        steps = {self.wait_for(f"finished{rank}") for rank in range(len(HOST_OF))}
        assert len(steps) == 1
        assert self.process.wait(timeout=60) == 0


@pytest.fixture(params=["by_hand", *(pytest.param(name, marks=pytest.mark.full) for name in STARTS
                                     if name != "by_hand")])
def job(request, tmp_path):
    with Hosts(3) as hosts:
        yield Job(hosts, tmp_path, STARTS[request.param])


# Each makes a rank unreachable and returns within which time that is noticed.
def kill(job, rank):
    os.kill(job.wait_for(f"pid{rank}"), signal.SIGKILL)
    return PROCESS_S


def power_off(job, rank):
    job.hosts("power-off", HOST_OF[rank])
    return HOST_S


def pull_cable(job, rank):
    job.hosts("link", HOST_OF[rank], "down")
    return HOST_S


def freeze(job, rank):
    job.hosts("freeze", HOST_OF[rank])
    return HOST_S


def expect_named(job, victim, limit, since):
    for rank in set(range(len(HOST_OF))) - {victim}:
        try:
            told = job.wait_for(f"told{rank}", 2 * limit + 10)
        except AssertionError:
            if re.search(rf"\[\[\d+,1\],{rank}\]\[\S*btl_tcp_frag\.c", job.output.read_text(errors="replace")):
                continue  # Open MPI ends a rank that just then sends to one that is gone
            raise
        assert re.search(rf"\brank {victim} on host {job.hosts.name}-{HOST_OF[victim]}\b", told["text"]), (rank, told)
        assert told["at"] - since < limit + BUSY_S, (rank, told, since)


@pytest.mark.parametrize("fault, victim", [
    (kill, 1),  # which has a survivor on its host
    pytest.param(kill, 0, marks=pytest.mark.full),
    pytest.param(kill, 2, marks=pytest.mark.full),
    pytest.param(power_off, 2, marks=pytest.mark.full),
    pytest.param(pull_cable, 2, marks=pytest.mark.full),
    pytest.param(freeze, 2, marks=pytest.mark.full),  # its kernel acknowledges
])
def test_who_is_gone_is_named_on_every_survivor(job, fault, victim):
    limit = fault(job, victim)
    since = time.monotonic()
    survivors = set(range(len(HOST_OF))) - {victim}
    if job.start is hvdrun_exec and fault is not kill:  # which may notice before the ranks do, and end them
        assert job.process.wait(limit + BUSY_S + HVDRUN_S) != 0
        assert f"{job.hosts.name}-{HOST_OF[victim]}" in job.output.read_text(errors="replace")
    else:
        expect_named(job, victim, limit, since)
        if fault is pull_cable:  # that is alone, and hears of nobody
            assert re.search(r"\brank \d on host", job.wait_for(f"told{victim}")["text"])
    for host in {HOST_OF[rank] for rank in survivors}:
        wait_for(lambda host=host: job.left(host), [])


def test_a_rank_that_is_killed_in_the_middle_of_64_mib_is_named(tmp_path):
    with Hosts(3) as hosts:
        job = Job(hosts, tmp_path, by_hand, "24")
        time.sleep(1)  # the ranks begin with less
        limit = kill(job, 1)
        expect_named(job, 1, limit + OWN_S, time.monotonic())


@pytest.mark.full
@pytest.mark.parametrize("direction", [[], ["oneway"]])
def test_hosts_that_only_do_not_reach_each_other_are_named(tmp_path, direction):
    with Hosts(3) as hosts:
        job = Job(hosts, tmp_path, by_hand)
        hosts("cut", "b", "c", *direction)
        since = time.monotonic()
        for rank in range(len(HOST_OF)):
            told = job.wait_for(f"told{rank}", 2 * HOST_S + 10)
            assert re.search(rf"\brank [23] on host {hosts.name}-[bc]\b", told["text"]), (rank, told)
            assert told["at"] - since < HOST_S + BUSY_S, (rank, told, since)


@pytest.mark.full
@pytest.mark.parametrize("percent", [1, 5])
def test_lost_packets_end_nothing(job, percent):
    job.hosts("loss", "b", percent)
    time.sleep(3)
    job.finish()


@pytest.mark.full
def test_a_job_that_is_stopped_as_a_whole_and_continued_goes_on(job):
    for verb in ("freeze", "thaw"):
        for host in job.hosts.letters:
            job.hosts(verb, host)
        time.sleep(HOST_S + BUSY_S if verb == "freeze" else 1)
    job.finish()


def test_a_cable_that_is_out_for_two_seconds_ends_nothing(job):
    job.hosts("link", "b", "down")
    time.sleep(2)
    job.hosts("link", "b", "up")
    job.finish()


@pytest.mark.full
def test_unauthenticated_peers_end_nothing_and_cost_little(tmp_path):
    with Hosts(4) as hosts:  # the fourth one has no rank
        recorded = tmp_path / "recorded"
        recorder = subprocess.Popen(hosts.command("on", "a", sys.executable, PEER, "record"),
                                    stdout=recorded.open("wb"))
        wait_for(recorded.read_bytes, b"ready\n")
        job = Job(hosts, tmp_path, by_hand)
        recorder.kill()
        recorder.wait()
        pid = job.wait_for("pid0")

        def costs():
            memory = re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
            return len(os.listdir(f"/proc/{pid}/fd")), int(memory[1]) // 1024

        before, memory = costs()
        peer = subprocess.Popen(hosts.command("on", "d", sys.executable, PEER, "come", pid, f"{hosts.name}-a", recorded),
                                text=True, stdout=subprocess.PIPE)
        assert re.fullmatch(r"flooding after [1-9]\d*\n", peer.stdout.readline())
        time.sleep(3)
        descriptors, grown = costs()
        assert before < descriptors <= before + PEERS_KEPT and grown < memory + PEERS_MIB
        hosts("power-off", "d")  # whose connections stay half open
        wait_for(lambda: costs()[0] <= before, True)
        job.finish()
