"""horovod.torch: all names of horovod_cpp.torch; one does as Horovod's where ours does less."""

from typing import Any as _Any

import horovod_cpp.torch as _ours
from horovod.torch import functions, mpi_ops  # noqa: F401
from horovod_cpp.torch import *  # noqa: F403

broadcast_optimizer_state = functions.broadcast_optimizer_state


def __getattr__(name: str) -> _Any:
    return getattr(_ours, name)  # or what it says of names that it has not
