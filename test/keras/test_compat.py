"""Scripts that import Horovod's front ends of TensorFlow and Keras."""

import subprocess
import sys

SCRIPT = """
import keras
import horovod.tensorflow as tf_hvd
import horovod.tensorflow.keras as keras_hvd
import horovod.keras as hvd
from horovod.keras.callbacks import MetricAverageCallback
from horovod.tensorflow.keras.callbacks import BroadcastGlobalVariablesCallback

hvd.init()
assert tf_hvd.rank() == keras_hvd.rank() == 0 and tf_hvd.size() == 1
assert keras_hvd.DistributedOptimizer is hvd.DistributedOptimizer
assert keras_hvd.callbacks.MetricAverageCallback is MetricAverageCallback
assert float(tf_hvd.allreduce(2.0)) == 2
try:
    import horovod.mxnet
except ModuleNotFoundError as error:
    print(error)
"""


def test_a_script_of_horovod_runs_as_it_is(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, "-m", "horovod_cpp.compat", script], text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert "horovod.torch, horovod.tensorflow, horovod.keras" in done.stdout
