"""Data-parallel training: wrap an optimizer, run on many ranks.

    import horovod_cpp as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

Start a script on two ranks with ``hvdrun -np 2 python script.py``, or a function with ``hvd.run``.
The names are those of the C++ library (``#include <horovod_cpp/horovod.h>``, namespace ``hvd``).
"""

import atexit as _atexit
import importlib as _importlib
import os as _os
import sys as _sys
import typing as _typing

from horovod_cpp import _native, data, io, models, nn, optim
from horovod_cpp._native import *

# Not in __all__: they would hide Python's own from `import *`.
from horovod_cpp._native import abs as abs
from horovod_cpp._native import all as all
from horovod_cpp._native import any as any
from horovod_cpp._native import max as max
from horovod_cpp._native import min as min
from horovod_cpp._native import pow as pow
from horovod_cpp._native import sum as sum
from horovod_cpp.autograd import *
from horovod_cpp.built import *
from horovod_cpp.call_site import where as _where
from horovod_cpp.cluster.calls import RankError
from horovod_cpp.cluster.cluster import Cluster, WorkerStatus
from horovod_cpp.cluster.run import run
from horovod_cpp.dtypes import *
from horovod_cpp.dtypes import bool as bool
from horovod_cpp.dtypes import float as float
from horovod_cpp.dtypes import int as int
from horovod_cpp.native_names import keep_listed as _keep_listed
from horovod_cpp.objects import allgather_object, broadcast_object
from horovod_cpp.process_sets import add_process_set, init
from horovod_cpp.rank_zero import rank_zero_section

__version__ = _native.__version__  # importlib.metadata takes longer to import than all of this

__all__ = [
    "AbortedError", "Adasum", "add", "add_process_set", "allgather", "allgather_async",
    "allgather_object", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_",
    "alltoall", "alltoall_async", "anomaly_enabled", "arange", "argmax", "argmin", "argsort",
    "autocast", "autocast_dtype", "Average", "average_gradients", "barrier", "barrier_async",
    "bernoulli", "bfloat16", "bincount", "BitAnd", "BitOr", "bitwise_equal", "broadcast",
    "broadcast_", "broadcast_async", "broadcast_async_", "broadcast_object",
    "broadcast_optimizer_state", "broadcast_parameters", "cat", "ccl_built", "chunk", "clamp",
    "clear_autocast_cache", "Cluster", "complex128", "complex64", "Compression", "concat",
    "config", "conv1d", "conv2d", "conv_transpose2d", "cos", "cross_entropy", "cross_rank",
    "cross_size", "cuda_built", "cumsum", "data", "DataParallel", "ddl_built",
    "DistributedDataParallel", "DistributedOptimizer", "div", "dot", "double", "dropout",
    "dump_flight_recorder", "empty", "enable_grad", "eq", "erf", "Error", "exp", "eye", "flip",
    "float16", "float32", "float64", "from_dlpack", "from_numpy", "full", "full_like",
    "Function", "gather", "gather_async", "ge", "Generator", "global_process_set", "gloo_built",
    "gloo_enabled", "grad", "grad_enabled", "gradcheck", "gradgradcheck", "grouped_allgather",
    "grouped_allgather_async", "grouped_allreduce", "grouped_allreduce_",
    "grouped_allreduce_async", "grouped_allreduce_async_", "grouped_broadcast",
    "grouped_broadcast_", "grouped_broadcast_async", "grouped_broadcast_async_",
    "grouped_reducescatter", "grouped_reducescatter_async", "gt", "half", "Handle",
    "HorovodInternalError", "index_add", "index_select", "init", "int16", "int32", "int64",
    "int8", "InternalError", "InvalidArgumentError", "io", "irecv", "is_autocast_enabled",
    "is_homogeneous", "is_initialized", "isend", "isnan", "join", "join_async", "le", "linear",
    "linspace", "load", "local_rank", "local_size", "log", "log1p", "log_softmax",
    "logical_and", "logical_not", "logical_or", "logical_xor", "long", "lt", "manual_seed",
    "masked_fill", "masked_select", "matmul", "Max", "max_pool2d", "maximum", "mean", "metrics",
    "metrics_text", "Min", "minimum", "MismatchError", "models", "mpi_built", "mpi_enabled",
    "mpi_threads_supported", "mse_loss", "mul", "nccl_built", "ne", "neg", "nn", "no_grad",
    "nonzero", "norm", "on_stall", "one_hot", "ones", "ones_like", "optim", "outer",
    "PeerLostError", "plot", "poll", "process_set_ids", "ProcessSet", "prod", "Product", "rand",
    "randint", "randn", "randperm", "rank", "rank_zero_section", "RankError", "reciprocal",
    "recv", "reduce", "reduce_async", "ReduceOp", "reducescatter", "reducescatter_async",
    "relu", "remove_process_set", "repeat", "rocm_built", "row_gradient", "RowGradient",
    "rsqrt", "run", "save", "scatter", "scatter_async", "send", "set_detect_anomaly",
    "set_grad_enabled", "shutdown", "sigmoid", "sign", "sin", "size", "softmax", "sort",
    "sparse_allreduce", "sparse_allreduce_async", "split", "sqrt", "square", "stack",
    "StalledError", "start_timeline", "std", "stop_timeline", "sub", "Sum", "summary", "SyncBatchNorm",
    "synchronize", "tanh", "Tensor", "tensor", "topk", "tril", "triu", "uint16", "uint8",
    "UnsupportedError", "var", "where", "WorkerStatus", "zeros", "zeros_like",
]
_keep_listed(globals(), "abs", "all", "any", "max", "min", "pow", "sum")

_forks: list[object] = []


# Imported when they are used: they need NumPy, which takes longer than all the rest.
if _typing.TYPE_CHECKING:
    from horovod_cpp import plot
    from horovod_cpp import typing as typing
else:

    def __getattr__(name):
        if name in ("plot", "typing"):
            return _importlib.import_module(f"horovod_cpp.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _shutdown_at_exit() -> None:
    """While Python still runs, so that arrays in flight are dropped as they should."""
    if hasattr(_sys, "last_value"):  # an uncaught exception: see session.h
        return
    try:
        shutdown()
    except AbortedError:
        if not _forks:  # a forked child has no part in its parent's job, and nothing to say of it
            raise


def load_ipython_extension(shell: object) -> None:
    """For ``%load_ext horovod_cpp``: %%hvd and %hvd, cells on the ranks of a hvd.Cluster."""
    from horovod_cpp.cluster import magics

    magics.load(shell)


def unload_ipython_extension(shell: object) -> None:
    """For ``%unload_ext horovod_cpp``: ends the ranks."""
    from horovod_cpp.cluster import magics

    magics.unload(shell)


_native._set_location_callback(_where)
_atexit.register(_shutdown_at_exit)
_os.register_at_fork(after_in_child=lambda: _forks.append(True))
