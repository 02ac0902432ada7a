"""What docs/keras.md shows, and the example, run as they stand there."""

import os
import pathlib
import subprocess
import sys

import cloudpickle
import pytest
from pages import blocks
from ranks import hvdrun

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks do not find the tests
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def run_page(block):
    import keras
    import numpy

    import horovod_cpp

    horovod_cpp.init()
    keras.utils.set_random_seed(horovod_cpp.rank())
    names = {"images": numpy.random.normal(size=(64, 4)), "labels": numpy.arange(64) % 3,
             "model": keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "softmax")])}
    exec(block, names)
    return names["model"].get_weights()


def test_the_page_trains_alike_on_all_ranks(cluster):
    (_, block), = blocks("docs/keras.md", "python")
    one, other = cluster.run(run_page, [block])
    assert all((mine == theirs).all() for mine, theirs in zip(one, other, strict=True))


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_the_example_reaches_the_accuracy_of_its_one_process_version(backend):
    environment = {**os.environ, "KERAS_BACKEND": backend, "OMP_NUM_THREADS": "1"}

    def accuracies(*command):
        done = subprocess.run([*command, os.environ["HVD_DIGITS"]], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=240)
        return [float(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()
                if "test accuracy" in line]

    one, = accuracies(sys.executable, EXAMPLES / "keras_minimal_one_process.py")
    first, second = accuracies(hvdrun(), "-np", "2", sys.executable, EXAMPLES / "keras_minimal.py")
    assert one >= 0.96 and abs(first - one) <= 0.03
    assert first == second  # every rank has the same parameters
