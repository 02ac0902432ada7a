"""torchrun with two ranks on each of two hosts (network namespaces of this machine), whose agent
listens at MASTER_PORT: the engine's ranks meet through its store. As root."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

# Debian's PyTorch 1.13 does not understand its own defaults on Python 3.11; 9 is no rank.
PLAIN_OUTPUT = ["--redirects", "9:1", "--tee", "9:1"] if torch.__version__ < "2" else []
TOOL = pathlib.Path(__file__).resolve().parents[1] / "support" / "hosts.sh"

# Trains on random rows in deterministic mode; the digits of the parameters are the same on all ranks.
PROGRAM = """
import hashlib
import torch
import torch.distributed as dist
import horovod_cpp.torch as hvd
for start in (hvd.init, hvd.init, lambda: dist.init_process_group("horovod_cpp")):
    start()
    rank, size = hvd.rank(), hvd.size()
    assert hvd.allreduce(torch.ones(100_000), op=hvd.Sum).tolist() == [float(size)] * 100_000
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    torch.manual_seed(rank)
    for step in range(5):
        optimizer.zero_grad()
        model(torch.randn(8, 20)).square().mean().backward()
        optimizer.step()
    bits = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"parameters {hashlib.sha256(bits).hexdigest()}", flush=True)
    hvd.shutdown()
"""


def torchrun(folder, name, ranks_of, *program, **variables):
    """What the ranks print, which end well. `ranks_of`: how many run on each host."""
    environment = {**os.environ, "HOROVOD_DETERMINISTIC": "1", "OMP_NUM_THREADS": "1", **variables}
    started = [subprocess.Popen(
        ["bash", TOOL, "on", name, host, sys.executable, "-m", "torch.distributed.run",
         "--nnodes", str(len(ranks_of)), "--node_rank", str(node), "--nproc_per_node", str(ranks_of[host]),
         "--master_addr", f"{name}-a", "--master_port", "29511", *PLAIN_OUTPUT, *program], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=folder)
        for node, host in enumerate(ranks_of)]
    outputs = [process.communicate(timeout=120)[0] for process in started]
    assert not any(process.returncode for process in started), outputs
    return "".join(outputs)


def parameters_of(folder, name, ranks_of):
    program = folder / "program.py"
    program.write_text(PROGRAM)
    output = torchrun(folder, name, ranks_of, program)
    parameters = re.findall(r"parameters (\w{64})", output)
    assert len(parameters) == 3 * sum(ranks_of.values()), output
    return set(parameters)


@pytest.fixture
def two_hosts():
    """Their name."""
    name = f"hvdt{os.getpid() % 10000:04}"
    made = subprocess.run(["bash", TOOL, "make", name, "2"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if made.returncode == 77:
        pytest.skip(made.stdout.strip())
    assert made.returncode == 0, made.stdout
    yield name
    subprocess.run(["bash", TOOL, "remove", name], check=True)


@pytest.mark.full
def test_training_over_two_hosts_by_torchruns_store_has_the_bits_of_one_host(two_hosts, tmp_path):
    together = parameters_of(tmp_path, two_hosts, {"a": 4})
    assert len(together) == 1
    assert parameters_of(tmp_path, two_hosts, {"a": 2, "b": 2}) == together


@pytest.mark.full
def test_the_cifar_example_on_two_hosts_ends_with_equal_parameters(two_hosts, tmp_path):
    """That in C++, which does not know torchrun's store."""
    torchrun(tmp_path, two_hosts, {"a": 1, "b": 1}, "--no_python", f"{os.environ['HVD_BUILD']}/examples/cifar_vgg11",
             "--synthetic", "--examples", "16", "--batch-size", "8", "--steps", "2", "--sync-bn", "--history", "",
             "--checkpoint", "vgg.safetensors", "--save-per-rank", HVD_RENDEZVOUS=f"tcp://{two_hosts}-a:29400")
    assert len({(tmp_path / f"vgg.rank{rank}.safetensors").read_bytes() for rank in range(2)}) == 1
