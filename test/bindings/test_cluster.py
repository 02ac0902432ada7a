"""hvd.Cluster: calls, namespaces, failures and replacement of workers."""

import contextlib
import ctypes
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import cloudpickle
import pytest
from waiting import wait_for

import horovod_cpp as hvd
from horovod_cpp.cluster.pool import _UNANSWERED, Pool

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks cannot import this file


@pytest.fixture
def cluster(marked_processes, patience):
    with hvd.Cluster(np=2) as cluster:
        yield cluster
    assert marked_processes() == []


def total_of_ranks():
    return hvd.allreduce(hvd.tensor([hvd.rank() + 1]), hvd.Sum).item()


def test_calls_go_to_the_same_processes_which_are_initialised(cluster):
    first = cluster.run(lambda base, *, step: (os.getpid(), base + step * hvd.rank()), args=(5,),
                        kwargs={"step": 10})
    assert [value for _, value in first] == [5, 15]
    assert cluster.run(os.getpid) == [process for process, _ in first]
    assert cluster.run(total_of_ranks) == [3, 3]
    assert os.getpid() not in cluster.run(os.getpid)


def test_init_may_be_called_again_and_the_job_be_left_by_functions(cluster):
    assert cluster.run(lambda: (hvd.init(), total_of_ranks())[1]) == [3, 3]
    cluster.run(hvd.shutdown)
    assert cluster.run(total_of_ranks) == [3, 3]


def test_globals_that_functions_set_stay_on_their_rank(cluster):
    def build():
        global kept_on_rank
        kept_on_rank = [hvd.rank()]

    cluster.run(build)
    assert "kept_on_rank" not in globals()
    assert cluster.run(lambda: kept_on_rank) == [[0], [1]]
    assert cluster.pull("kept_on_rank", ranks=1) == [[1]]
    cluster.push({"kept_on_rank": "pushed"}, ranks=[1])
    assert cluster.run(lambda: kept_on_rank) == [[0], "pushed"]
    with pytest.raises(hvd.RankError, match="'nowhere' is not defined"):
        cluster.pull("nowhere")


class Decorator(contextlib.ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Called:
    def __init__(self, function):
        self._function = function

    def __call__(self):
        return self._function()


@pytest.mark.parametrize("wrap", [Decorator(), functools.partial, Called])
def test_globals_of_a_function_stay_on_their_rank_whatever_it_is_in(cluster, wrap):
    @wrap
    def keep():
        global kept_below
        kept_below = hvd.rank()

    @wrap
    def kept():
        return kept_below

    cluster.run(keep)
    assert cluster.pull("kept_below") == [0, 1]
    assert cluster.run(kept) == [0, 1]


def test_some_ranks_answer_in_the_order_in_which_they_are_given(cluster):
    assert cluster.run(hvd.rank, ranks=[1, 0]) == [1, 0]
    assert cluster.run(hvd.rank, ranks=1) == [1]


@pytest.mark.parametrize("ranks", [2, -1, [], [0, 0], ["0"], True, 1.0, [[0]]])
def test_ranks_that_are_not_there_are_refused(cluster, ranks):
    with pytest.raises(hvd.InvalidArgumentError, match="from 0 to 1"):
        cluster.run(hvd.rank, ranks=ranks)


def test_output_has_the_rank_in_front(cluster, capfd):
    cluster.run(lambda: print(f"hello from {hvd.rank()}\nand again"))
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == ["[0] and again", "[0] hello from 0", "[1] and again",
                             "[1] hello from 1"]


def test_threads_take_turns(cluster):
    results = {}
    threads = [threading.Thread(target=lambda n=n: results.update(
        {n: cluster.run(lambda: (total_of_ranks(), n))})) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {n: [(3, n), (3, n)] for n in range(6)}


def test_a_mistake_leaves_the_job_as_it_is(cluster):
    cluster.run(lambda: hvd.add_process_set([1]) and None)
    with pytest.raises(hvd.RankError, match="ZeroDivisionError") as caught:
        cluster.run(lambda: 1 / 0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "worker.py" not in caught.value.traceback and "<lambda>" in caught.value.traceback
    assert cluster.run(hvd.process_set_ids) == [[0, 1], [0, 1]]


FAILING = """
import json
import failing_module
import horovod_cpp as hvd

def fail():
    raise ValueError("of a function")

def outer():
    def inner():
        raise ValueError("of a nested function")
    inner()

class Holder:
    def fail(self):
        raise ValueError("of a method")

calls = {
    "function": fail,
    "nested function": outer,
    "method": Holder().fail,
    "lambda": lambda: int("of a lambda"),
    "module": failing_module.fail,
}

if __name__ == "__main__":
    tracebacks = {}
    with hvd.Cluster(np=1) as cluster:
        for kind, call in calls.items():
            try:
                cluster.run(call)
            except hvd.RankError as error:
                tracebacks[kind] = error.traceback
    print(json.dumps(tracebacks))
"""


def test_an_error_names_file_and_line_and_shows_the_source(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(FAILING)
    module = tmp_path / "failing_module.py"
    module.write_text("def fail():\n    raise ValueError('of a module')\n")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    tracebacks = json.loads(done.stdout)
    assert len(tracebacks) == 5
    for kind, shown in tracebacks.items():
        file = module if kind == "module" else program
        number, line = next((number, line) for number, line in enumerate(file.read_text().splitlines(), 1)
                            if f"of a {kind}" in line)
        assert f'File "{file}", line {number}, in' in shown, shown
        assert line.removeprefix('    "lambda": ').strip(" ,") in shown, shown


def test_a_rank_that_raises_ends_the_call_of_the_others(cluster):
    def work():
        if hvd.rank() == 1:
            raise KeyError("lost on the way")
        hvd.allreduce(hvd.ones((1,)), name="never")

    processes = cluster.run(os.getpid)
    with pytest.raises(hvd.RankError, match="rank 1 raised KeyError") as caught:
        cluster.run(work)
    assert caught.value.rank == 1 and isinstance(caught.value.__cause__, KeyError)
    assert cluster.run(total_of_ranks) == [3, 3]
    assert cluster.run(os.getpid) == processes


@pytest.mark.parametrize("die, words", [
    (lambda: os.kill(os.getpid(), signal.SIGKILL), "rank 1 was killed by SIGKILL"),
    (lambda: os._exit(3), "rank 1 exited with code 3"),
    (lambda: ctypes.string_at(0), "rank 1 was killed by SIGSEGV"),
])
def test_a_rank_that_dies_is_named_and_replaced(cluster, die, words):
    def work():
        if hvd.rank() == 1:
            die()
        hvd.allreduce(hvd.ones((1,)), name="never")

    cluster.push({"kept": 7})
    before = cluster.run(os.getpid)
    with pytest.raises(hvd.RankError, match=words) as caught:
        cluster.run(work)
    assert caught.value.rank == 1 and "variables of rank 1 are lost" in str(caught.value)
    assert cluster.run(total_of_ranks) == [3, 3]
    after = cluster.run(os.getpid)
    assert after[0] == before[0] and after[1] != before[1]
    assert cluster.pull("kept", ranks=0) == [7]
    with pytest.raises(hvd.RankError, match="'kept' is not defined"):
        cluster.pull("kept", ranks=1)


def test_a_rank_that_dies_between_calls_is_replaced_with_a_warning(cluster):
    os.kill(cluster.run(os.getpid)[0], signal.SIGKILL)
    while cluster.status()[0].state == "idle":
        time.sleep(0.01)
    assert cluster.status()[0].state == "was killed by SIGKILL"
    with pytest.warns(RuntimeWarning, match="rank 0 of the cluster was killed by SIGKILL"):
        assert cluster.run(total_of_ranks) == [3, 3]


def test_a_call_that_takes_too_long_is_interrupted(cluster):
    processes = cluster.run(os.getpid)
    cluster.run(lambda: hvd.add_process_set([1]) and None)
    with pytest.raises(TimeoutError, match="longer than 0.5 s"):
        cluster.run(lambda: time.sleep(600), timeout=0.5)
    assert cluster.run(os.getpid) == processes
    assert cluster.run(hvd.process_set_ids) == [[0, 1], [0, 1]]  # nobody had used the job


def test_an_interrupt_that_comes_late_is_not_for_the_next_call(cluster):
    relay = cluster._pool.workers[0].relay
    at_once = relay.signal
    relay.signal = lambda *signal: threading.Timer(0.15, at_once, signal).start()
    with contextlib.suppress(TimeoutError):  # of a busy machine
        cluster.run(lambda: time.sleep(0.3), timeout=0.25)
    relay.signal = at_once
    cluster.run(lambda: time.sleep(0.3))


def test_a_rank_that_does_not_react_is_killed_within_two_seconds(monkeypatch):
    waits = []  # how long the call meant to wait at most: a busy machine makes that no longer

    def serve(self, done, deadline=None):
        if deadline is not None and not done():
            waits.append(deadline - time.monotonic())
        own_serve(self, done, deadline)

    own_serve = Pool.serve
    with hvd.Cluster(np=2) as cluster:
        cluster.run(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]), ranks=1)
        with monkeypatch.context() as patch, pytest.raises(
                TimeoutError, match="did not react to the interrupt and was killed: rank 1"):
            patch.setattr(Pool, "serve", serve)
            cluster.run(lambda: time.sleep(600), ranks=1, timeout=0.5)
        assert 0 < sum(waits) - _UNANSWERED <= 0.5 + 2  # a kill is answered at once
        assert cluster.run(total_of_ranks) == [3, 3]


PROGRAM = """
import gc, os, sys, threading, time
import horovod_cpp as hvd
from horovod_cpp.cluster import pool
pool._GRACE = 30.0  # of ranks that are interrupted, before they are killed

def work():
    print("ready", flush=True)
    time.sleep(600)

def quiet():
    try:
        print("ready", flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        return "enough"

def barrier_of_some():
    if hvd.rank() == 0:
        print("ready", flush=True)
        hvd.barrier()
    print("ready", flush=True)
    time.sleep(600)

cluster = hvd.Cluster(np=2)
"""

AFTER = """
print(cluster.run(lambda: hvd.allreduce(hvd.tensor([hvd.rank() + 1]), hvd.Sum).item()))
print("pids", cluster.run(os.getpid), flush=True)
"""


class Program:
    """A Python program with a cluster, whose ranks say "ready"."""

    def __init__(self, folder, source, **options):
        path = folder / "program.py"
        path.write_text(PROGRAM + source)
        # Without a buffer, which would keep lines behind "ready" from communicate().
        self.process = subprocess.Popen([sys.executable, "-u", path], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, bufsize=0, cwd=folder, **options)
        seen = []
        while b"".join(seen).count(b"ready") < 2:
            seen.append(self.process.stdout.readline())
            assert seen[-1], f"the program ended before its ranks were ready: {seen}"

    def finish(self):
        output, _ = self.process.communicate(timeout=60)
        return output.decode()


@pytest.mark.parametrize("work", ["work", "barrier_of_some"])
def test_ctrl_c_interrupts_the_ranks_and_the_cluster_goes_on(tmp_path, marked_processes, work):
    program = Program(tmp_path, f"""
before = cluster.run(os.getpid)
try:
    cluster.run({work})
except KeyboardInterrupt as interrupt:
    print(interrupt)
assert cluster.run(os.getpid) == before
{AFTER}""")
    program.process.send_signal(signal.SIGINT)
    lines = program.finish().splitlines()
    assert program.process.returncode == 0, lines
    assert any("rank 1 was at" in line and "program.py" in line for line in lines), lines
    assert "[3, 3]" in lines
    assert marked_processes() == []


def test_a_function_may_catch_ctrl_c_and_return(tmp_path):
    program = Program(tmp_path, "print(cluster.run(quiet))" + AFTER)
    program.process.send_signal(signal.SIGINT)
    lines = program.finish().splitlines()
    assert "['enough', 'enough']" in lines and "[3, 3]" in lines


def test_ctrl_c_that_does_not_end_the_wait_of_the_caller_interrupts_the_ranks_all_the_same(tmp_path):
    # As one does that comes just before the wait, or to another thread.
    program = Program(tmp_path, """
import signal
def send():
    sys.stdin.readline()
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=send).start()
print(cluster.run(quiet))""" + AFTER, stdin=subprocess.PIPE)
    time.sleep(0.2)  # until it waits
    program.process.stdin.write(b"\n")
    lines = program.finish().splitlines()
    assert "['enough', 'enough']" in lines and "[3, 3]" in lines


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ranks_and_what_they_started_end_with_a_caller_that_is_killed(tmp_path, marked_processes,
                                                                      number):
    source = """
def sleep_in_a_child():
    import subprocess
    child = subprocess.Popen(["sleep", "600"])
    print("ready", flush=True)
    child.wait()

cluster.run(sleep_in_a_child)
"""
    program = Program(tmp_path, source)
    # With hvdrun and its agent, which are two. Within execve() none has an environment.
    wait_for(lambda: len(marked_processes()), 5 + 3)
    program.process.send_signal(number)
    program.process.wait()
    wait_for(marked_processes, [])
    program.finish()


@pytest.mark.parametrize("end", ["", "del cluster; gc.collect(); time.sleep(600)",
                                 "cluster.close(); cluster.close(); time.sleep(600)"])
def test_ranks_end_with_the_program_the_object_and_close(tmp_path, marked_processes, end):
    source = 'cluster.run(lambda: print("ready", flush=True))\n' + end
    program = Program(tmp_path, source)
    wait_for(marked_processes, [program.process.pid] if end else [])
    program.process.kill()
    program.finish()


def test_a_forked_child_cannot_use_the_ranks_and_leaves_them_alone(tmp_path):
    program = Program(tmp_path, """
print("ready ready")
child = os.fork()
if child == 0:
    for call in (lambda: cluster.run(os.getpid), cluster.status, cluster.restart):
        try:
            call()
        except hvd.InvalidArgumentError as error:
            print("child:", error)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""" + AFTER)
    output = program.finish()
    assert output.count("child: this process is a fork") == 3 and "[3, 3]" in output


@pytest.mark.parametrize("after, words", [
    ("", "RankError"), ("sys.exit(7)", None), ("raise ValueError('mine')", "ValueError: mine")])
def test_a_signal_handler_may_close_the_cluster_in_a_call(tmp_path, marked_processes, after, words):
    program = Program(tmp_path, f"""
import signal
def on_signal(number, frame):
    try:
        cluster.run(os.getpid)
    except hvd.InvalidArgumentError as error:
        print("nested:", error)
    cluster.close()
    {after}
signal.signal(signal.SIGUSR1, on_signal)
try:
    cluster.run(work)
except Exception as error:
    print(f"{{type(error).__name__}}: {{error}}")
    print(cluster)
    sys.exit(7)
""")
    program.process.send_signal(signal.SIGUSR1)
    output = program.finish()
    assert program.process.returncode == 7, output
    assert "nested: this thread is in a call" in output
    assert words is None or (words in output and "2 ranks, closed" in output), output
    assert marked_processes() == []


def test_a_cluster_outlives_the_thread_that_made_it(marked_processes):
    made = []
    thread = threading.Thread(target=lambda: made.append(hvd.Cluster(np=2)))
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert made[0].run(total_of_ranks) == [3, 3]
    made.pop().close()
    assert marked_processes() == []


def test_close_ends_a_call_of_another_thread(cluster):
    raised = []

    def call():
        try:
            cluster.run(lambda: time.sleep(600))
        except hvd.RankError as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while cluster.status()[1].state != "busy":
        time.sleep(0.01)
    cluster.close()
    thread.join(60)
    assert len(raised) == 1
    with pytest.raises(hvd.InvalidArgumentError, match="closed"):
        cluster.run(print)


def test_a_signal_reaches_no_later_process_of_its_rank(cluster):
    first = cluster._pool.workers[0]
    with pytest.raises(hvd.RankError, match="rank 0 exited with code 3"):
        cluster.run(lambda: os._exit(3), ranks=0)
    processes = cluster.run(os.getpid)
    first.is_over = False  # as it was for another thread that is about to kill
    first.kill()
    assert [cluster.run(os.getpid) for _ in range(2)] == [processes] * 2


class LateChannel(socket.socket):
    """Of a process of rank 0 that has ended."""

    def receive_ready(self):
        yield "hello", 0, 0, 4711


def test_a_connection_of_an_ended_process_is_not_for_the_next_one(cluster):
    pool = cluster._pool
    before = pool.workers[0].channel
    channel = LateChannel()
    pool.on_channel(channel)
    pool._on_first_message(channel)
    assert channel.fileno() == -1 and pool.workers[0].channel is before


def test_restart_gives_new_processes_with_empty_namespaces(cluster):
    cluster.push({"kept": 1})
    before = cluster.run(os.getpid)
    cluster.restart()
    assert not set(before) & set(cluster.run(os.getpid))
    with pytest.raises(hvd.RankError, match="'kept' is not defined"):
        cluster.pull("kept")


def test_large_arguments_and_results_travel_while_ranks_print(cluster):
    import numpy as np

    data = np.arange(1 << 22)

    def work(data):
        for line in range(2000):
            print(line)
        return data + hvd.rank()

    zero, one = cluster.run(work, args=(data,))
    assert (zero == data).all() and (one == data + 1).all()


@pytest.mark.parametrize("wrong, error", [
    ({"np": "2"}, TypeError), ({"np": 0}, hvd.InvalidArgumentError),
    ({"executable": "/nonexistent"}, hvd.RankError), ({"start_timeout": "5"}, TypeError),
    ({"start_timeout": 0}, hvd.InvalidArgumentError), ({"env": {"A": 1}}, TypeError),
    ({"env": ["A=1"]}, TypeError), ({"env": {"A=B": "1"}}, hvd.InvalidArgumentError),
    ({"env": {"HOROVOD_START_TIMEOUT": "soon"}}, hvd.InvalidArgumentError),
])
def test_a_cluster_that_cannot_be_is_refused(marked_processes, wrong, error):
    with pytest.raises(error):
        hvd.Cluster(**wrong)
    assert marked_processes() == []


@pytest.mark.parametrize("timeout, error", [
    (0, hvd.InvalidArgumentError), (-1, hvd.InvalidArgumentError),
    (float("nan"), hvd.InvalidArgumentError), (float("inf"), hvd.InvalidArgumentError),
    ("1", TypeError)])
def test_a_time_limit_that_is_none_is_refused(cluster, timeout, error):
    with pytest.raises(error, match="timeout is"):
        cluster.run(hvd.rank, timeout=timeout)
    with pytest.raises(error, match="timeout is"):
        hvd.run(print, timeout=timeout)
    assert cluster.run(hvd.rank, timeout=1e9) == [0, 1]


def test_variables_without_a_name_are_refused(cluster):
    with pytest.raises(TypeError, match="5 is not a str"):
        cluster.push({5: "five"})


def test_a_rank_that_cannot_start_is_named_with_its_last_lines(tmp_path, marked_processes):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no such library >&2\nexit 4\n")
    program.chmod(0o755)
    with pytest.raises(hvd.RankError, match="exited with code 4 when it started(.|\n)*no such lib"):
        hvd.Cluster(np=2, executable=str(program))
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(hvd.RankError, match=r"ranks \[0, 1\] have not started within 0.5 s"):
        hvd.Cluster(np=2, executable=str(program), start_timeout=0.5)
    assert marked_processes() == []


def test_the_start_limit_is_for_processes_and_engines_together(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("""
import os, time
if os.environ.get("HOROVOD_RANK") == "1":
    import horovod_cpp._native
    horovod_cpp._native._init = lambda: time.sleep(600)
""")
    on_channel, start_engines, left = Pool.on_channel, Pool._start_engines, []

    def start_slowly(self, channel):
        time.sleep(0.5)
        on_channel(self, channel)

    def engines_in_half_a_second(self, seconds):
        left.append(seconds)
        start_engines(self, 0.5)

    monkeypatch.setattr(Pool, "on_channel", start_slowly)
    monkeypatch.setattr(Pool, "_start_engines", engines_in_half_a_second)
    with pytest.raises(hvd.RankError, match="could not join the others"):
        hvd.Cluster(np=2, start_timeout=60, env={"PYTHONPATH": str(tmp_path)})
    assert len(left) == 1 and left[0] <= 60 - 2 * 0.5


UNAUTHENTICATED_PEERS = """#!{python}
import os, socket, sys
address = os.environ["HVD_WORKER_ADDRESS"].partition(":")[2]

def answer(say):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect("\\0" + address)
    try:
        connection.sendall(say)
        return connection.recv(100)
    except (ConnectionResetError, BrokenPipeError):
        return b""

if os.environ["HOROVOD_RANK"] == "0":
    for _ in range(20):
        socket.socket(socket.AF_UNIX).connect("\\0" + address)  # and gone
    assert answer(b"x" * 64) == b""
    assert len(answer(b"HVDWIRE2" + bytes(32))) == 64  # which shows nothing, and is gone
    assert answer(b"HVDWIRE2" + bytes(64)) != b"admitted"
    assert answer(b"GET / HTTP/1.1\\r\\n" * 10) == b""
    if os.geteuid() == 0:
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            try:
                os._exit(0 if answer(b"HVDWIRE2" + bytes(32)) == b"" else 1)
            except OSError:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
os.execv("{python}", ["{python}", *sys.argv[1:]])
"""


def test_unauthenticated_peers_are_refused_and_do_not_disturb(tmp_path):
    program = tmp_path / "python"
    program.write_text(UNAUTHENTICATED_PEERS.format(python=sys.executable))
    program.chmod(0o755)
    with hvd.Cluster(np=2, executable=str(program)) as cluster:
        assert cluster.run(total_of_ranks) == [3, 3]


def flood():
    def write():
        while True:
            os.write(1, b"flood\n" * 100)

    threading.Thread(target=write, daemon=True).start()
    subprocess.Popen(["yes"])
    time.sleep(0.2)
    return "flooding"


@pytest.mark.full
def test_output_without_an_end_holds_up_no_call(cluster, monkeypatch, marked_processes):
    with open(os.devnull, "w", encoding="utf-8") as nowhere, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", nowhere)
        assert cluster.run(flood, timeout=30) == ["flooding"] * 2
        assert cluster.run(hvd.rank, timeout=30) == [0, 1]
        with pytest.raises(TimeoutError):
            cluster.run(lambda: time.sleep(600), timeout=0.5)
        assert [rank.state for rank in cluster.status()] == ["idle"] * 2
        cluster.close()
    wait_for(marked_processes, [])


def test_what_the_view_raises_arrives_and_leaves_a_usable_cluster(cluster, monkeypatch):
    class Gone:
        def write(self, text):
            raise BrokenPipeError("nobody reads")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Gone())
        with pytest.raises(BrokenPipeError, match="nobody reads"):
            cluster.run(lambda: print("line\n" * 1000))
    with pytest.warns(RuntimeWarning, match="was killed by SIGKILL"):
        assert cluster.run(total_of_ranks) == [3, 3]


def test_a_fork_that_returns_from_a_function_ends_alone(cluster):
    def fork():
        return "parent" if os.fork() else "child"

    for _ in range(5):
        assert cluster.run(fork) == ["parent"] * 2
    assert cluster.run(total_of_ranks) == [3, 3]


class Untold(Exception):
    def __str__(self):
        raise SystemExit("no text")

    def __reduce__(self):
        raise KeyboardInterrupt


def fail_without_a_text():
    raise Untold


def test_exceptions_that_cannot_be_described_are_named(cluster):
    processes = cluster.run(os.getpid)
    with pytest.raises(hvd.RankError, match="raised Untold: .its __str__ raised SystemExit"):
        cluster.run(fail_without_a_text)
    cluster.run(lambda: delattr(sys, "stdout"))
    assert cluster.run(os.getpid) == processes


def close_the_channel():
    import socket

    for name in os.listdir("/proc/self/fd"):
        try:
            peer = socket.socket(fileno=os.dup(int(name))).getpeername()
        except OSError:  # no socket, or one without another end
            continue
        if isinstance(peer, bytes) and peer.startswith(b"\0hvd-"):
            os.close(int(name))
    time.sleep(600)


@pytest.mark.parametrize("end", [close_the_channel, lambda: os.execvp("sleep", ["sleep", "600"])])
def test_a_rank_that_leaves_its_caller_is_not_said_to_be_killed(cluster, end):
    with pytest.raises(hvd.RankError, match="rank [01] closed its connection to the caller"):
        cluster.run(end, timeout=30)
    assert cluster.run(total_of_ranks) == [3, 3]


def test_ranks_do_not_pass_on_the_key(cluster):
    names = cluster.run(lambda: [name for name in os.environ if name.startswith("HVD_WORKER")])
    assert names == [[], []]
