"""Fixtures of the tests beside PyTorch. They see the installed package only."""

import pathlib

import pytest
from ranks import Ranks

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# What every program of a multi-rank test starts with.
PROLOGUE = """
import pytest
import torch
import horovod_cpp.torch as hvd
hvd.init()
rank, size = hvd.rank(), hvd.size()

def same_everywhere(*tensors):
    "Whether all ranks have the same bits."
    mine = [tensor.detach().contiguous().view(-1).tolist() for tensor in tensors]
    return all(other == mine for other in hvd.allgather_object(mine))
"""


@pytest.fixture
def world():
    """A world of one rank."""
    import horovod_cpp.torch as hvd

    hvd.init()
    yield hvd
    hvd.shutdown()


@pytest.fixture(scope="session")
def examples():
    return REPOSITORY / "examples"


@pytest.fixture
def ranks(tmp_path):
    return Ranks(tmp_path, PROLOGUE)
