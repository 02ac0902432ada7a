"""Any Python object between ranks."""

import operator
import pickle
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from horovod_cpp import _native, pickling
from horovod_cpp._native import ProcessSet
from horovod_cpp.short_traceback import short_traceback

_Object = TypeVar("_Object")


class _Failure:
    """Travels in place of an object that could not be made, so that no rank waits for it."""

    def __init__(self, text: str) -> None:
        self.text = text


def words(error: Exception) -> str:
    """What an exception says, whatever its class."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ fails
        return type(error).__name__


def _pickled(make: Callable[[], Any]) -> tuple[bytes, Exception | None]:
    """``make()`` with what went wrong; then the bytes are those of a _Failure."""
    failed = f"rank {_native.rank()} failed"
    try:
        obj = make()
        failed = f"the object of rank {_native.rank()} cannot be pickled"
        return pickling.dumps(obj), None
    except Exception as error:  # whatever the object's own methods raise
        return pickle.dumps(_Failure(f"{failed}: {words(error)}")), error


def _check(what: str, objects: Iterable[Any], failure: Exception | None) -> None:
    """The rank that failed gets its own exception, the others that of the first such rank."""
    if failure is not None:
        raise failure
    for obj in objects:
        if isinstance(obj, _Failure):
            raise _native.InvalidArgumentError(f"{what}: {obj.text}")


def whole_number(name: str, value: object) -> int:
    """The value of an argument. Check it before anything is sent: a rank that fails alone would leave
    the others with half a call."""
    is_bool = isinstance(value, bool) or getattr(value, "dtype", None) == "bool"
    try:
        if not is_bool:
            return operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # it says "cannot be interpreted", of no argument
        pass
    raise TypeError(f"{name} must be an int, got {value!r} ({type(value).__name__})")


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
    root_rank = whole_number("root_rank", root_rank)
    is_root = _native.rank() == root_rank
    data, failure = _pickled(lambda: obj) if is_root else (b"", None)
    data = _native._broadcast_bytes(data, root_rank, name or "", process_set)
    if not is_root:
        obj = pickle.loads(data)
    _check("broadcast_object", [obj], failure)
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
    return list(allgather_made(lambda: obj, "allgather_object", name, process_set).values())


def allgather_made(make: Callable[[], _Object], what: str, name: str | None,
                   process_set: ProcessSet) -> dict[int, _Object]:
    """``make()`` of every rank by rank; if it raises on one, an error of ``what`` on all others."""
    data, failure = _pickled(make)
    every = _native._allgather_bytes(data, name or "", process_set)
    objects = {rank: pickle.loads(data) for rank, data in zip(process_set.ranks, every) if data}
    _check(what, objects.values(), failure)
    return objects
