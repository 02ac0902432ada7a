"""hvd.Cluster and %hvd over two hosts: network namespaces of this machine, with names and /dev/shm of
their own. As root. Ranks are started by hvdrun's agents; a command takes the place of ssh, except in
the test with sshd."""

import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from hosts import Hosts
from waiting import wait_for

PROGRAM = """
import os, signal, socket, subprocess, sys, threading, time
import horovod_cpp as hvd
from horovod_cpp.cluster import pool

name, launcher = sys.argv[1:3]
hosts = f"{name}-a:1,{name}-b:1"

def total():
    return hvd.allreduce(hvd.tensor([hvd.rank() + 1]), hvd.Sum).item()

def sleep():
    print("ready", flush=True)
    time.sleep(600)

def leave_a_daemon():
    subprocess.Popen(["sleep", "600"], start_new_session=True)

def expect(error, words, function, **options):
    try:
        cluster.run(function, **options)
    except error as caught:
        assert words in str(caught), caught
        return caught
    raise AssertionError(f"no {error.__name__}")

cluster = hvd.Cluster(hosts=hosts, launcher=launcher or None, env={"CHOSEN": "a choice"})
"""


class TwoHosts:
    """Runs programs with a cluster on the first of two hosts."""

    def __init__(self, hosts, folder):
        self.hosts, self._folder = hosts, folder
        agent = folder / "agent"
        agent.write_text('#!/bin/bash\nhost=$1; shift\n'
                         f'exec {shlex.join(hosts.command("on"))} "${{host##*-}}" "$@"\n')
        agent.chmod(0o755)
        self.launcher = f"exec:{agent}"

    def start(self, source, launcher=None, **variables):
        program = self._folder / "program.py"
        program.write_text(PROGRAM + source)
        return subprocess.Popen(
            self.hosts.command("on", "a", sys.executable, "-u", program, self.hosts.name,
                               self.launcher if launcher is None else launcher),
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self._folder,
            env={**os.environ, "HVD_LINK_TIMEOUT_SECONDS": "2", **variables})

    def run(self, source, **options):
        output, _ = self.start(source + "\nprint('all is well')\n", **options).communicate(
            timeout=120)
        assert "all is well" in output, output
        self.expect_nothing_left()
        return output

    def expect_nothing_left(self, hosts="ab"):
        wait_for(lambda: [self.hosts("processes", host) for host in hosts], [""] * len(hosts))


@pytest.fixture(scope="module")
def made_hosts():
    with Hosts(2) as hosts:
        yield hosts


@pytest.fixture
def two_hosts(made_hosts, tmp_path):
    return TwoHosts(made_hosts, tmp_path)


def wait_until_ready(process):
    ready = 0
    while ready < 2:
        line = process.stdout.readline()
        assert line, "the program ended before its ranks were ready"
        ready += "ready" in line


def test_calls_namespaces_output_and_restart_on_two_hosts(two_hosts):
    output = two_hosts.run("""
import contextlib, io
def place():
    global kept
    kept = hvd.rank()
    return socket.gethostname(), hvd.local_rank(), os.environ["CHOSEN"], total()
assert cluster.run(place) == [(f"{name}-a", 0, "a choice", 3), (f"{name}-b", 0, "a choice", 3)]
assert cluster.pull("kept") == [0, 1]
cluster.push({"kept": 7}, ranks=1)
assert cluster.run(lambda: kept) == [0, 7]
with contextlib.redirect_stdout(io.StringIO()) as out:
    for number in range(20):  # what a call prints is here when it returns
        cluster.run(lambda number: print("number", number), args=(number,))
        assert out.getvalue().count(f"number {number}\\n") == 2, out.getvalue()
    cluster.run(lambda: [print("line", number) for number in range(20_000)])
assert out.getvalue().count("line") == 40_000
assert cluster.run(len, args=(bytes(20_000_000),)) == [20_000_000] * 2
first, second = cluster.status()
assert (first.host, second.host) == (f"{name}-a", f"{name}-b") and second.memory > 0
assert [second.process] == cluster.run(os.getpid, ranks=1) and second.state == "idle"
cluster.restart()
expect(hvd.RankError, "'kept' is not defined", lambda: kept)
assert cluster.run(total) == [3, 3]
""")
    assert "Warning" not in output, output


@pytest.mark.parametrize("die, words", [
    ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL on host"),
    pytest.param("os._exit(3)", "exited with code 3 on host", marks=pytest.mark.full),
    ("raise ValueError('wrong')", "raised ValueError: wrong")])
def test_a_rank_that_fails_on_another_host_is_named_and_replaced(two_hosts, die, words):
    two_hosts.run(f"""
def work():
    leave_a_daemon()
    if hvd.rank() == 1:
        {die}
    hvd.barrier()

before = cluster.run(os.getpid)
begun = time.monotonic()
error = expect(hvd.RankError, {words!r}, work)
assert error.rank == 1 and time.monotonic() - begun < 20
assert cluster.run(total) == [3, 3]
assert cluster.run(os.getpid)[0] == before[0]
""")


def test_a_call_that_takes_too_long_is_interrupted_or_killed_on_all_hosts(two_hosts):
    two_hosts.run("""
before = cluster.run(os.getpid)
expect(TimeoutError, "rank 1 was at", lambda: time.sleep(600), timeout=0.5)
assert cluster.run(os.getpid) == before
cluster.run(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]), ranks=1)
expect(TimeoutError, "was killed: rank 1", lambda: time.sleep(600), ranks=1, timeout=0.5)
assert cluster.run(total) == [3, 3]
""")


def test_ctrl_c_interrupts_the_ranks_of_all_hosts_and_the_cluster_goes_on(two_hosts):
    process = two_hosts.start("""
pool._GRACE = 30.0
before = cluster.run(os.getpid)
try:
    cluster.run(sleep)
except KeyboardInterrupt as interrupt:
    assert "rank 1 was at" in str(interrupt), interrupt
assert cluster.run(os.getpid) == before and cluster.run(total) == [3, 3]
print("all is well")
""")
    wait_until_ready(process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert "all is well" in output, (process.returncode, output)
    two_hosts.expect_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.full)])
def test_nothing_is_left_on_any_host_when_the_caller_is_killed(two_hosts, number):
    process = two_hosts.start("cluster.run(leave_a_daemon)\ncluster.run(sleep)")
    wait_until_ready(process)
    process.send_signal(number)
    process.communicate(timeout=60)
    two_hosts.expect_nothing_left()


def test_the_ranks_are_replaced_when_hvdrun_is_killed(two_hosts):
    two_hosts.run("""
cluster.run(leave_a_daemon)
cluster._pool._relay._process.kill()
cluster._pool._relay._process.wait()
while all(rank.process for rank in cluster.status()):
    time.sleep(0.01)
assert cluster.run(total) == [3, 3]
""")


def test_run_calls_a_function_once_on_two_hosts(two_hosts):
    two_hosts.run("""
cluster.close()
def work():
    hvd.init()
    return hvd.rank(), socket.gethostname(), total()
assert hvd.run(work, hosts=hosts, launcher=launcher) == [(0, f"{name}-a", 3), (1, f"{name}-b", 3)]
""")


def test_hosts_that_cannot_be_reached_are_named(two_hosts):
    two_hosts.run("""
cluster.close()
for wrong, how in ((f"{name}-a:1,nowhere:1", None), (f"{name}-a:1,nowhere:1", "exec:false")):
    begun = time.monotonic()
    try:
        hvd.Cluster(hosts=wrong, launcher=how)
    except hvd.RankError as error:
        assert "could not be started" in str(error) and "host nowhere: " in str(error), error
    else:
        raise AssertionError("it started")
    assert time.monotonic() - begun < 20
""")


def test_the_magic_starts_ranks_on_hosts_and_shows_where_they_are(two_hosts):
    output = two_hosts.run("""
cluster.close()
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.run_line_magic("load_ext", "horovod_cpp")
shell.run_line_magic("hvd", f"start --hosts {hosts} --launcher '{launcher}'")
shell.run_cell_magic("hvd", "", "print('on', hvd.size(), 'ranks')")
shell.run_line_magic("hvd", "status")
shell.run_line_magic("hvd", "stop")
""")
    name = two_hosts.hosts.name
    assert f"started 2 ranks on {name}-a:1,{name}-b:1" in output
    assert f"MiB  {name}-b" in output, output


@pytest.mark.full
def test_ssh_starts_ranks_on_another_host(two_hosts, tmp_path):
    two_hosts.hosts("sshd", "b")
    ssh = tmp_path / "ssh"
    config = f"/tmp/hvd-hosts-{two_hosts.hosts.name}/ssh_config"
    ssh.write_text(f'#!/bin/bash\nexec /usr/bin/ssh -F {config} "$@"\n')
    ssh.chmod(0o755)
    process = two_hosts.start("assert cluster.run(total) == [3, 3]\ncluster.close()\n"
                              "print('all is well')", launcher="",
                              PATH=f"{tmp_path}:{os.environ['PATH']}")
    output, _ = process.communicate(timeout=60)
    assert "all is well" in output, output


@pytest.mark.parametrize("fault", [pytest.param("power-off", marks=pytest.mark.full), "freeze"])
def test_a_host_without_power_or_frozen_is_named_and_close_does_not_wait_for_it(tmp_path, fault):
    with Hosts(2) as hosts:
        two_hosts = TwoHosts(hosts, tmp_path)
        process = two_hosts.start("""
error = expect(hvd.RankError, f"rank 1 was lost on host {name}-b", sleep)
assert error.rank == 1
begun = time.monotonic()
cluster.close()
assert time.monotonic() - begun < 10
print("all is well")
""")
        wait_until_ready(process)
        begun = time.monotonic()
        hosts(fault, "b")
        output, _ = process.communicate(timeout=60)
        assert "all is well" in output, output
        assert time.monotonic() - begun < 30
        two_hosts.expect_nothing_left("a")
