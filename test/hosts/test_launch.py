"""hvdrun starts agents on other hosts without mpirun."""

import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
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

        def run(host, *words):
            return subprocess.Popen(
                hosts.command("on", host, hvdrun(), *words), text=True, cwd=tmp_path,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={**os.environ, "HVD_LINK_TIMEOUT_SECONDS": "2"})

        def start(*words, launcher=("--launcher", f"exec:{agent}"), on=names):
            return run("a", "-np", len(on), *launcher, "-H", ",".join(on), *words)

        start.hosts, start.names, start.folder, start.run = hosts, names, tmp_path, run
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
    ids = [pid for host in "ab" for pid in job.hosts("processes", host).split()]
    lines = b"\n".join(pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ") for pid in ids)
    assert b"agent 1" in lines and b"not-for-ps" not in lines and b"tcp://" not in lines
    assert not re.search(rb"[0-9a-fA-F]{32}", lines), lines
    process.terminate()
    assert process.wait(timeout=30) == 128 + 15


def test_the_rank_that_failed_first_is_named_with_its_host(job):
    code, output = outcome(job("sh", "-c", "[ $RANK = 1 ] && exit 7; sleep 3600"))
    assert code == 7
    assert f"rank 1 of 2 failed first, on host {job.names[1]}: exit code 7" in output


@pytest.mark.parametrize("fault", ["power-off", "kill", "kill-one", "freeze"])
def test_a_host_that_is_gone_is_named_and_nothing_is_left(job, fault):
    # An agent is two processes: where one is left, it ends what has gone into a session of its own too.
    daemon = "[ $RANK = 0 ] || setsid sleep 3600 & " if fault == "kill-one" else ""
    process = job("sh", "-c", f"{daemon}echo ready; exec sleep 3600")
    for _ in range(2):
        assert "ready" in process.stdout.readline()
    started = time.monotonic()
    if fault.startswith("kill"):
        ids = job.hosts("processes", "b").split()
        agents = [pid for pid in ids if "\0agent\0" in open(f"/proc/{pid}/cmdline").read()]
        if daemon:
            agents = [pid for pid in agents if open(f"/proc/{pid}/stat").read().split()[3] in agents]
        assert agents
        for pid in agents:
            with contextlib.suppress(ProcessLookupError):  # it ends with the one before
                os.kill(int(pid), signal.SIGKILL)
    else:
        job.hosts(fault, "b")
    code, output = outcome(process)
    assert code in (1, 137), output  # 137: what started the agent is noticed first
    assert job.names[1] in output, output
    assert fault != "freeze" or "did not answer for" in output, output
    assert time.monotonic() - started < 20
    if fault == "freeze":
        job.hosts("thaw", "b")
    for host in "ab":
        wait_for(lambda: "sleep" in subprocess.run(
            ["ps", "-o", "args=", "-p", ",".join(job.hosts("processes", host).split()) or "1"],
            text=True, stdout=subprocess.PIPE, check=False).stdout.replace("sleep infinity", ""),
            False)


def test_a_host_whose_agent_does_not_start_is_named(job):
    code, output = outcome(job("true", launcher=("--launcher", "exec:sh -c 'echo no such luck >&2; exit 9'")))
    assert code == 9
    assert f"host {job.names[1]}: sh failed with exit code 9" in output
    assert f"[launcher {job.names[1]}] no such luck" in output


REFUSES = """
case $1 in
  *-b) echo "Host key verification failed." ;;
  *) sleep 0.5; echo "root@$1: Permission denied (publickey,password)." ;;
esac >&2
exit 255
"""


def test_each_of_several_hosts_that_fail_gets_its_advice(job):
    (job.folder / "refuses").write_text(REFUSES)
    code, output = outcome(job("true", launcher=("--launcher", "exec:sh refuses"), on=[*job.names, "10.213.77.9"]))
    assert code == 255
    for host, advice in ((job.names[1], f"'ssh {job.names[1]}' by hand"), ("10.213.77.9", "ssh-copy-id 10.213.77.9")):
        assert f"host {host}: sh failed with exit code 255" in output and advice in output, output


STOPPED = """
echo ready
while [ ! -e go ]; do sleep 0.1; done
echo done
"""


def test_nobody_is_taken_for_lost_while_hvdrun_was_stopped(job):
    process = job("sh", "-c", STOPPED)
    for _ in range(2):
        assert "ready" in process.stdout.readline()
    process.send_signal(signal.SIGTSTP)
    time.sleep(5)  # more than HVD_LINK_TIMEOUT_SECONDS
    process.send_signal(signal.SIGCONT)
    (job.folder / "go").touch()
    code, output = outcome(process)
    assert code == 0 and output.count("done") == 2, output


@pytest.mark.parametrize("numbered", [True, False])
def test_agents_that_were_started_by_hand_run_the_ranks(job, numbered):
    process = job("sh", "-c", "echo $RANK on $(hostname)",
                  launcher=("--launcher", "none", "--key-file", "key"))
    agents = []
    for host in "ab":
        where, _, line = process.stdout.readline().removeprefix("hvdrun: on ").partition(": ")
        assert where == f"{job.hosts.name}-{host}"
        words = shlex.split(line)[1:]
        if not numbered:
            del words[1]
        agents.append(job.run(host, *words))
    code, output = outcome(process)
    assert code == 0, output
    lines = sorted(output.splitlines())
    assert [line[:8] for line in lines] == ["[0] 0 on", "[1] 1 on"], output
    assert {line.split()[-1] for line in lines} == set(job.names), output
    assert [outcome(agent)[0] for agent in agents] == [0, 0]
    assert (job.folder / "key").stat().st_mode & 0o777 == 0o600


MEET = """
import horovod_cpp as hvd, numpy as np, os
hvd.init()
print(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_rank(), os.environ["MASTER_PORT"],
      hvd.allreduce(np.array([hvd.rank() + 1]), hvd.Sum).item())
"""


def test_each_machines_hvdrun_starts_its_share_with_torchruns_words(job):
    words = ["--nnodes", 2, "--nproc-per-node", 2, "--rdzv-endpoint", f"{job.names[0]}:29400",
             "--key-file", "key", sys.executable, "-c", MEET]
    (job.folder / "key").write_text("of-this-job-and-no-other\n")
    started = [job.run(host, "--node-rank", node, *words) for node, host in enumerate("ab")]
    for node, process in enumerate(started):
        code, output = outcome(process)
        assert code == 0, output
        assert sorted(output.splitlines()) == [
            f"[{rank}] {rank} 4 {rank % 2} {node} 29401 10" for rank in (2 * node, 2 * node + 1)]


LISTENS = """
import socket, time
listener = socket.create_server(("10.213.77.1", 20000))
print("ready", flush=True)
time.sleep(3600)
"""
TAKES_MASTER_PORT = """
import os, socket
if os.environ["RANK"] == "0":
    listener = socket.create_server(("", int(os.environ["MASTER_PORT"])))
"""


def test_ports_of_a_range_are_free_on_every_interface_and_are_not_hvdruns_own(job, monkeypatch):
    monkeypatch.setenv("HVD_PORT_RANGE", "20000-20006")
    other = subprocess.Popen(job.hosts.command("on", "a", sys.executable, "-c", LISTENS), stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"ready\n"
    code, output = outcome(job(sys.executable, "-c", TAKES_MASTER_PORT + MEET))
    assert code == 0, output
    assert {int(line.split()[-2]) for line in output.splitlines()} <= set(range(20002, 20007)), output
    other.kill()


@pytest.mark.full
def test_ssh_starts_agents_and_its_troubles_are_named(job, monkeypatch):
    hosts = job.hosts
    config = f"/tmp/hvd-hosts-{hosts.name}/ssh_config"
    wrapper = job.folder / "bin" / "ssh"
    wrapper.parent.mkdir()
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")

    def by_ssh(*words, program="echo $RANK on $(hostname)"):
        wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh {shlex.join(words)} "$@"\n')
        wrapper.chmod(0o755)
        return outcome(job("sh", "-c", program, launcher=()))

    code, output = by_ssh()
    assert code == 255 and "Connection refused" in output and job.names[1] in output
    hosts("sshd", "b")
    code, output = by_ssh("-F", config)
    assert code == 0 and f"[1] 1 on {job.names[1]}" in output, output
    code, output = by_ssh("-F", config, "-o", "UserKnownHostsFile=/dev/null")
    assert code == 255 and f"'ssh {job.names[1]}' by hand shows its key" in output, output
    code, output = by_ssh("-F", config, "-o", "PubkeyAuthentication=no")
    assert code == 255 and f"ssh-copy-id {job.names[1]}" in output, output
    code, output = by_ssh("-F", config, program="exit $((RANK * 7))")
    assert code == 7 and f"rank 1 of 2 failed first, on host {job.names[1]}" in output, output
    greeting = job.folder / "bashrc"  # which Debian's bash reads when sshd starts it
    greeting.write_text("echo welcome\n")
    hosts("on", "b", "mount", "--bind", greeting, pathlib.Path.home() / ".bashrc")
    code, output = by_ssh("-F", config)
    assert code == 0 and f"[launcher {job.names[1]}] welcome" in output, output
    assert f"[1] 1 on {job.names[1]}" in output, output
    wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} {job.names[1]} /nowhere/hvdrun\n')
    code, output = outcome(job("true", launcher=()))
    assert code == 127 and "hvdrun has to be at the same path" in output, output
    hosts("link", "b", "down")
    code, output = by_ssh("-F", config)
    assert code == 255 and f"host {job.names[1]}: ssh failed" in output, output
