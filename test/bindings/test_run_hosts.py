"""hvd.run on several hosts with MPI: two network namespaces of this machine, with names and /dev/shm of
their own. As root."""

import os
import shlex
import signal
import subprocess
import sys

import pytest
from hosts import Hosts
from waiting import wait_for

PROGRAM = """
import os, signal, socket, sys, time
import horovod_cpp as hvd

def work(base):
    import numpy as np

    hvd.init()
    print(f"hello from {hvd.rank()}", flush=True)
    total = hvd.allreduce(np.array([hvd.rank() + 1]), hvd.Sum).item()
    return base + hvd.rank(), socket.gethostname(), total, os.environ["CHOSEN"], hvd.tensor([1.0])

def fail():
    hvd.init()
    if hvd.rank() == 1:
        raise KeyError("lost on the way")
    hvd.barrier()

def die():
    hvd.init()
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    hvd.barrier()

def sleep():
    print("ready", flush=True)
    time.sleep(600)

name = sys.argv[1]
hosts = f"{name}-a:1,{name}-b:1"
"""

# Passes over the options that hvdrun gives ssh.
SSH = """#!/bin/bash
while [[ $1 == -* ]]; do [[ $1 == -o ]] && shift; shift; done
host=$1; shift
exec {command} "${{host##*-}}" bash -c "$*"
"""


@pytest.fixture
def two_hosts(tmp_path, marked_processes):
    """A function that runs the rest of a program on the first of two hosts."""
    program = tmp_path / "program.py"

    def start(source):
        program.write_text(PROGRAM + source)
        return subprocess.Popen(
            hosts.command("on", "a", sys.executable, "-u", program, hosts.name), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path,
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})

    with Hosts(2) as hosts:
        agent = tmp_path / "ssh"
        agent.write_text(SSH.format(command=shlex.join(hosts.command("on"))))
        agent.chmod(0o755)
        yield start
    wait_for(marked_processes, [])


def test_results_output_and_failures_come_from_other_hosts(two_hosts):
    output, _ = two_hosts("""
first, second = hvd.run(work, args=(5,), hosts=hosts, use_mpi=True, env={"CHOSEN": "yes"})
assert first[:4] == (5, f"{name}-a", 3, "yes"), first
assert second[:4] == (6, f"{name}-b", 3, "yes"), second
assert second[4].item() == 1.0
for function, words in ((fail, "rank 1 raised KeyError: 'lost on the way'"), (die, "rank 1 was killed by SIGKILL")):
    try:
        hvd.run(function, np=2, hosts=hosts.split(","), use_mpi=True)
    except hvd.RankError as error:
        assert error.rank == 1 and str(error).startswith(words), error
        print("as expected")
""").communicate(timeout=120)
    assert output.count("as expected") == 2, output
    assert "[0] hello from 0" in output and "[1] hello from 1" in output


def test_ctrl_c_stops_the_ranks_of_other_hosts(two_hosts):
    process = two_hosts("""
try:
    hvd.run(sleep, hosts=hosts, use_mpi=True)
except KeyboardInterrupt:
    print("interrupted")
""")
    ready = 0
    while ready < 2:
        line = process.stdout.readline()
        assert line, "the program ended before its ranks were ready"
        ready += "ready" in line
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert "interrupted" in output
