"""Fixtures of the tests of Python's front ends of GPUs, which need none: see gpu_arrays.py."""

import os
import pathlib
import shutil

import pytest
from ranks import ByHand, Ranks

import horovod_cpp

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
MODULE = pathlib.Path(os.environ.get(
    "HVD_GPU_MODULE", REPOSITORY / "build/cuda/test/on_host/libhvd_nccl.so"))

PROLOGUE = """
import numpy as np
import pytest
import horovod_cpp as hvd
from gpu_arrays import (GpuArray, OldGpuArray, Received, module, own_device, results_stalled,
                        stalled, stream_log, waits_past_a_copy)
hvd.init()
rank, size = hvd.rank(), hvd.size()
device = f"cuda:{own_device()}"
"""

TORCH_PROLOGUE = """
import pytest
import torch
import horovod_cpp.torch as hvd
from gpu_tensors import gpu_tensor, GpuTensor, work_stream
from gpu_arrays import (module, own_device, results_stalled, stalled, stream_log,
                        waits_past_a_copy)
hvd.init()
rank, size = hvd.rank(), hvd.size()
"""


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """A folder with the installed package, and in it the module over host memory."""
    if not MODULE.exists():
        pytest.fail(f"no {MODULE}: cmake --build build/cuda --target hvd_nccl_on_host")
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(pathlib.Path(horovod_cpp.__file__).parent, folder / "horovod_cpp",
                    ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(MODULE, folder / "horovod_cpp")
    return folder


def gpu_environment(package, operations="host", devices=2, lazy=None):
    """Of ranks that see GPUs. `lazy`: the seed of an order of their work, else it is done at once."""
    paths = [package, pathlib.Path(__file__).resolve().parent, REPOSITORY / "test/support"]
    libraries = [MODULE.parent / "nccl", *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    environment = {"PYTHONPATH": os.pathsep.join(map(str, paths)),
                   "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
                   "HVD_GPU_OPERATIONS": operations, "HOST_CUDA_DEVICES": str(devices)}
    return environment if lazy is None else {**environment, "HOST_CUDA_LAZY": str(lazy)}


class GpuRanks(Ranks):
    """Ranks that see GPUs."""

    def __init__(self, folder, prologue, package):
        super().__init__(folder, prologue)
        self.package = package

    def environment(self, *gpus):
        return gpu_environment(self.package, *gpus)

    def check(self, source, np=2, operations="host", devices=2, lazy=None, environment=None,
              **options):
        gpus = self.environment(operations, devices, lazy)
        output = super().check(source, np, environment={**gpus, **(environment or {})}, **options)
        assert " on host: " not in output, output  # what CUDA or NCCL would not forgive
        return output


# What moves tensors, over how many GPUs, of how many ranks; and, in one case of each, late.
MACHINES = [
    {"operations": "host", "devices": 2, "np": 1},
    {"operations": "host", "devices": 2, "np": 2},
    {"operations": "nccl", "devices": 4, "np": 1},
    {"operations": "nccl", "devices": 2, "np": 2},
    {"operations": "nccl", "devices": 4, "np": 4, "lazy": 1},
    {"operations": "ipc", "devices": 1, "np": 1},
    {"operations": "ipc", "devices": 1, "np": 2},
    {"operations": "ipc", "devices": 2, "np": 4, "lazy": 2},
]


@pytest.fixture(params=MACHINES, ids=lambda machine: "-".join(map(str, machine.values())))
def machine(request):
    """How a test's program is run on a machine with GPUs."""
    return request.param


class GpuByHand(ByHand):
    """Ranks that see GPUs and that hvdrun does not end."""

    def __init__(self, folder, package):
        super().__init__(folder, port="0")
        self.package = package

    def start(self, source, rank, size, environment=None, **gpus):
        meeting = {"HVD_RENDEZVOUS": f"file://{self.folder}/meeting"}
        return super().start(source, rank, size, {**gpu_environment(self.package, **gpus), **meeting,
                                                  **(environment or {})})


@pytest.fixture
def by_hand(tmp_path, package):
    job = GpuByHand(tmp_path, package)
    yield job
    job.end()


@pytest.fixture
def ranks(tmp_path, package):
    return GpuRanks(tmp_path, PROLOGUE, package)


@pytest.fixture
def torch_ranks(tmp_path, package):
    return GpuRanks(tmp_path, TORCH_PROLOGUE, package)
