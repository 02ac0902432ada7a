"""torchrun with two ranks on each of two hosts (network namespaces of this machine), whose agent
listens at MASTER_PORT: the engine's ranks meet through its store. As root."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch

# Debian's PyTorch 1.13 does not understand its own defaults on Python 3.11; 9 is no rank.
PLAIN_OUTPUT = ["--redirects", "9:1", "--tee", "9:1"] if torch.__version__ < "2" else []
TOOL = pathlib.Path(__file__).resolve().parents[1] / "support" / "hosts.sh"

PROGRAM = """
import torch.distributed as dist
import horovod_cpp.torch as hvd
for start in (hvd.init, hvd.init, lambda: dist.init_process_group("horovod_cpp")):
    try:
        start()
        print("met", hvd.rank(), hvd.size(), flush=True)
        hvd.shutdown()
    except hvd.UnsupportedError as error:
        print(error, flush=True)
"""


def test_torchruns_store_lets_the_ranks_of_two_hosts_meet(tmp_path):
    name = f"hvdt{os.getpid() % 10000:04}"
    made = subprocess.run(["bash", TOOL, "make", name, "2"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if made.returncode == 77:
        pytest.skip(made.stdout.strip())
    assert made.returncode == 0, made.stdout
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    try:
        started = [subprocess.Popen(
            ["bash", TOOL, "on", name, host, sys.executable, "-m", "torch.distributed.run",
             "--nnodes", "2", "--node_rank", str(node), "--nproc_per_node", "2", "--master_addr",
             f"{name}-a", "--master_port", "29511", *PLAIN_OUTPUT, program], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for node, host in enumerate("ab")]
        for process in started:
            output = process.communicate(timeout=120)[0]
            met = output.count("met ") + output.count(f"ranks on 2 hosts ({name}-a, {name}-b)")
            assert met == 6, output
    finally:
        subprocess.run(["bash", TOOL, "remove", name], check=True)
