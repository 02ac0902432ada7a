"""Fixtures of the tests of Python's front ends of GPUs, which need none: see gpu_arrays.py."""

import os
import pathlib
import shutil

import pytest
from ranks import Ranks

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


class GpuRanks(Ranks):
    """Ranks that see GPUs."""

    def __init__(self, folder, prologue, package):
        super().__init__(folder, prologue)
        here = pathlib.Path(__file__).resolve().parent
        self.paths = os.pathsep.join(map(str, [package, here, REPOSITORY / "test/support"]))

    def check(self, source, np=2, operations="host", **options):
        environment = {"PYTHONPATH": self.paths, "HVD_GPU_OPERATIONS": operations}
        return super().check(source, np, environment=environment, **options)


@pytest.fixture
def ranks(tmp_path, package):
    return GpuRanks(tmp_path, PROLOGUE, package)


@pytest.fixture
def torch_ranks(tmp_path, package):
    return GpuRanks(tmp_path, TORCH_PROLOGUE, package)
