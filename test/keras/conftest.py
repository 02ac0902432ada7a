"""Fixtures of the tests of Keras: two ranks that import a backend once and run functions of tests."""

import importlib.metadata
import os

import pytest

import horovod_cpp as hvd

# `bash test/run.sh --long` names it, with test_keras.py, beside Keras 2: the Keras of an old TensorFlow,
# or tf-keras with TF_USE_LEGACY_KERAS.
collect_ignore = ["test_keras2.py"]
_is_keras_2 = ("TF_USE_LEGACY_KERAS" in os.environ or
               importlib.metadata.version("keras").startswith("2."))


@pytest.fixture(scope="session", params=["tensorflow"] if _is_keras_2 else ["torch", "tensorflow"])
def cluster(request):
    """Two ranks with one of Keras' backends, each on a core of its own."""
    with hvd.Cluster(2, env={"KERAS_BACKEND": request.param, "TF_CPP_MIN_LOG_LEVEL": "3",
                             "OMP_NUM_THREADS": "1"}) as ranks:
        yield ranks
