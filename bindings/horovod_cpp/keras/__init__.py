"""Keras over many ranks, under Horovod's names.

    import horovod_cpp.keras as hvd

    hvd.init()
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size())), ...)
    model.fit(x, y, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Start a script on two ranks with ``hvdrun -np 2 python script.py``. Runs on Keras' backends
"tensorflow" and "torch", and on Keras 2 where tf.keras is that one. Collectives here take what
NumPy can turn into an array; for tensors in a graph or in a backward pass use those of
``horovod_cpp.tensorflow`` and ``horovod_cpp.torch``.
"""

import pathlib as _pathlib

from horovod_cpp import Compression, barrier, front_end, join
from horovod_cpp import __version__ as __version__
from horovod_cpp import call_site as _call_site
from horovod_cpp.front_end import *  # noqa: F403, all it has
from horovod_cpp.keras import callbacks
from horovod_cpp.keras.collectives import allgather, allreduce, broadcast, reducescatter
from horovod_cpp.keras.optimizer import DistributedOptimizer, PartialDistributedOptimizer
from horovod_cpp.keras.saving import load_model
from horovod_cpp.keras.sync_batch_norm import SyncBatchNormalization
from horovod_cpp.keras.variables import broadcast_global_variables, broadcast_variables
from horovod_cpp.keras.version import keras as _keras

__all__ = [
    "Compression", "DistributedOptimizer", "PartialDistributedOptimizer",
    "SyncBatchNormalization", "allgather", "allreduce", "barrier", "broadcast",
    "broadcast_global_variables", "broadcast_variables", "callbacks", "join", "load_model",
    "reducescatter",
]
__all__ += front_end.__all__

_call_site.skip(_pathlib.Path(_keras.__file__).parent)
