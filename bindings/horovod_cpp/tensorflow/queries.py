"""Operations for this rank's place in the job: int32 scalars, evaluated whenever they run.

A graph that has them may be made before init(), and may outlive a job whose size changes. They
raise InvalidArgumentError before init() and where there is no such process set.
"""

from typing import Any

import tensorflow as tf

from horovod_cpp.tensorflow.errors import raising_both
from horovod_cpp.tensorflow.library import ask

__all__ = ["local_rank_op", "local_size_op", "process_set_included_op", "rank_op", "size_op"]


@raising_both
def rank_op(name: str | None = None) -> Any:
    """hvd.rank(). ``name``: of the node in a graph."""
    return ask("rank", 0, name)


@raising_both
def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """The number of ranks in the process set of this number; 0: of the job."""
    return ask("size", process_set_id, name)


@raising_both
def local_rank_op(name: str | None = None) -> Any:
    """hvd.local_rank()."""
    return ask("local_rank", 0, name)


@raising_both
def local_size_op(name: str | None = None) -> Any:
    """hvd.local_size()."""
    return ask("local_size", 0, name)


@raising_both
def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """1 if this rank is in the process set of this number, otherwise 0."""
    return ask("process_set_included", process_set_id, name)


tf.no_gradient("HvdQuery")
