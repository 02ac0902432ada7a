"""Fixtures of the tests beside TensorFlow. They see the installed package only.

TensorFlow takes seconds to import, and so the ranks are started once and stay alive.
"""

import sys

import cloudpickle
import pytest

import horovod_cpp


def _prepare():
    import tensorflow as tf

    # An operation that blocked the only thread would keep all others from running.
    tf.config.threading.set_inter_op_parallelism_threads(1)


@pytest.fixture(scope="session")
def cluster():
    with horovod_cpp.Cluster(np=2) as cluster:
        yield cluster


@pytest.fixture
def on_ranks(cluster):
    """Runs a function on both ranks; what they returned."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks cannot import it
    cluster.run(_prepare)

    def run(function, *args):
        cloudpickle.register_pickle_by_value(sys.modules[function.__module__])
        return cluster.run(function, args)

    return run
