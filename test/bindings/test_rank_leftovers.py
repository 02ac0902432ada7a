"""What ranks leave behind: processes of sessions of their own, and pickles that break here."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import cloudpickle
import pytest
from waiting import wait_for

import horovod_cpp as hvd

HVDRUN = 3  # processes that run the ranks: hvdrun, and its agent, which are two

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks cannot import this file


@pytest.fixture
def cluster(marked_processes):
    with hvd.Cluster(np=2) as cluster:
        yield cluster
    assert marked_processes() == []


def start_daemons():
    """In a session of its own; and one whose parent has ended, so that it is nobody's child."""
    own = subprocess.Popen(["sleep", "600"], start_new_session=True)
    orphan = subprocess.run(["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout.strip()
    for process in (own.pid, orphan):
        while not is_marked_sleep(process):
            time.sleep(0.001)


def is_marked_sleep(process):
    """Within execve() it is not: what kills the marked would not find it."""
    command, environment = (pathlib.Path(f"/proc/{process}/{name}").read_bytes()
                            for name in ("cmdline", "environ"))
    return command.startswith(b"sleep") and b"HVD_RANK_MARK=" in environment


@pytest.mark.parametrize("end", ["returns", "raises", "is killed"])
def test_sessions_that_a_rank_of_run_started_end_with_it(marked_processes, end):
    def work():
        start_daemons()
        if end == "raises":
            raise KeyError("lost")
        if end == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)

    with contextlib.nullcontext() if end == "returns" else pytest.raises(hvd.RankError):
        hvd.run(work, np=2)
    wait_for(marked_processes, [])


def test_sessions_live_as_long_as_their_rank_and_no_longer(marked_processes):
    with hvd.Cluster(np=2) as cluster:
        cluster.run(start_daemons)
        cluster.run(hvd.rank)
        wait_for(lambda: len(marked_processes()), HVDRUN + 2 * 3)
        with pytest.raises(hvd.RankError, match="rank 1 was killed by SIGKILL"):
            cluster.run(lambda: os.kill(os.getpid(), signal.SIGKILL), ranks=1)
        cluster.run(hvd.rank)
        wait_for(lambda: len(marked_processes()), HVDRUN + 1 * 3 + 1)
    wait_for(marked_processes, [])


def test_the_end_of_a_rank_does_not_wait_for_what_it_left_writing():
    def work():
        subprocess.Popen("for i in $(seq 300); do echo here; sleep 0.2; done", shell=True,
                         start_new_session=True,
                         env={name: value for name, value in os.environ.items()
                              if name != "HVD_RANK_MARK"})
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)

    start = time.monotonic()
    with pytest.raises(hvd.RankError, match="rank 0 was killed by SIGKILL"):
        hvd.run(work, np=1)
    assert time.monotonic() - start < 30


def test_ranks_end_with_close_while_a_fork_of_the_caller_lives(marked_processes):
    with hvd.Cluster(np=1) as cluster:
        child = os.fork()
        if child == 0:
            signal.pause()
        start = time.monotonic()
        cluster.close()
        seconds = time.monotonic() - start
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert seconds < 4
    wait_for(marked_processes, [])


def test_sessions_end_with_a_caller_that_is_killed(tmp_path, marked_processes):
    program = tmp_path / "program.py"
    program.write_text("""
import subprocess, time, horovod_cpp as hvd
def start():
    subprocess.Popen(["sleep", "600"], start_new_session=True)
with hvd.Cluster(np=2) as cluster:
    cluster.run(start)
    print("ready", flush=True)
    time.sleep(600)
""")
    caller = subprocess.Popen([sys.executable, program], cwd=tmp_path, stdout=subprocess.PIPE)
    assert caller.stdout.readline() == b"ready\n"
    wait_for(lambda: len(marked_processes()), HVDRUN + 5)
    caller.kill()
    caller.communicate()
    wait_for(marked_processes, [])


class BreaksHere:
    """Can be pickled, and its pickle cannot be read."""

    def __reduce__(self):
        return int, ("no number",)


class BreaksThere(Exception):
    def __reduce__(self):
        raise ValueError("this one does not travel")


def test_a_result_that_cannot_be_unpickled_here_is_an_error_with_the_rank(cluster):
    cluster.push({"kept": 1})
    with pytest.raises(hvd.RankError, match="what rank 1 returned cannot be unpickled here: "
                                            "ValueError: invalid literal") as caught:
        cluster.run(lambda: BreaksHere() if hvd.rank() == 1 else 0)
    assert caught.value.rank == 1 and isinstance(caught.value.__cause__, ValueError)
    cluster.run(exec, ["import horovod_cpp as hvd", {}])
    assert cluster.pull("kept") == [1, 1]
    with pytest.raises(hvd.RankError, match="what rank 0 returned"):
        hvd.run(BreaksHere, np=1)


def test_what_does_not_travel_is_an_error_of_its_rank(cluster):
    with pytest.raises(hvd.RankError, match="rank [01] raised ValueError: this one does not travel"):
        cluster.run(BreaksThere)

    def fail():
        raise BreaksThere("words")

    with pytest.raises(hvd.RankError, match="raised BreaksThere: words") as caught:
        cluster.run(fail)
    assert caught.value.__cause__ is None
    assert cluster.run(hvd.rank) == [0, 1]


def write_into_every_connection(data):
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as connection:
            if connection.family == socket.AF_UNIX:
                connection.send(data)


# The last one is eight bytes that are a length in an older version, and then too little.
@pytest.mark.parametrize("data", [b"\xff" * 64, b"HVD2\x08" + bytes(7) + b"no pickle"[:8],
                                  bytes(3) + b"\x20" + bytes(4) + b"nonsense"])
def test_a_rank_that_sends_nonsense_is_named_and_replaced(cluster, data):
    with pytest.raises(hvd.RankError, match="rank 1 sent a malformed message"):
        cluster.run(write_into_every_connection, [data], ranks=1)
    assert cluster.run(hvd.rank) == [0, 1]


def test_files_in_shared_memory_are_left_alone_when_a_rank_ends(cluster):
    """Whoever may write there can guess the name that a rank's memory might have had."""
    processes = cluster.run(os.getpid)
    foreign = [pathlib.Path(f"/dev/shm/hvd-{process}-0-1") for process in processes]
    for path in foreign:
        path.touch()
    try:
        with pytest.raises(hvd.RankError, match="rank 1 exited with code 1"):
            cluster.run(os._exit, [1], ranks=1, timeout=60)
        assert cluster.run(hvd.rank, timeout=60) == [0, 1]
        assert all(path.exists() for path in foreign)
    finally:
        for path in foreign:
            path.unlink(missing_ok=True)
