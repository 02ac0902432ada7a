"""Any Python object between ranks."""

import pickle
from typing import Any, TypeVar

from horovod_cpp import _native, pickling
from horovod_cpp._native import ProcessSet
from horovod_cpp.short_traceback import short_traceback

_Object = TypeVar("_Object")


class _Failure:
    """Travels in place of an object that cannot be pickled, so that nobody waits for that."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _words(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ fails
        return type(error).__name__


def _pickled(obj: Any) -> tuple[bytes, Exception | None]:
    """With what went wrong; then the bytes are those of a _Failure."""
    try:
        return pickling.dumps(obj), None
    except Exception as error:  # whatever the object's own methods raise
        return pickle.dumps(_Failure(_words(error))), error


def _check(what: str, objects: dict[int, Any], failure: Exception | None) -> None:
    """The rank that failed gets its own exception, the others that of the first such rank.

    ``objects``: by rank.
    """
    if failure is not None:
        raise failure
    for rank, obj in objects.items():
        if isinstance(obj, _Failure):
            raise _native.InvalidArgumentError(
                f"{what}: the object of rank {rank} cannot be pickled: {obj.reason}")


@short_traceback
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
        InvalidArgumentError: before init(), there is no such rank in the set, or the root cannot
            pickle ``obj``: on all ranks but the root, which gets pickle's exception.
        HorovodInternalError: the job ended.
    """
    is_root = _native.rank() == root_rank
    data, failure = _pickled(obj) if is_root else (b"", None)
    data = _native._broadcast_bytes(data, root_rank, name or "", process_set)
    if not is_root:
        obj = pickle.loads(data)
    _check("broadcast_object", {root_rank: obj}, failure)
    return obj


@short_traceback
def allgather_object(obj: _Object, name: str | None = None,
                     process_set: ProcessSet = _native.global_process_set) -> list[_Object]:
    """Give every rank's object to every rank; collective.

    Args:
        obj: what this rank contributes; pickled with cloudpickle.
        name: pairs this call across ranks; None: one object at a time, in the same order.
        process_set: the ranks that take part.

    Returns:
        The objects in rank order; a rank that called join() contributes none.

    Raises:
        InvalidArgumentError: before init(), this rank is not in the set, or a rank cannot pickle
            its object: on all ranks but that one, which gets pickle's exception.
        HorovodInternalError: the job ended.
    """
    data, failure = _pickled(obj)
    every = _native._allgather_bytes(data, name or "", process_set)
    objects = {rank: pickle.loads(data) for rank, data in zip(process_set.ranks, every) if data}
    _check("allgather_object", objects, failure)
    return list(objects.values())
