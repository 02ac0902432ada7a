"""Random faults in the middle of a job that has collectives, transfers, process sets and an arena in
flight: ranks are killed, stopped forever or for a while, lose their connections, or find /dev/shm full.
Each schedule is drawn from its seed, which is the name of the case.

What has to hold: every survivor gets an error that names a rank at fault, within the job's limits; its
process is gone within a second of that; a job whose ranks only paused or were short of memory goes on;
and nothing of ours is left in /dev/shm, in the temporary folder or in the process table.
"""

import ctypes
import json
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time

import processes
import pytest
from ranks import processes_with

LONG = bool(os.environ.get("HVD_TEST_LONG"))
SCHEDULES = 200 if LONG else 20
ALWAYS = 2  # the rest is left to test/run.sh --full
PROGRAM = pathlib.Path(__file__).with_name("fault_job.py")
STALL_LIMIT_S = 8
NEVER_S = 120       # what has not ended by then never does
# From the error to the end of the process: a promise, measured where nothing else keeps the cores busy.
EXIT_S = 1 if LONG else 30
PIDFD_GETFD = 438   # the same number on every architecture
SHM_MIB = 64        # a container's

# A private /dev/shm, which outlives the ranks until standard input is closed.
HOLDER = f"""
mount -t tmpfs -o size={SHM_MIB}m,mode=1777 tmpfs /dev/shm || exit 77
"$@" </dev/null &
cat >/dev/null
"""
BY_HAND = 'for RANK in $(seq 0 $((WORLD_SIZE - 1))); do RANK=$RANK LOCAL_RANK=$RANK "$@" & done; wait'

TRANSPORTS = {
    "shm": {},
    "mpi": {"HOROVOD_CPU_OPERATIONS": "mpi"},
    "two-hosts": {},
}


class Job:
    def __init__(self, folder, size, transport, seed):
        self.folder, self.size = folder, size
        self.temporary = folder / "t"
        self.temporary.mkdir()
        program = [sys.executable, str(PROGRAM), str(folder), str(seed)]
        environment = {
            **os.environ, **TRANSPORTS[transport], "TMPDIR": str(self.temporary),
            "HVD_FLIGHT_RECORDER_SIZE": "0", "OMP_NUM_THREADS": "1",
            "HOROVOD_STALL_CHECK_TIME_SECONDS": "2",
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": str(STALL_LIMIT_S),
            # Open MPI's own memory in a /dev/shm that is full would kill its ranks by SIGBUS.
            "OMPI_MCA_btl_vader_backing_directory": str(self.temporary),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        if transport == "shm":
            environment |= {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size),
                            "HVD_RENDEZVOUS": f"file://{folder / 'meeting'}"}
            command = ["bash", "-c", BY_HAND, "bash", *program]
        else:
            mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "--enable-recovery"]
            shares = [(size // 2, "a"), (size - size // 2, "b")] if transport == "two-hosts" else [(size, "")]
            parts = [["-np", str(count), "env", f"HOROVOD_HOSTNAME={name}", *program] for count, name in shares]
            command = mpirun + [word for part in parts for word in [":", *part]][1:]
        self.output = folder / "output"
        unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
        with open(self.output, "wb") as output:
            self.holder = subprocess.Popen([*unshare, "bash", "-c", HOLDER, "bash", *command],
                                           stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                                           env=environment, start_new_session=True)
        self.shm = pathlib.Path(f"/proc/{self.holder.pid}/root/dev/shm")
        self.pids = [self.wait_for(f"pid{rank}") for rank in range(size)]
        self.ends = [os.pidfd_open(pid) for pid in self.pids]
        self.ended = {}

    def wait_for(self, name):
        path, end = self.folder / name, time.monotonic() + NEVER_S
        while time.monotonic() < end:
            if path.exists():
                return json.loads(path.read_text())
            time.sleep(0.005)
        pytest.fail(f"no {name}: {self.said()}")

    def run(self):
        for rank in range(self.size):
            self.wait_for(f"running{rank}")

    def read(self, name):
        path = self.folder / name
        return json.loads(path.read_text()) if path.exists() else None

    def said(self):
        return self.output.read_text(errors="replace")[-6000:]

    def wait_for_ends(self, ranks):
        """Notes when each of these ranks' processes ended."""
        poller = select.poll()
        rank_of = {}
        for rank in ranks:
            poller.register(self.ends[rank], select.POLLIN)
            rank_of[self.ends[rank]] = rank
        limit = time.monotonic() + NEVER_S
        while rank_of and time.monotonic() < limit:
            for fd, _ in poller.poll(100):
                self.ended[rank_of.pop(fd)] = time.monotonic()
                poller.unregister(fd)
        assert not rank_of, (f"rank(s) {sorted(rank_of.values())} did not end in {NEVER_S} s; "
                             f"{[self.read(f'told{rank}') for rank in range(self.size)]}; {self.said()}")

    def left_in_shm(self):
        return sorted(name for name in os.listdir(self.shm) if "hvd" in name or "horovod" in name)

    def left_in_tmp(self):
        return sorted(name for name in os.listdir(self.temporary) if "hvd" in name or "horovod" in name)

    def close(self):
        for fd in self.ends:
            try:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.close(fd)
        os.killpg(self.holder.pid, signal.SIGKILL)
        self.holder.wait()


def connected_sockets(pids):
    """[(process, descriptor)] of TCP connections of which both ends are among these processes."""
    owner = {}
    for pid in pids:
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
            except OSError:
                continue
            if found:
                owner[found[1]] = (pid, int(link.name))
    ends = {}
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pids[0]}/net/{table}").read_text().splitlines()[1:]:
            _, local, remote, state, *_, inode = line.split()[:10]
            if state == "01" and inode in owner:
                ends[local[-13:], remote[-13:]] = owner[inode]  # IPv4 in IPv6, too: address:port
    return [end for (local, remote), end in ends.items() if (remote, local) in ends]


def cut(pid, descriptor):
    """shutdown() of another process's socket, as a network that fails for good."""
    process = os.pidfd_open(pid)
    copy = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, descriptor, 0)
    os.close(process)
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    with socket.socket(fileno=copy) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def fill(folder):
    """Takes all that is left of a tmpfs."""
    with open(folder / "full", "wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 20)):
                pass
        except OSError:
            pass


def check_told(job, victims, survivors):
    for rank in survivors:
        told = job.read(f"told{rank}")
        assert told, f"rank {rank} ended without an error: {job.said()}"
        # Or a survivor that was told, and left, before this one looked.
        culprits = set(victims) | {other for other in survivors if other != rank}
        assert any(re.search(rf"\branks? .*\b{culprit}\b", told["text"]) for culprit in culprits), (rank, told)
        assert job.ended[rank] - told["at"] < EXIT_S, (rank, told, job.ended[rank])
    assert any(re.search(rf"\brank {victim}\b", job.read(f"told{rank}")["text"])
               for victim in victims for rank in survivors), [job.read(f"told{rank}") for rank in survivors]


def kill(job, draw):
    victims = draw.sample(range(job.size), draw.randrange(1, max(2, job.size - 1)))
    for victim in victims:
        processes.kill(job.pids[victim])  # the loss of the one before may have ended it
    return victims


def stop(job, draw):
    victim = draw.randrange(job.size)
    os.kill(job.pids[victim], signal.SIGSTOP)
    return [victim]


def pause(job, draw):
    for victim in draw.sample(range(job.size), draw.randrange(1, job.size + 1)):
        os.kill(job.pids[victim], signal.SIGSTOP)
        time.sleep(draw.uniform(0, 0.5))
        os.kill(job.pids[victim], signal.SIGCONT)
    return []


def disconnect(job, draw):
    connections = connected_sockets(job.pids)
    assert connections, "the ranks have no connection"
    pid, descriptor = draw.choice(connections)
    cut(pid, descriptor)
    return [job.pids.index(pid)]


def fill_memory(job, draw):
    fill(job.shm)
    time.sleep(draw.uniform(0, 0.5))  # sets are made meanwhile
    return []


def schedule(seed):
    draw = random.Random(seed)
    fault = [kill, stop, pause, disconnect, fill_memory][seed % 5]
    transport = "two-hosts" if fault is disconnect else draw.choice(["shm", "mpi", "two-hosts"])
    return draw, fault, transport, draw.randrange(2, 6)


def cases():
    for seed in range(SCHEDULES):
        parts = [seed, *(getattr(part, "__name__", part) for part in schedule(seed)[1:])]
        marks = () if seed < ALWAYS else pytest.mark.full
        yield pytest.param(seed, id="-".join(map(str, parts)), marks=marks)


@pytest.mark.parametrize("seed", cases())
def test_a_job_with_a_fault_ends_with_errors_that_name_it_or_goes_on(seed, tmp_path):
    draw, fault, transport, size = schedule(seed)
    job = Job(tmp_path, size, transport, seed)
    try:
        job.run()
        time.sleep(draw.uniform(0, 0.3))
        victims = fault(job, draw)
        survivors = [rank for rank in range(size) if rank not in victims]
        if not victims:
            (tmp_path / "finish").touch()
            job.wait_for_ends(range(size))
            steps = {job.read(f"finished{rank}") for rank in range(size)}
            assert len(steps) == 1 and None not in steps, [job.read(f"told{rank}") for rank in range(size)]
        elif fault is disconnect:  # both ends lost the other: which of them is named first is open
            job.wait_for_ends(range(size))
            check_told(job, range(size), range(size))
        else:
            job.wait_for_ends(survivors)
            check_told(job, victims, survivors)
        for victim in victims:
            processes.kill(job.pids[victim])
        job.wait_for_ends(victims)
        assert not job.left_in_shm()
        assert not job.left_in_tmp()
        ranks = [pid for pid in processes_with(f"{PROGRAM.name}\0{tmp_path}") if pid in job.pids]
        assert not ranks, ranks
    finally:
        job.close()
