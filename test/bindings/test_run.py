"""hvd.run: results, output, failures and interrupts."""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import cloudpickle
import pytest
from waiting import wait_for

import horovod_cpp as hvd

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks cannot import this file

UNPICKLABLE = threading.Lock()


def test_results_come_back_by_rank_with_arguments_closures_and_output(capsys):
    import numpy as np

    factor = 10

    def work(base, *, step):
        hvd.init()
        print(f"hello from {hvd.rank()}")
        total = hvd.allreduce(np.array([hvd.rank() + 1]), hvd.Sum)
        return base + step * hvd.rank() * factor, total, hvd.tensor([hvd.rank()])

    results = hvd.run(work, args=(5,), kwargs={"step": 2}, np=2)
    assert [value for value, _, _ in results] == [5, 25]
    assert [total.tolist() for _, total, _ in results] == [[3], [3]]
    assert [tensor.item() for _, _, tensor in results] == [0, 1]
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
    assert f"{hvd.RankError.__module__}.{hvd.RankError.__name__}" == "horovod_cpp.RankError"
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


def test_threads_and_exit_handlers_of_ranks_are_waited_for(tmp_path):
    def work():
        atexit.register((tmp_path / "left").touch)
        threading.Thread(target=lambda: (time.sleep(4), (tmp_path / "saved").touch())).start()

    hvd.run(work, np=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["left", "saved"]


def test_a_rank_that_is_killed_although_its_function_returned_is_a_warning(marked_processes):
    with pytest.warns(RuntimeWarning, match=r"ranks \[0\] were killed: threads"):
        hvd.run(lambda: threading.Thread(target=lambda: time.sleep(600)).start(), np=1, timeout=5)
    assert marked_processes() == []


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


def seconds_to_stop(tmp_path, marked_processes):
    process = start_and_wait_until_ready(tmp_path)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 7 and "interrupted" in out
    wait_for(marked_processes, [])
    return time.monotonic() - start


def test_an_interrupt_stops_all_ranks_within_two_seconds(tmp_path, marked_processes):
    tries = (seconds_to_stop(tmp_path, marked_processes) for _ in range(5))
    assert any(seconds < 2 for seconds in tries)  # a busy machine may be slower, but not always


def test_ranks_end_when_the_caller_is_killed(tmp_path, marked_processes):
    process = start_and_wait_until_ready(tmp_path)
    process.kill()
    process.wait()
    wait_for(marked_processes, [])


@pytest.mark.parametrize("wrong, error", [
    ({"fn": 3}, TypeError), ({"fn": print, "np": "2"}, TypeError),
    ({"fn": print, "np": 0}, hvd.InvalidArgumentError),
    ({"fn": print, "args": (UNPICKLABLE,), "np": 0}, hvd.InvalidArgumentError),
    ({"fn": print, "args": (UNPICKLABLE,), "timeout": "1"}, TypeError),
    ({"fn": print, "args": (UNPICKLABLE,), "env": {"A": 1}}, TypeError),
    ({"fn": print, "args": (UNPICKLABLE,), "env": {"A": "\ud800"}}, hvd.InvalidArgumentError),
])
def test_wrong_arguments_are_refused(wrong, error):
    with pytest.raises(error, match="np is|timeout is|env|hvd.run calls a function"):
        hvd.run(**wrong)


def test_a_run_within_a_rank_is_refused():
    with pytest.raises(hvd.RankError, match="on a rank of a running job"):
        hvd.run(lambda: hvd.run(print, np=1), np=1)


def rank_and_mpi():
    hvd.init()
    return hvd.rank(), hvd.size(), hvd.mpi_enabled(), os.environ.get("CHOSEN")


def run_rank_and_mpi(**options):
    return hvd.run(lambda: rank_and_mpi(), **options)


def test_ranks_are_as_many_as_the_slots_of_this_host():
    assert len(run_rank_and_mpi(hosts="localhost:3")) == 3
    assert len(run_rank_and_mpi(hosts=["localhost:3"], num_proc=2)) == 2


@pytest.mark.parametrize("line", ["localhost slots=3", "localhost:3"])
def test_a_hostfile_is_read(tmp_path, line):
    (tmp_path / "hosts").write_text(f"# ours\n{line}\n")
    assert len(run_rank_and_mpi(hostfile=tmp_path / "hosts")) == 3


@pytest.mark.parametrize("line", [
    "localhost slot=4", "localhost slots = 4", "localhost 4", "localhost slots=", "localhost:4 slots=2",
    "localhost slots=2 max_slots=1", "#"])
def test_a_hostfile_that_says_something_else_is_refused(tmp_path, line):
    (tmp_path / "hosts").write_text(line)
    with pytest.raises(hvd.InvalidArgumentError, match=f"hosts: '{line}': expected|names no host"):
        hvd.run(print, hostfile=tmp_path / "hosts")


def test_ranks_use_mpi_where_that_is_asked_for(monkeypatch):
    expected = [(0, 2, True, "yes"), (1, 2, True, "yes")]
    assert run_rank_and_mpi(use_mpi=True, env={"CHOSEN": "yes"}) == expected
    monkeypatch.setenv("HOROVOD_CONTROLLER", "mpi")
    assert run_rank_and_mpi(env={"CHOSEN": "yes"}) == expected
    with pytest.raises(hvd.UnsupportedError, match="use_mpi=True"):
        hvd.Cluster(np=2)


def make_mpirun(folder, script, monkeypatch):
    mpirun = folder / "mpirun"
    mpirun.write_text(f"#!/bin/sh\n{script}")
    mpirun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_mpirun_that_starts_nothing_is_given_up(tmp_path, monkeypatch, marked_processes):
    # What mpirun starts has a process group of its own, as its ssh has.
    make_mpirun(tmp_path, "exec bash -c 'set -m; sleep 1000 & wait'", monkeypatch)
    with pytest.raises(hvd.RankError, match="have not started within 0.3 s"):
        hvd.run(print, np=2, use_mpi=True, start_timeout=0.3)
    wait_for(marked_processes, [])


def test_the_last_lines_of_mpirun_are_shown(tmp_path, monkeypatch, marked_processes, capfd):
    make_mpirun(tmp_path, f"""{shutil.which("mpirun")} "$@" &
while [ ! -e {tmp_path}/running ]; do sleep 0.05; done
kill -9 $!
echo no more of it >&2
exit 3
""", monkeypatch)

    def work():
        (tmp_path / "running").touch()
        time.sleep(600)

    with pytest.raises(hvd.RankError, match="rank 0 was"):
        hvd.run(work, np=1, use_mpi=True)
    assert "no more of it" in capfd.readouterr().err
    wait_for(marked_processes, [])


def test_what_hosts_say_at_length_is_reported(tmp_path, marked_processes):
    (tmp_path / "start").write_text("#!/bin/sh\nyes 'go away' | head -c 60000 >&2\nexit 3\n")
    (tmp_path / "start").chmod(0o755)
    start = time.monotonic()
    with pytest.raises(hvd.RankError, match="could not be started(.|\n)*failed with exit code 3"):
        hvd.run(print, hosts="a.invalid:1,b.invalid:1",
                launcher=f"exec:{tmp_path / 'start'}")
    assert time.monotonic() - start < 4  # else hvdrun was killed
    wait_for(marked_processes, [])


def test_variables_do_not_move_a_rank():
    def work():
        hvd.init()
        return [os.environ[name] for name in ("RANK", "HOROVOD_RANK", "HVD_RANK_MARK", "CHOSEN")]

    names = ("RANK", "HOROVOD_RANK", "HVD_RANK_MARK", "HVD_RENDEZVOUS", "HVD_RENDEZVOUS_KEY",
             "CHOSEN")
    first, second = hvd.run(work, np=2, env=dict.fromkeys(names, "7"))
    assert (first[:2], second[:2]) == (["0", "0"], ["1", "1"])
    assert first[3] == second[3] == "7" and first[2] != second[2]


def test_ranks_start_without_standard_output(tmp_path):
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@" >&- 2>&-\n')
    program.chmod(0o755)
    assert hvd.run(lambda: print("nowhere"), np=1, executable=str(program)) == [None]


def test_output_is_kept_in_files_too(tmp_path, capfd):
    hvd.run(lambda: print("kept"), np=2, output_filename=tmp_path / "out")
    assert (tmp_path / "out" / "rank.1" / "stdout").read_text() == "kept\n"
    assert "[1] kept" in capfd.readouterr().out


@pytest.mark.parametrize("launcher", [{}, {"use_mpi": True}])
def test_a_call_that_takes_too_long_ends(launcher, marked_processes):
    start = time.monotonic()
    with pytest.raises(TimeoutError, match="longer than 0.5 s"):
        hvd.run(lambda: time.sleep(600), timeout=0.5, **launcher)
    assert time.monotonic() - start < 60
    wait_for(marked_processes, [])


def test_ranks_of_hvdrun_that_raise_or_die_are_named(marked_processes):
    def work(die):
        hvd.init()
        if hvd.rank() == 1 and die:
            os.kill(os.getpid(), signal.SIGKILL)
        if hvd.rank() == 1:
            raise KeyError("lost on the way")
        hvd.barrier()

    with pytest.raises(hvd.RankError, match="rank 1 raised KeyError") as caught:
        hvd.run(work, args=(False,), use_mpi=True)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(hvd.RankError, match="rank 1 was killed by SIGKILL"):
        hvd.run(work, args=(True,), use_mpi=True)
    with pytest.raises(hvd.RankError, match="rank [01] exited with code 1 when it started"):
        hvd.run(print, executable="/bin/false", use_mpi=True)
    wait_for(marked_processes, [])


@pytest.mark.parametrize("wrong, words", [
    ({"np": 3, "hosts": "localhost:2"}, "3, but the hosts have 2 slots"),
    ({"np": 2, "num_proc": 3}, "np is 2 and num_proc is 3"),
    ({"hosts": "a:x"}, "'a:x'"), ({"hosts": "a:²"}, "'a:²'"), ({"hosts": "a:"}, "'a:'"),
    ({"hosts": "a,a"}, "'a'"), ({"hosts": ":2"}, "':2'"),
    ({"hosts": "a", "hostfile": "b"}, "not both"),
    ({"hosts": "-oProxyCommand=x:2"}, "'-oProxyCommand=x:2'"),
    ({"network_interface": "lo", "network_interfaces": ["lo"]}, "not both"),
    ({"use_mpi": True, "use_gloo": True}, "not both"),
])
def test_options_that_contradict_each_other_are_refused(wrong, words):
    with pytest.raises(hvd.InvalidArgumentError, match=words):
        hvd.run(print, **wrong)


def test_the_arguments_of_horovods_run_are_known():
    assert hvd.run(hvd.is_initialized, np=1, disable_cache=True, network_interface="lo",
                   min_np=None) == [False]
    with pytest.raises(hvd.UnsupportedError, match="min_np, max_np asks for an elastic job"):
        hvd.run(print, np=2, min_np=1, max_np=4)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nmin_np'"):
        hvd.run(print, np=2, nmin_np=1)


def test_mpi_without_mpirun_is_unsupported(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(hvd.UnsupportedError, match="no mpirun"):
        hvd.run(print, hosts="somewhere-else:2", use_mpi=True)
