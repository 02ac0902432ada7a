"""Training that is started by hand on several hosts, without MPI: the examples, and the bits of one host."""

import os
import pathlib
import secrets
import subprocess
import sys

import pytest
from hosts import Hosts
from ranks import hvdrun

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
WITHOUT_MPI = [sys.executable, ROOT / "test" / "support" / "without.py", "mpi", "--"]
PLACES = {
    "env": lambda hosts, folder: {"MASTER_ADDR": f"{hosts.name}-a", "MASTER_PORT": "29500"},
    "tcp": lambda hosts, folder: {"HVD_RENDEZVOUS": f"tcp://{hosts.name}-a:29400"},
    "file": lambda hosts, folder: {"HVD_RENDEZVOUS": f"file://{folder}/meeting"},
}
CIFAR = [EXAMPLES / "cifar_vgg11.py", "--synthetic", "--examples", "24", "--batch-size", "8", "--steps", "2", "--sync-bn",
         "--history", "", "--plot", "", "--checkpoint", "vgg.safetensors", "--save-per-rank"]
# Threads would add in another order where there are fewer cores.
SETTINGS = {"OMP_NUM_THREADS": "1", "HVD_RENDEZVOUS_KEY": secrets.token_hex(16), "HOROVOD_DETERMINISTIC": "1"}


@pytest.fixture(scope="module")
def hosts():
    with Hosts(4) as made:
        yield made


def train(hosts, folder, host_of, place, program):
    """Runs the program on a rank per letter of `host_of`; returns what the ranks print."""
    environment = {**os.environ, **SETTINGS, **PLACES[place](hosts, folder), "WORLD_SIZE": str(len(host_of))}
    ranks = [subprocess.Popen(hosts.command("on", host, *WITHOUT_MPI, sys.executable, *program), text=True,
                              cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**environment, "RANK": str(rank)}) for rank, host in enumerate(host_of)]
    outputs = [rank.communicate(timeout=240)[0] for rank in ranks]
    assert not any(rank.returncode for rank in ranks), outputs
    return outputs


def expect_equal_parameters(folder):
    saved = {(folder / f"vgg.rank{rank}.safetensors").read_bytes() for rank in range(4)}
    assert len(saved) == 1


@pytest.mark.parametrize("place", ["env", *(pytest.param(name, marks=pytest.mark.full) for name in ("tcp", "file"))])
def test_the_cifar_example_on_four_hosts_ends_with_equal_parameters(hosts, tmp_path, place):
    train(hosts, tmp_path, "abcd", place, CIFAR)
    expect_equal_parameters(tmp_path)


@pytest.mark.full
def test_the_cifar_example_that_ssh_starts_on_four_hosts_ends_with_equal_parameters(hosts, tmp_path):
    for letter in "bcd":
        hosts("sshd", letter)
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F /tmp/hvd-hosts-{hosts.name}/ssh_config "$@"\n')
    ssh.chmod(0o755)
    shares = ",".join(f"{hosts.name}-{letter}:1" for letter in hosts.letters)
    done = subprocess.run(
        hosts.command("on", "a", *WITHOUT_MPI, hvdrun(), "-np", 4, "-H", shares, sys.executable, *CIFAR), text=True,
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stdout
    expect_equal_parameters(tmp_path)


@pytest.mark.full
def test_two_hosts_learn_the_digits_with_the_bits_of_one(hosts, tmp_path):
    results = []
    for host_of in ("aaaa", "aabb"):
        folder = tmp_path / host_of
        folder.mkdir()
        outputs = train(hosts, folder, host_of, "tcp", [EXAMPLES / "train_digits.py", "--epochs", "2", "--log-json",
                                                        "losses.json"])
        assert "parameters equal on all ranks" in outputs[0]
        results.append([(folder / name).read_bytes() for name in ("digits.safetensors", "losses.json")])
    assert results[0] == results[1]


@pytest.mark.full
def test_the_scaling_table_has_a_row_for_each_way(tmp_path):
    done = subprocess.run(["bash", EXAMPLES / "scaling_table.sh", "--synthetic", "--examples", "16", "--batch-size", "8",
                           "--epochs", "1"], text=True, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=240, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert done.returncode == 0, done.stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    assert [row[0].split(" (")[0] for row in rows] == ["one process", "two threads", "two ranks on one host", "two hosts"]
    for _, epoch, batch, speed in rows:
        assert float(batch) == pytest.approx(float(epoch) * 1000 / 2, rel=0.05) and int(speed) > 0
