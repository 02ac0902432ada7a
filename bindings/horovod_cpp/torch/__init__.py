"""PyTorch's optimizers over many ranks, under Horovod's names.

    import horovod_cpp.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

Start a script on two ranks with ``hvdrun -np 2 python script.py``. Works with every PyTorch from
1.13 on without being built for it. Collectives take and give ``torch.Tensor``; see
``help(hvd.collectives)`` and ``help(hvd.DistributedOptimizer)``. For plain scripts of
``torch.distributed`` there is a backend, ``help(hvd.distributed)``.
"""

import pathlib as _pathlib
from typing import Any as _Any

try:
    import torch as _torch
except ImportError as error:
    raise ImportError("horovod_cpp.torch needs PyTorch, which cannot be imported here "
                      f"({error}); install it: pip install torch, or apt-get install python3-torch"
                      ) from error

from horovod_cpp import Handle, front_end, poll, synchronize
from horovod_cpp import __version__ as __version__
from horovod_cpp import call_site as _call_site
from horovod_cpp.front_end import *  # noqa: F403, all it has
from horovod_cpp.torch import collectives
from horovod_cpp.torch.collectives import *  # noqa: F403, all it has
from horovod_cpp.torch.compression import Compression, Compressor
from horovod_cpp.torch.optimizer import DistributedOptimizer
from horovod_cpp.torch.sparse import sparse_allreduce_async
from horovod_cpp.torch.state import broadcast_optimizer_state, broadcast_parameters
from horovod_cpp.torch.sync_batch_norm import SyncBatchNorm

__all__ = [
    "Compression", "Compressor", "DistributedOptimizer", "Handle", "SyncBatchNorm",
    "broadcast_optimizer_state", "broadcast_parameters", "poll", "sparse_allreduce_async",
    "synchronize",
]
__all__ += front_end.__all__
__all__ += collectives.__all__


_call_site.skip(_pathlib.Path(_torch.__file__).parent)

if _torch.distributed.is_available():
    from horovod_cpp.torch import distributed  # noqa: F401, init_process_group("horovod_cpp")


def __getattr__(name: str) -> _Any:
    if name == "elastic":
        try:
            import horovod_cpp.torch.elastic  # noqa: F401, it says what there is instead
        except ImportError as error:
            raise AttributeError(str(error)) from None
    raise AttributeError(f"module 'horovod_cpp.torch' has no attribute '{name}'")
