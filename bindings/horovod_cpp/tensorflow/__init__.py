"""TensorFlow's tensors over many ranks, under Horovod's names.

    import horovod_cpp.tensorflow as hvd

    hvd.init()
    mean = hvd.allreduce(loss)

Start a script on two ranks with ``hvdrun -np 2 python script.py``. Works with every TensorFlow from
2.13 on without being built for it, eagerly and inside tf.function; see ``help(hvd.collectives)``.
"""

import pathlib as _pathlib
from typing import Any as _Any

try:
    import tensorflow as _tensorflow
except ImportError as error:
    raise ImportError("horovod_cpp.tensorflow needs TensorFlow, which cannot be imported here "
                      f"({error}); install it: pip install tensorflow") from error

from horovod_cpp import __version__ as __version__
from horovod_cpp import call_site as _call_site
from horovod_cpp import front_end
from horovod_cpp.front_end import *  # noqa: F403, all it has
from horovod_cpp.tensorflow import collectives, queries
from horovod_cpp.tensorflow.collectives import *  # noqa: F403, all it has
from horovod_cpp.tensorflow.compression import Compression
from horovod_cpp.tensorflow.optimizer import DistributedOptimizer
from horovod_cpp.tensorflow.queries import *  # noqa: F403, all it has
from horovod_cpp.tensorflow.tape import (
    DistributedGradientTape,
    PartialDistributedGradientTape,
)
from horovod_cpp.tensorflow.variables import (
    BroadcastGlobalVariablesHook,
    broadcast_global_variables,
    broadcast_variables,
)

__all__ = [
    "BroadcastGlobalVariablesHook", "Compression", "DistributedGradientTape",
    "DistributedOptimizer", "PartialDistributedGradientTape", "broadcast_global_variables",
    "broadcast_variables",
]
__all__ += front_end.__all__
__all__ += collectives.__all__
__all__ += queries.__all__

_call_site.skip(_pathlib.Path(_tensorflow.__file__).parent)


def __getattr__(name: str) -> _Any:
    """SyncBatchNormalization, of Keras 3: TensorFlow also works with Keras 2."""
    if name != "SyncBatchNormalization":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from horovod_cpp.keras import SyncBatchNormalization

    return SyncBatchNormalization
