"""A backend of torch.distributed: plain DDP scripts over this engine.

    import horovod_cpp.torch

    torch.distributed.init_process_group("horovod_cpp")

It takes tensors on the CPU and, in a job with HVD_GPU_OPERATIONS, on the rank's GPU, and every way
in which PyTorch's ranks find each other: env:// (torchrun), file:// and tcp://. With
init_method="hvd://" they are the ranks that hvd.init() finds, however they were started: by
hvdrun, mpirun, srun or torchrun. An engine that hvd.init() began before is used, and outlives
destroy_process_group().

All collectives are there, with ``async_op`` and in groups of some ranks, and transfers beside
them. wait() raises the engine's errors, in the classes of hvd. Not there: recv from any rank,
BXOR except in all_reduce, monitored_barrier.
"""

import weakref as _weakref
from typing import Any as _Any

import torch.backends.cuda as _cuda
import torch.distributed as _dist
from torch.distributed.rendezvous import register_rendezvous_handler as _register_handler

from horovod_cpp.torch.distributed import session as _session
from horovod_cpp.torch.distributed.process_group import ProcessGroup

NAME = "horovod_cpp"


def _create(options: _Any, _backend_options: object) -> ProcessGroup:
    """Called by PyTorch for every group, on the ranks that are in it."""
    name, rank, ranks = options.group_id, options.group_rank, list(options.global_ranks_in_group)
    if ranks:
        session = _session.current()
        group = session.groups.make(name, ranks, options.timeout.total_seconds())
        return ProcessGroup(session, group, name, rank, options.timeout)
    session, group = _session.begin(options.store, rank, options.group_size, options.timeout)
    default = ProcessGroup(session, group, name, rank, options.timeout)
    # PyTorch 1.13 does not report destroy_process_group(), but drops what it destroys.
    _weakref.finalize(default, session.close).atexit = False
    return default


def _register() -> None:
    options: dict[str, _Any] = {"extended_api": True}
    if hasattr(_dist.Backend, "backend_capability"):  # PyTorch 2
        options["devices"] = ["cpu", "cuda"] if _cuda.is_built() else ["cpu"]
    _dist.Backend.register_backend(NAME, _create, **options)
    _register_handler("hvd", _session.meet_by_engine)


_register()
