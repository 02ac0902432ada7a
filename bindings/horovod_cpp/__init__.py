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

from horovod_cpp import data, io, nn, optim
from horovod_cpp._native import (
    AbortedError,
    Average,
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
    Product,
    ReduceOp,
    StalledError,
    Sum,
    Tensor,
    UnsupportedError,
    add,
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    arange,
    argmax,
    bitwise_equal,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    broadcast_optimizer_state,
    broadcast_parameters,
    concat,
    conv2d,
    cross_entropy,
    cross_rank,
    cross_size,
    div,
    dropout,
    empty,
    exp,
    from_numpy,
    full,
    grad_enabled,
    init,
    is_initialized,
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
    mse_loss,
    mul,
    neg,
    ones,
    poll,
    pow,
    rand,
    randn,
    rank,
    relu,
    shutdown,
    sigmoid,
    size,
    softmax,
    sqrt,
    stack,
    sub,
    sum,
    synchronize,
    tanh,
    tensor,
    zeros,
)
from horovod_cpp.autograd import no_grad
from horovod_cpp.io import load, save
from horovod_cpp.objects import broadcast_object
from horovod_cpp.run import RankError, run

__version__ = _version("horovod_cpp")

# Not in it: what would hide builtins from `import *`, and modules that are no part of the API.
_unlisted = ("max", "pow", "sum", "autograd", "init_functions", "objects", "run_wire")
__all__ = [name for name in dir() if not name.startswith("_") and name not in _unlisted]


def _shutdown_at_exit():
    """While Python still runs, so that arrays in flight are dropped as they should."""
    if not hasattr(_sys, "last_value"):  # an exception that nobody caught: see session.h
        shutdown()


_atexit.register(_shutdown_at_exit)
