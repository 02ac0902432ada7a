"""TensorFlow's tensors over many ranks, under Horovod's names.

    import horovod_cpp.tensorflow as hvd

    hvd.init()
    mean = hvd.allreduce(loss)

Start a script on two ranks with ``hvdrun -np 2 python script.py``. Works with every TensorFlow from
2.13 on without being built for it, eagerly and inside of tf.function; see ``help(hvd.collectives)``.
"""

import pathlib as _pathlib

try:
    import tensorflow as _tensorflow
except ImportError as error:
    raise ImportError("horovod_cpp.tensorflow needs TensorFlow, which cannot be imported here "
                      f"({error}); install it: pip install tensorflow") from error

from horovod_cpp import (
    AbortedError,
    Adasum,
    Average,
    BitAnd,
    BitOr,
    Error,
    HorovodInternalError,
    InternalError,
    InvalidArgumentError,
    Max,
    Min,
    MismatchError,
    PeerLostError,
    ProcessSet,
    Product,
    ReduceOp,
    StalledError,
    Sum,
    UnsupportedError,
    add_process_set,
    config,
    cross_rank,
    cross_size,
    dump_flight_recorder,
    global_process_set,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    metrics,
    metrics_text,
    mpi_enabled,
    mpi_threads_supported,
    on_stall,
    process_set_ids,
    rank,
    rank_zero_section,
    remove_process_set,
    run,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
    summary,
)
from horovod_cpp import __version__ as __version__
from horovod_cpp import call_site as _call_site
from horovod_cpp.built import *  # noqa: F403, all it has
from horovod_cpp.front_end import init
from horovod_cpp.objects import allgather_object, broadcast_object
from horovod_cpp.tensorflow import collectives
from horovod_cpp.tensorflow.collectives import *  # noqa: F403, all it has
from horovod_cpp.tensorflow.compression import Compression
from horovod_cpp.tensorflow.optimizer import DistributedOptimizer
from horovod_cpp.tensorflow.tape import DistributedGradientTape
from horovod_cpp.tensorflow.variables import (
    BroadcastGlobalVariablesHook,
    broadcast_global_variables,
    broadcast_variables,
)

__all__ = [
    "AbortedError", "Adasum", "Average", "BitAnd", "BitOr", "BroadcastGlobalVariablesHook",
    "Compression", "DistributedGradientTape", "DistributedOptimizer", "Error",
    "HorovodInternalError", "InternalError", "InvalidArgumentError", "Max", "Min", "MismatchError",
    "PeerLostError", "ProcessSet", "Product", "ReduceOp", "StalledError", "Sum", "UnsupportedError",
    "add_process_set", "allgather_object", "broadcast_global_variables", "broadcast_object",
    "broadcast_variables", "ccl_built", "config", "cross_rank", "cross_size", "cuda_built",
    "ddl_built", "dump_flight_recorder", "global_process_set", "gloo_built", "gloo_enabled", "init",
    "is_homogeneous", "is_initialized", "local_rank", "local_size", "metrics", "metrics_text",
    "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "on_stall",
    "process_set_ids", "rank", "rank_zero_section", "remove_process_set", "rocm_built", "run",
    "shutdown", "size", "start_timeline", "stop_timeline", "summary",
]
__all__ += collectives.__all__

_call_site.skip(_pathlib.Path(_tensorflow.__file__).parent)
