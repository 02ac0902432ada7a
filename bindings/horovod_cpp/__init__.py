"""Data-parallel training: wrap an optimizer, run on many ranks.

    import horovod_cpp as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

Start a script on two ranks with ``hvdrun -np 2 python script.py``, or a function with ``hvd.run``.
The names are those of the C++ library (``#include <horovod_cpp/horovod.h>``, namespace ``hvd``).
"""

import atexit as _atexit
import sys as _sys
from importlib.metadata import version as _version

from horovod_cpp import _native, data, io, models, nn, optim
from horovod_cpp._native import (
    AbortedError,
    Adasum,
    Average,
    BitAnd,
    BitOr,
    Compression,
    DataParallel,
    DistributedDataParallel,
    DistributedOptimizer,
    Error,
    Handle,
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
    SyncBatchNorm,
    Tensor,
    UnsupportedError,
    add,
    add_process_set,
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    arange,
    argmax,
    average_gradients,
    barrier,
    barrier_async,
    bitwise_equal,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    broadcast_optimizer_state,
    broadcast_parameters,
    concat,
    config,
    conv1d,
    conv2d,
    conv_transpose2d,
    cross_entropy,
    cross_rank,
    cross_size,
    div,
    dropout,
    dump_flight_recorder,
    empty,
    exp,
    from_numpy,
    full,
    gather,
    gather_async,
    global_process_set,
    grad_enabled,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_broadcast,
    grouped_broadcast_,
    grouped_broadcast_async,
    grouped_broadcast_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    init,
    irecv,
    is_homogeneous,
    is_initialized,
    isend,
    join,
    join_async,
    linear,
    local_rank,
    local_size,
    log,
    log_softmax,
    manual_seed,
    matmul,
    max,
    max_pool2d,
    mean,
    metrics,
    metrics_text,
    mpi_enabled,
    mpi_threads_supported,
    mse_loss,
    mul,
    neg,
    on_stall,
    ones,
    poll,
    pow,
    process_set_ids,
    rand,
    randn,
    rank,
    recv,
    reduce,
    reduce_async,
    reducescatter,
    reducescatter_async,
    relu,
    remove_process_set,
    scatter,
    scatter_async,
    send,
    shutdown,
    sigmoid,
    size,
    softmax,
    sqrt,
    stack,
    start_timeline,
    stop_timeline,
    sub,
    sum,
    synchronize,
    tanh,
    tensor,
    zeros,
)
from horovod_cpp.autograd import no_grad
from horovod_cpp.built import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    nccl_built,
    rocm_built,
)
from horovod_cpp.io import load, save
from horovod_cpp.objects import allgather_object, broadcast_object
from horovod_cpp.rank_zero import rank_zero_section
from horovod_cpp.run import RankError, run
from horovod_cpp.where import where as _where

__version__ = _version("horovod_cpp")

# Not in it: what would hide builtins from `import *`, and modules that are no part of the API.
_unlisted = ("max", "pow", "sum", "autograd", "built", "init_functions", "lr_scheduler",
             "nn_functional", "objects", "rank_zero", "run_wire", "where")
__all__ = [name for name in dir() if not name.startswith("_") and name not in _unlisted]


def _shutdown_at_exit():
    """While Python still runs, so that arrays in flight are dropped as they should."""
    if not hasattr(_sys, "last_value"):  # an exception that nobody caught: see session.h
        shutdown()


_native._on_look(_where)
_atexit.register(_shutdown_at_exit)
