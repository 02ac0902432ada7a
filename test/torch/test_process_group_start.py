"""init_process_group("horovod_cpp"): every way in which ranks are started, and mistakes there."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist
from ports import free_port

import horovod_cpp.torch as hvd
from horovod_cpp.cluster import wire
from horovod_cpp.cluster.listener import own_addresses
from horovod_cpp.store_meeting import meeting_through
from horovod_cpp.torch.distributed import groups, session

# What every program starts with; the arguments are those of init_process_group().
PROGRAM = """
import datetime
import sys
import torch
import torch.distributed as dist
import horovod_cpp.torch as hvd

def meet(*arguments, **options):
    dist.init_process_group("horovod_cpp", *arguments, **options)
    rank, size = dist.get_rank(), dist.get_world_size()
    assert (hvd.rank(), hvd.size()) == (rank, size)
    x = torch.tensor([float(rank)])
    dist.all_reduce(x)
    assert x.item() == sum(range(size))
    dist.new_group([0, size - 1])
    dist.barrier()  # PyTorch's store ends with rank 0
    dist.destroy_process_group()
    print(f"done {rank} of {size}\\n", end="", flush=True)

options = dict(timeout=datetime.timedelta(seconds=60))
"""

ENVIRONMENT = {name: value for name, value in os.environ.items()
               if name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}


@pytest.fixture
def program(tmp_path):
    """Writes a program and returns its path."""
    def write(text):
        path = tmp_path / f"program{len(list(tmp_path.glob('*.py')))}.py"
        path.write_text(PROGRAM + text)
        return path

    return write


@pytest.fixture
def by_hand(tmp_path):
    """Starts processes, each with words and variables of its own; gives (exit code, output)s."""
    def run(path, words, variables=(), timeout=150):
        variables = variables or [{}] * len(words)
        started = [subprocess.Popen([sys.executable, path, *map(str, own)], text=True, cwd=tmp_path,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    env={**ENVIRONMENT, **env})
                   for own, env in zip(words, variables)]
        try:
            texts = [process.communicate(timeout=timeout)[0] for process in started]
        finally:
            for process in started:
                process.kill()
        return [(process.returncode, text) for process, text in zip(started, texts)]

    return run


def all_done(outcomes):
    size = len(outcomes)
    for rank, (code, text) in enumerate(outcomes):
        assert code == 0 and f"done {rank} of {size}" in text, text
    return True


@pytest.mark.parametrize("url", [
    "tcp://localhost:{port}", pytest.param("file://{folder}/meeting", marks=pytest.mark.full)])
def test_ranks_that_were_started_by_hand_meet(program, by_hand, tmp_path, url):
    url = url.format(port=free_port(), folder=tmp_path)
    path = program("""
meet(init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2, **options)
""")
    assert all_done(by_hand(path, [(url, 0), (url, 1)]))


def test_ranks_meet_by_variables_twice_in_one_process(program, by_hand):
    path = program("""
meet(**options)
options["init_method"] = "env://"
import os
os.environ["MASTER_PORT"] = sys.argv[1]
meet(**options)
""")
    port, later = free_port(), free_port()
    variables = [{"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(port)} for rank in range(3)]
    assert all_done(by_hand(path, [(later,)] * 3, variables))


@pytest.mark.parametrize("flags", [
    pytest.param([], id="hvdrun"), pytest.param(["--mpi"], id="hvdrun-mpi", marks=pytest.mark.full)])
def test_a_script_for_torchrun_starts_unchanged_under_hvdrun(ranks, tmp_path, flags):
    path = tmp_path / "plain.py"
    path.write_text("""
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
assert (rank, size) == (int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
assert os.environ["GROUP_RANK"] == "0"
x = torch.tensor([rank + 1.0])
dist.all_reduce(x)
print("sum", x.item(), flush=True)
dist.barrier()
dist.destroy_process_group()
""")
    done = ranks.launch([path], 3, flags=flags)
    assert done.returncode == 0 and done.stdout.count("sum 6.0") == 3, done.stdout


def test_the_variables_of_a_launcher_are_enough(program, ranks, tmp_path):
    path = program(f"""
import os
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("HOROVOD_RANK")))
meet(init_method="file://{tmp_path}/meeting", rank=rank, world_size=2, **options)
""")
    done = ranks.launch([path], 2)
    assert done.returncode == 0 and done.stdout.count("done") == 2, done.stdout


def test_an_engine_that_runs_is_used_and_left_alone(program, ranks):
    path = program("""
hvd.init()
for _ in range(3):
    meet(init_method="hvd://", **options)
    assert hvd.is_initialized() and hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2
try:
    dist.init_process_group("horovod_cpp", init_method="hvd://", rank=hvd.rank(), world_size=5)
except ValueError as error:
    assert "5" in str(error) and "hvd.init()" in str(error), error
else:
    raise AssertionError("no error")
print("used")
""")
    done = ranks.launch([path], 2)
    assert done.returncode == 0 and done.stdout.count("used") == 2, done.stdout


# Debian's PyTorch 1.13 does not understand its own defaults on Python 3.11; 9 is no rank.
PLAIN_OUTPUT = ["--redirects", "9:1", "--tee", "9:1"] if torch.__version__ < "2" else []


def torchrun(path, *flags, **options):
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2",
         "--master_port", str(free_port()), *PLAIN_OUTPUT, *flags, str(path)], text=True,
        timeout=150, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT, **options)


def test_torchrun_starts_ranks_and_another_attempt(program, tmp_path):
    path = program("""
import os
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
print(f"attempt {attempt}\\n", end="", flush=True)
meet(**options)
meet(init_method="hvd://", **options)
hvd.init()
assert (hvd.rank(), hvd.size()) == (int(os.environ["RANK"]), 2)
if attempt == "0":
    if hvd.rank() == 1:
        os._exit(3)
    hvd.allreduce(torch.ones(1), name="never")
hvd.allreduce(torch.ones(1), name="now")
""")
    done = torchrun(path, "--max_restarts", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert all(done.stdout.count(f"done {rank} of 2") == 4 for rank in range(2)), done.stdout
    assert done.stdout.count("attempt 0") == done.stdout.count("attempt 1") == 2


@pytest.mark.full
def test_the_ranks_of_mp_spawn_meet(program, by_hand):
    path = program("""
import os
import torch.multiprocessing as mp

def work(rank, size, port, fails):
    dist.init_process_group("horovod_cpp", init_method=f"tcp://localhost:{port}", rank=rank,
                            world_size=size, **options)
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == size
    if not fails:
        return  # the end of the process says goodbye
    dist.destroy_process_group()
    if rank == 1:
        raise ValueError("a mistake on rank 1")

if __name__ == "__main__":
    mp.spawn(work, args=(2, int(sys.argv[1]), False), nprocs=2)
    try:
        mp.spawn(work, args=(2, int(sys.argv[2]), True), nprocs=2)
    except mp.ProcessRaisedException as error:
        assert "a mistake on rank 1" in str(error)
        print("spawned")
""")
    (code, text), = by_hand(path, [(free_port(), free_port())])
    assert code == 0 and "spawned" in text.splitlines(), text


def test_a_start_that_cannot_work_says_why(program, by_hand, tmp_path):
    path = program("""
import os
url, rank, size, seconds = sys.argv[1], *map(int, sys.argv[2:])
meet(init_method="file://" + os.path.abspath(url), rank=rank, world_size=size,
     timeout=datetime.timedelta(seconds=seconds))
""")
    outcomes = by_hand(path, [("sizes", 0, 2, 40), ("sizes", 1, 3, 40), ("alone", 0, 2, 2),
                              ("lost", 1, 2, 2)])
    assert all(code != 0 for code, _ in outcomes), outcomes
    texts = [text for _, text in outcomes]
    assert all("world of 3" in text for text in texts[:2]), texts  # both ranks say so
    assert "StalledError" in texts[2] and "rank(s) 1" in texts[2], texts[2]
    assert "StalledError" in texts[3] and "rank 0 did not come" in texts[3], texts[3]


@pytest.mark.full
def test_the_timeout_is_for_all_of_the_start_together(program, by_hand):
    path = program("""
import os
import time
from horovod_cpp.torch.distributed import session
meeting, limits = session._meeting, session._limits

def slow_meeting(*arguments):
    time.sleep(1)
    return meeting(*arguments)

def printed_limits(*arguments):
    found = limits(*arguments)
    print("left:", found["HOROVOD_START_TIMEOUT"], flush=True)
    return found

session._meeting, session._limits = slow_meeting, printed_limits
meet(init_method="file://" + os.path.abspath("meeting"), rank=int(sys.argv[1]), world_size=2,
     timeout=datetime.timedelta(seconds=50))
""")
    outcomes = by_hand(path, [(0,), (1,)])
    assert all_done(outcomes)
    for _, text in outcomes:
        assert float(re.search(r"^left: ([\d.]+)$", text, re.MULTILINE)[1]) <= 49, text


@pytest.mark.full
def test_a_file_of_an_earlier_run_is_an_error(program, by_hand):
    path = program("""
import os
dist.init_process_group("horovod_cpp", init_method="file://" + os.path.abspath("meeting"),
                        rank=int(sys.argv[1]), world_size=2, **options)
dist.barrier()
os._exit(0)  # so that PyTorch leaves its file
""")
    assert [code for code, _ in by_hand(path, [(0,), (1,)])] == [0, 0]
    for code, text in by_hand(path, [(0,), (1,)]):
        assert code != 0 and "an earlier run left" in text, text


def test_missing_variables_and_taken_ports_are_errors_of_pytorch(program, by_hand):
    path = program("meet(**options)\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        known = {"RANK": "0", "WORLD_SIZE": "2"}
        (_, missing), (_, taken) = by_hand(path, [(), ()], [
            known, {**known, "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(server.getsockname()[1])}])
    assert "MASTER_ADDR" in missing
    assert re.search("address already in use|EADDRINUSE", taken, re.I), taken


def test_a_launcher_that_says_another_rank_is_believed(program, ranks, tmp_path):
    path = program(f"""
meet(init_method="file://{tmp_path}/meeting", rank=0, world_size=1, **options)
""")
    done = ranks.launch([path], 2)
    assert done.returncode != 0 and "InvalidArgumentError" in done.stdout
    assert re.search(r"of 2, as .* says, but init_process_group\(\) was told", done.stdout)


NOTE = b"horovod_cpp rendezvous 2\nboot\nhvd-17-0a\n" + b"f0" * 16 + b"\n10.0.0.1:20000\n[fd00::1]:7\n"


def note_of(written):
    """What rank 1 gets as its file when this is in PyTorch's store for rank 0."""
    store = dist.HashStore()
    store.set("place", written)
    with meeting_through(store, "place", 1, time.monotonic() + 60) as url:
        file = pathlib.Path(url.removeprefix("file://"))
        assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
        found = file.read_bytes()
    assert not file.parent.exists()
    return found


def test_the_store_has_what_a_rendezvous_file_has_and_sets_nothing_else():
    """Whoever reaches the store may write to it: nothing in it becomes a variable."""
    before = dict(os.environ)
    assert note_of(NOTE) == NOTE
    assert dict(os.environ) == before


@pytest.mark.parametrize("note", [b"", b"text", NOTE[:-1], NOTE[:40], NOTE.replace(b"f0", b"x"),
                                  NOTE.replace(b" 2\n", b" 1\n"), NOTE + b"\n"])
def test_a_place_that_rank_0_does_not_write_is_refused(note):
    with pytest.raises(hvd.InvalidArgumentError, match="another program writes into it"):
        note_of(note)


def test_the_store_is_looked_for_at_each_address_of_rank_0():
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]
        assert session._reachable(["127.0.0.3", "127.0.0.2", "127.0.0.4"], port) == "127.0.0.2"
        with pytest.raises(hvd.PeerLostError, match="127.0.0.3: .*127.0.0.4: .*HOROVOD_GLOO_IFACE"):
            session._reachable(["127.0.0.3", "127.0.0.4"], port)


def test_addresses_are_those_of_the_chosen_interfaces(monkeypatch):
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", "nosuch0")
    with pytest.raises(hvd.UnsupportedError, match=r"nosuch0 \(HOROVOD_GLOO_IFACE\)"):
        own_addresses()
    for _, name in socket.if_nameindex():
        with contextlib.suppress(hvd.UnsupportedError):  # it has none
            monkeypatch.setenv("HOROVOD_GLOO_IFACE", name)
            assert own_addresses() == own_addresses([name])


def test_of_an_interface_with_several_addresses_the_first_counts(monkeypatch):
    monkeypatch.delenv("HOROVOD_GLOO_IFACE", raising=False)
    monkeypatch.setattr("horovod_cpp._native._local_addresses", lambda: [
        ("lo", "127.0.0.1"), ("eth0", "fd00::1"), ("eth0", "10.0.0.1"), ("eth0:1", "10.0.0.2"),
        ("ib0", "10.1.0.1"), ("ib0", "10.1.0.2")])
    assert own_addresses() == ["10.0.0.1", "10.1.0.1"]
    assert own_addresses(["eth0"]) == ["10.0.0.1"]


def test_the_meeting_of_groups_hears_ranks_only_and_ends_when_all_are_there(monkeypatch):
    monkeypatch.setattr("horovod_cpp._native.size", lambda: 2)
    hub = groups._Hub(b"k" * 32, ["127.0.0.1"])
    host, _, port = hub.address.removeprefix("tcp:").rpartition(":")
    peers = [socket.create_connection((host, int(port))) for _ in range(200)]
    ranks = [wire.connect(hub.address, b"k" * 32) for _ in range(2)]
    ranks[1].send(("mine", [0, 1]))
    assert [rank.receive() for rank in ranks] == [(1, "mine", [0, 1])] * 2
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    for rank in ranks:
        rank.send((None, None))
    for connection in (*peers, *ranks):
        connection.close()
