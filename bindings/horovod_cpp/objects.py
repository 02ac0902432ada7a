"""Any Python object between ranks."""

import pickle
from typing import Any, TypeVar

import cloudpickle

from horovod_cpp import _native
from horovod_cpp._native import ProcessSet

_Object = TypeVar("_Object")


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None,
                     process_set: ProcessSet = _native.global_process_set) -> Any:
    """Give the object of rank ``root_rank`` to every rank; collective.

    The root pickles it (with cloudpickle, so functions travel too); its size and then its bytes are
    broadcast.

    Args:
        obj: what to send; other ranks may pass None.
        root_rank: the sender, a rank of the job.
        name: pairs this call across ranks; None: one object at a time, in the same order.
        process_set: the ranks that take part.

    Returns:
        ``obj`` itself on the root, an equal object elsewhere.

    Raises:
        InvalidArgumentError: before init(), or there is no such rank in the set.
        HorovodInternalError: the job ended.
    """
    is_root = _native.rank() == root_rank
    data = cloudpickle.dumps(obj) if is_root else b""
    data = _native._broadcast_bytes(data, root_rank, name or "", process_set)
    return obj if is_root else pickle.loads(data)


def allgather_object(obj: _Object, name: str | None = None,
                     process_set: ProcessSet = _native.global_process_set) -> list[_Object]:
    """Give every rank's object to every rank; collective.

    Args:
        obj: what this rank contributes; pickled with cloudpickle.
        name: pairs this call across ranks; None: one object at a time, in the same order.
        process_set: the ranks that take part.

    Returns:
        The objects in rank order.

    Raises:
        InvalidArgumentError: before init(), or this rank is not in the set.
        HorovodInternalError: the job ended.
    """
    every = _native._allgather_bytes(cloudpickle.dumps(obj), name or "", process_set)
    return [pickle.loads(data) for data in every]
