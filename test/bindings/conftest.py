"""Fixtures of the Python tests. They see the installed package only."""

import importlib.util
import os
import pathlib
import signal

import pytest
from kernels import managed_kernel, running_kernel
from ranks import Ranks, processes_with

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

_spec = importlib.util.find_spec("horovod_cpp")
if _spec is None or _spec.origin is None:
    pytest.exit("horovod_cpp is not installed in this Python: pip install .", returncode=2)

# What a shell starts in the background ignores Ctrl-C, and so would the programs of these tests.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def world():
    """A world of one rank."""
    import horovod_cpp as hvd

    hvd.init()
    yield hvd
    hvd.shutdown()


@pytest.fixture(scope="session")
def examples():
    return REPOSITORY / "examples"


@pytest.fixture
def ranks(tmp_path):
    return Ranks(tmp_path)


@pytest.fixture(scope="session")
def ranks_in():
    """For fixtures that live longer than a test: a function of a folder."""
    return Ranks


@pytest.fixture
def marked_processes(monkeypatch):
    """Gives children a mark in their environment; returns a function that lists who still runs."""
    mark = f"HVD_TEST_MARK_{os.getpid()}_{os.urandom(4).hex()}"
    monkeypatch.setenv(mark, "1")
    return lambda: processes_with(mark)


@pytest.fixture
def patience(monkeypatch):
    """Ranks have half a minute to react to an interrupt before they are killed."""
    monkeypatch.setattr("horovod_cpp.cluster.pool._GRACE", 30.0)


@pytest.fixture
def kernel_manager():
    with managed_kernel() as manager:
        yield manager


@pytest.fixture
def kernel(tmp_path):
    with running_kernel(tmp_path) as kernel:
        yield kernel
