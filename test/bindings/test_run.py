"""hvd.run: results, output, failures and interrupts."""

import os
import signal
import subprocess
import sys
import time

import pytest

import horovod_cpp as hvd


def test_results_come_back_by_rank_with_arguments_and_closures():
    import numpy as np

    factor = 10

    def work(base, *, step):
        hvd.init()
        total = hvd.allreduce(np.array([hvd.rank() + 1]), hvd.Sum)
        return base + step * hvd.rank() * factor, total, hvd.tensor([hvd.rank()])

    results = hvd.run(work, args=(5,), kwargs={"step": 2}, np=2)
    assert [value for value, _, _ in results] == [5, 25]
    assert [total.tolist() for _, total, _ in results] == [[3], [3]]
    assert [tensor.item() for _, _, tensor in results] == [0, 1]


def test_output_is_relayed_with_the_rank_in_front(capsys):
    def work():
        hvd.init()
        print(f"hello from {hvd.rank()}")

    assert hvd.run(work, np=2) == [None, None]
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line for line in lines if "hello" in line) == [
        "[0] hello from 0", "[1] hello from 1"]


def test_an_exception_on_a_rank_arrives_with_rank_and_traceback(marked_processes):
    def work():
        hvd.init()
        if hvd.rank() == 1:
            raise KeyError("lost on the way")
        hvd.allreduce(hvd.ones((1,)), name="never")

    with pytest.raises(hvd.RankError) as caught:
        hvd.run(work, np=2)
    assert caught.value.rank == 1
    assert "in work" in caught.value.traceback and "lost on the way" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    assert marked_processes() == []


def test_a_rank_that_dies_is_named(marked_processes):
    def work():
        hvd.init()
        if hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(hvd.ones((1,)), name="never")

    with pytest.raises(hvd.RankError, match="rank 1 was killed by SIGKILL") as caught:
        hvd.run(work, np=2)
    assert caught.value.rank == 1
    assert marked_processes() == []


def test_a_result_that_cannot_be_pickled_is_that_ranks_error():
    import threading

    with pytest.raises(hvd.RankError, match="pickle"):
        hvd.run(lambda: threading.Lock(), np=1)


INTERRUPTED = """
import sys, time
import horovod_cpp as hvd

def work():
    hvd.init()
    print("ready", flush=True)
    time.sleep(600)

try:
    hvd.run(work, np=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""


def start_and_wait_until_ready(tmp_path):
    program = tmp_path / "interrupted.py"
    program.write_text(INTERRUPTED)
    process = subprocess.Popen([sys.executable, "-u", program], stdout=subprocess.PIPE, text=True,
                               cwd=tmp_path)
    ready = 0
    while ready < 2:
        line = process.stdout.readline()
        assert line, "the program ended before its ranks were ready"
        ready += "ready" in line
    return process


def wait_until_none(marked_processes, seconds):
    deadline = time.monotonic() + seconds
    while marked_processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked_processes() == []


def test_an_interrupt_stops_all_ranks_within_two_seconds(tmp_path, marked_processes):
    process = start_and_wait_until_ready(tmp_path)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 7 and "interrupted" in out
    wait_until_none(marked_processes, 2 - (time.monotonic() - start))


def test_ranks_end_when_the_caller_is_killed(tmp_path, marked_processes):
    process = start_and_wait_until_ready(tmp_path)
    process.kill()
    process.wait()
    wait_until_none(marked_processes, 10)


@pytest.mark.parametrize("wrong, error", [
    ({"fn": 3}, TypeError), ({"fn": print, "np": "2"}, TypeError),
    ({"fn": print, "np": 0}, hvd.InvalidArgumentError),
])
def test_wrong_arguments_are_refused(wrong, error):
    with pytest.raises(error):
        hvd.run(**wrong)


def test_a_run_within_a_rank_is_refused():
    with pytest.raises(hvd.RankError, match="on a rank of a running job"):
        hvd.run(lambda: hvd.run(print, np=1), np=1)
