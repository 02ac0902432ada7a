"""Fixtures of the Python tests. They see the installed package only."""

import importlib.util
import os
import pathlib

import pytest
from ranks import Ranks, processes_with

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

_spec = importlib.util.find_spec("horovod_cpp")
if _spec is None or _spec.origin is None:
    pytest.exit("horovod_cpp is not installed in this Python: pip install .", returncode=2)


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
