"""hvdrun starts agents on other hosts without mpirun."""

import os
import shlex
import subprocess
import time

import pytest
from hosts import Hosts
from ranks import hvdrun
from waiting import wait_for


@pytest.fixture
def job(tmp_path):
    """Starts hvdrun on the first of two hosts; agents by a command in place of ssh."""
    agent = tmp_path / "agent"
    with Hosts(2) as hosts:
        agent.write_text('#!/bin/bash\nhost=$1; shift\n'
                         f'exec {shlex.join(hosts.command("on"))} "${{host##*-}}" "$@"\n')
        agent.chmod(0o755)
        names = [f"{hosts.name}-a", f"{hosts.name}-b"]

        def start(*words, launcher=f"exec:{agent}", on=names):
            return subprocess.Popen(
                hosts.command("on", "a", hvdrun(), "-np", len(on), "--launcher", launcher, "-H",
                              ",".join(on), *words),
                text=True, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, env={**os.environ, "HVD_LINK_TIMEOUT_SECONDS": "2"})

        start.hosts, start.names, start.folder = hosts, names, tmp_path
        yield start


def outcome(process, text=None):
    output, _ = process.communicate(text, timeout=60)
    return process.returncode, output


SHOW = """
read line
for word in $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $HVD_MARK $line; do
  printf '%s ' $word; done
echo $(hostname) $PWD
"""


def test_ranks_of_two_hosts_get_their_place_their_folder_and_standard_input(job, monkeypatch):
    monkeypatch.setenv("HVD_MARK", "mark")
    code, output = outcome(job("sh", "-c", SHOW), "typed\n")
    assert code == 0, output
    first, second = sorted(output.splitlines())
    assert first.startswith(f"[0] 0 2 0 1 0 mark typed {job.names[0]} {job.folder}"), output
    assert second.startswith(f"[1] 1 2 0 1 1 mark {job.names[1]} {job.folder}"), output


def test_neither_the_keys_nor_the_variables_are_in_a_command_line(job, monkeypatch):
    monkeypatch.setenv("HVD_MARK", "not-for-ps")
    process = job("sh", "-c", "echo ready; sleep 3600")
    for _ in range(2):
        assert "ready" in process.stdout.readline()
    lines = subprocess.run(["ps", "-eo", "args"], text=True, stdout=subprocess.PIPE,
                           check=True).stdout
    assert "--agent 1" in lines and "not-for-ps" not in lines and "tcp://" not in lines
    process.terminate()
    assert process.wait(timeout=30) == 128 + 15


def test_the_rank_that_failed_first_is_named_with_its_host(job):
    code, output = outcome(job("sh", "-c", "[ $RANK = 1 ] && exit 7; sleep 3600"))
    assert code == 7
    assert f"rank 1 of 2 failed first, on host {job.names[1]}: exit code 7" in output


@pytest.mark.parametrize("fault", ["power-off", "kill"])
def test_a_host_that_is_gone_is_named_and_nothing_is_left(job, fault):
    process = job("sh", "-c", "echo ready; exec sleep 3600")
    for _ in range(2):
        assert "ready" in process.stdout.readline()
    started = time.monotonic()
    if fault == "kill":
        ids = job.hosts("processes", "b").split()
        agents = [pid for pid in ids if "--agent" in open(f"/proc/{pid}/cmdline").read()]
        subprocess.run(["kill", "-9", *agents], check=True)
    else:
        job.hosts(fault, "b")
    code, output = outcome(process)
    assert code in (1, 137), output  # 137: what started the agent is noticed first
    assert job.names[1] in output, output
    assert time.monotonic() - started < 20
    for host in "ab":
        wait_for(lambda: "sleep" in subprocess.run(
            ["ps", "-o", "args=", "-p", ",".join(job.hosts("processes", host).split()) or "1"],
            text=True, stdout=subprocess.PIPE, check=False).stdout.replace("sleep infinity", ""),
            False)


def test_a_host_whose_agent_does_not_start_is_named(job):
    code, output = outcome(job("true", launcher="exec:sh -c 'echo no such luck >&2; exit 9'"))
    assert code == 9
    assert f"host {job.names[1]}: sh failed with exit code 9" in output
    assert "[launcher] no such luck" in output
