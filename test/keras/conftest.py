"""Fixtures of the tests of Keras: two ranks that import a backend once and run functions of tests."""

import pytest

import horovod_cpp as hvd


@pytest.fixture(scope="session", params=["torch", "tensorflow"])
def cluster(request):
    """Two ranks with one of Keras' backends, each on a core of its own."""
    with hvd.Cluster(2, env={"KERAS_BACKEND": request.param, "TF_CPP_MIN_LOG_LEVEL": "3",
                             "OMP_NUM_THREADS": "1"}) as ranks:
        yield ranks
