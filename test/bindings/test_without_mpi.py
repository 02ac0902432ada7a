"""Jobs of one machine in which MPI does not exist: started by hvdrun, or by hand as torchrun does."""

import json
import os
import secrets
import signal
import socket
import time

import pytest
from order import ORDER
from ports import free_port
from ranks import PROLOGUE, SIZES, ByHand

import horovod_cpp as hvd

NO_MPIRUN = {"PATH": "/nonexistent"}

COLLECTIVES = """
import os
assert not any(name.startswith("OMPI_COMM_WORLD_") for name in os.environ)
assert "libmpi" not in open("/proc/self/maps").read()
assert not hvd.mpi_enabled()
assert hvd.local_size() == size and hvd.local_rank() == rank and hvd.cross_size() == 1
mine = np.arange(100000, dtype=np.float32) + rank
assert (hvd.allreduce(mine, hvd.Sum) == size * np.arange(100000) + sum(range(size))).all()
assert (hvd.allgather(np.full(rank + 1, rank)) == np.repeat(range(size), range(1, size + 1))).all()
assert (hvd.broadcast(np.array([rank + 5.0]), 1) == [6.0]).all()
assert (hvd.alltoall(np.arange(size) + 10 * rank) == 10 * np.arange(size) + rank).all()
assert not [name for name in os.listdir("/dev/shm") if f"hvd-{os.getpid()}-" in name]
print("fine", flush=True)
"""

TRAINING = """
from horovod_cpp import nn
hvd.manual_seed(1)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = hvd.DistributedOptimizer(
    hvd.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
random = np.random.default_rng(rank)
images = hvd.tensor(random.standard_normal((8, 16), dtype=np.float32))
labels = hvd.tensor(random.integers(0, 4, 8))
for step in range(20):
    optimizer.zero_grad()
    hvd.cross_entropy(model(images), labels).backward()
    optimizer.step()
digest = hash(b"".join(p.numpy().tobytes() for p in model.parameters()))
assert (hvd.allgather(np.array([digest])) == digest).all()
print("parameters", digest, flush=True)
"""


@SIZES
@pytest.mark.parametrize("how", [{"flags": []}, {"environment": NO_MPIRUN}, {"flags": ["--gloo"]},
                                 {"environment": {"HOROVOD_CONTROLLER": "gloo"}}],
                         ids=["default", "no-mpirun", "option", "variable"])
def test_hvdrun_starts_ranks_that_reduce(ranks, np, how):
    assert ranks.check(COLLECTIVES, np=np, **how).count("fine") == np


OWN_MPI = """
import ctypes
import horovod_cpp as hvd
mpi = ctypes.CDLL("libmpi.so.40")
{init}
hvd.init()
print("size", hvd.size(), flush=True)
"""


def test_a_program_that_uses_mpi_itself_is_told_to_ask_for_mpirun(ranks):
    program = ranks.folder / "own_mpi.py"
    program.write_text(OWN_MPI.format(init="mpi.MPI_Init(None, None)"))
    done = ranks.launch([program], 2)
    assert done.returncode != 0
    assert "uses MPI itself" in done.stdout and "use hvdrun --mpi" in done.stdout
    for flag in ("--mpi", "--gloo"):
        assert ranks.launch([program], 2, flags=[flag]).stdout.count("size 2") == 2, flag
    program.write_text(OWN_MPI.format(init=""))  # as some builds of torch do
    assert ranks.launch([program], 2).stdout.count("size 2") == 2


@SIZES
def test_training_gives_the_bits_that_it_gives_with_mpi(ranks, np):
    def parameters(**how):
        output = ranks.check(TRAINING, np=np, **how)
        return {line.split()[-1] for line in output.splitlines() if "parameters" in line}

    fixed = {"PYTHONHASHSEED": "0"}
    without = parameters(environment={**NO_MPIRUN, **fixed})
    assert len(without) == 1
    assert without == parameters(flags=["--mpi"], environment=fixed)


def test_run_needs_no_mpirun(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")

    def work():
        import numpy as np

        hvd.init()
        return hvd.allreduce(np.array([hvd.rank() + 1]), hvd.Sum).tolist()

    assert hvd.run(work, np=2) == [[3], [3]]


@pytest.fixture
def by_hand(tmp_path):
    job = ByHand(tmp_path, str(20000 + os.getpid() % 10000))
    yield job
    job.end()


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.full)])
def test_torchruns_variables_are_enough(by_hand, size):
    for output in by_hand.outputs(PROLOGUE + COLLECTIVES, size):
        assert "fine" in output


def test_a_file_is_enough_and_is_gone_afterwards(by_hand):
    place = by_hand.folder / "meeting"
    again = PROLOGUE + """
for round in range(5):
    assert (hvd.allreduce(np.array([rank]), hvd.Sum) == [1]).all()
    hvd.shutdown()
    hvd.init()
"""
    by_hand.outputs(again, 2, environment={"HVD_RENDEZVOUS": f"file://{place}"},
                    clear=["MASTER_ADDR", "MASTER_PORT"])
    assert not place.exists()


def test_a_port_without_a_key_is_warned_of_and_refused_if_a_key_is_required(by_hand):
    place = {"HVD_RENDEZVOUS": f"tcp://127.0.0.1:{free_port()}"}
    zero, one = by_hand.outputs(INIT, 2, environment=place)
    assert zero.count("HVD_RENDEZVOUS_KEY is not set") == 1 and "Error" not in zero, zero
    assert "HVD_RENDEZVOUS_KEY" not in one and "Error" not in one, one
    for rank in range(2):
        text, _ = refusal(by_hand.start(INIT, rank, 2, {**place, "HVD_REQUIRE_KEY": "1"}))
        assert "InvalidArgumentError" in text and "HVD_RENDEZVOUS_KEY" in text, text
        assert "openssl rand" in text and "file:///" in text, text


def test_unauthenticated_peers_at_a_port_with_a_key_end_nothing(by_hand):
    port = free_port()
    place = {"HVD_RENDEZVOUS": f"tcp://127.0.0.1:{port}", "HVD_RENDEZVOUS_KEY": secrets.token_hex(16)}
    zero = by_hand.start(PROLOGUE + COLLECTIVES, 0, 2, place)
    while True:
        assert zero.poll() is None, zero.communicate()[0]
        try:
            peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
            break
        except OSError:
            time.sleep(0.05)
    peers[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
    peers[1].sendall(b"HVDH" + bytes(200))
    other_key = {**place, "HVD_RENDEZVOUS_KEY": secrets.token_hex(16)}
    text, _ = refusal(by_hand.start(INIT, 1, 2, other_key))
    assert "PeerLostError" in text and "does not know the key of this job" in text, text
    text, _ = refusal(by_hand.start(INIT, 9, 10, other_key))
    assert "PeerLostError" in text, text
    one = by_hand.start(PROLOGUE + COLLECTIVES, 1, 2, place)
    for process in (zero, one):
        assert "fine" in process.communicate(timeout=120)[0]
        assert process.returncode == 0
    for peer in peers:
        peer.close()


def test_who_listens_at_the_port_first_is_told_no_key(by_hand):
    key = secrets.token_hex(16)
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        place = {"HVD_RENDEZVOUS": f"tcp://127.0.0.1:{squatter.getsockname()[1]}",
                 "HVD_RENDEZVOUS_KEY": key, "HOROVOD_START_TIMEOUT": "2"}
        guest = by_hand.start(INIT, 1, 2, place)
        connection, _ = squatter.accept()
        said = connection.recv(1000)
        text, _ = refusal(guest)
        connection.close()
    assert len(said) == 56 and key.encode() not in said and bytes.fromhex(key) not in said
    assert "StalledError" in text and "does not answer" in text, text


# Says what init() throws and how long that took.
INIT = """
import time
import horovod_cpp as hvd
begin = time.monotonic()
try:
    hvd.init()
except hvd.Error as error:
    print(type(error).__name__, error, flush=True)
print("seconds", time.monotonic() - begin)
"""


def refusal(process):
    output = process.communicate(timeout=60)[0]
    return output, float(output.split()[-1])


def test_loopback_is_no_place_for_several_hosts(by_hand):
    text, seconds = refusal(by_hand.start(INIT, 0, 4, {"LOCAL_WORLD_SIZE": "2"}))
    assert "InvalidArgumentError" in text and "2 of 4 ranks" in text, text
    assert "HVD_RENDEZVOUS=tcp://host:port" in text and "hvdrun" in text, text
    assert seconds < 20


def test_ranks_that_say_they_are_on_two_hosts_move_tensors_over_tcp(by_hand):
    program = PROLOGUE + """
assert hvd.cross_size() == 2 and hvd.local_size() == 1 and not hvd.mpi_enabled()
mine = np.arange(100000, dtype=np.float32) + rank
assert (hvd.allreduce(mine, hvd.Sum) == 2 * np.arange(100000) + 1).all()
assert (hvd.alltoall(np.arange(2) + 10 * rank) == 10 * np.arange(2) + rank).all()
"""
    started = [by_hand.start(program, rank, 2, {"HOROVOD_HOSTNAME": f"host{rank}"})
               for rank in range(2)]
    for process in started:
        output = process.communicate(timeout=120)[0]
        assert process.returncode == 0, output


def test_a_rank_that_does_not_come_is_named(by_hand):
    limit = {"HOROVOD_START_TIMEOUT": "6"}
    # Python may start one much later than the other.
    meet = ORDER + f"""
import horovod_cpp
os.chdir({str(by_hand.folder)!r})
pathlib.Path(os.environ["RANK"]).touch()
wait_for("0", "1")
"""
    started = [by_hand.start(meet + INIT, rank, 3, limit) for rank in (0, 1)]
    for process in started:
        text, seconds = refusal(process)
        assert "StalledError" in text and "rank(s) 2 did not connect" in text, text
        assert seconds < 20


def test_without_a_place_the_error_says_how_to_name_one(by_hand):
    text, _ = refusal(by_hand.start(INIT, 0, 2, clear=["MASTER_ADDR"]))
    assert "UnsupportedError" in text and "HVD_RENDEZVOUS" in text and "hvdrun" in text


def test_mpi_can_be_insisted_on(by_hand):
    """By all ranks, which meet before they refuse: one of them is told in test_agreement.py."""
    insists = {"HOROVOD_CONTROLLER": "mpi"}
    for process in [by_hand.start(INIT, rank, 2, insists) for rank in (0, 1)]:
        text, _ = refusal(process)
        assert "UnsupportedError" in text and "HOROVOD_CONTROLLER=mpi" in text
    text, _ = refusal(by_hand.start(INIT, 0, 2, insists, clear=["MASTER_ADDR"]))
    assert "UnsupportedError" in text and "HOROVOD_CONTROLLER=mpi" in text


SURVIVOR = """
import json, os, sys, time
import numpy as np
import horovod_cpp as hvd
hvd.init()
print("up", flush=True)
try:
    while True:
        hvd.allreduce(np.ones(100000, np.float32), name="gradient")
except hvd.HorovodInternalError as error:
    print(json.dumps({"error": type(error).__name__, "text": str(error),
                      "at": time.monotonic()}))
"""


@pytest.mark.parametrize("victim", [0, 2])
def test_every_survivor_learns_of_a_killed_rank_and_nothing_is_left(by_hand, victim):
    before = set(os.listdir("/dev/shm"))
    started = [by_hand.start(SURVIVOR, rank, 4) for rank in range(4)]
    for process in started:
        assert process.stdout.readline() == "up\n"
    time.sleep(0.5)
    started[victim].send_signal(signal.SIGKILL)
    killed = time.monotonic()  # of all processes
    for rank in set(range(4)) - {victim}:
        output = started[rank].communicate(timeout=60)[0]
        told = json.loads(output.splitlines()[-1])
        assert told["error"] in ("PeerLostError", "AbortedError"), told
        assert f"rank {victim}" in told["text"], told
        assert told["at"] - killed < 30, told
    assert not {name for name in set(os.listdir("/dev/shm")) - before if "hvd" in name}


def test_hvdrun_reports_the_killed_rank(ranks):
    # hvdrun stops survivors after 3 s; these get some more to say what they know.
    patient = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    program = patient + SURVIVOR.replace('print("up"', 'print("up", os.getpid()')
    job = ranks.start(["-c", program], 4, environment=NO_MPIRUN)
    pids = {}
    while len(pids) < 4:
        rank, _, pid = job.stdout.readline().split()
        pids[rank] = int(pid)
    os.kill(pids["[3]"], signal.SIGKILL)
    killed = time.monotonic()
    output, _ = job.communicate(timeout=60)
    assert time.monotonic() - killed < 30
    assert job.returncode == 137, output
    assert "rank 3 of 4 failed first" in output and "SIGKILL" in output
    assert output.count('"error"') == 3, output
