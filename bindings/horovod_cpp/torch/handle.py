"""Calls in flight."""

from collections.abc import Callable
from typing import Any

from horovod_cpp import _native
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import gpu


class Handle:
    """A collective call in flight, as the ``_async`` functions return it. Dropping it cancels
    nothing.

    Methods and the functions ``poll(handle)`` and ``synchronize(handle)`` do the same.
    """

    __slots__ = ("_call", "_finish", "_result")

    def __init__(self, call: _native.Handle, finish: Callable[[Any], Any]) -> None:
        self._call: _native.Handle | None = call  # None: finished
        self._finish = finish  # what the call gave -> what the caller gets
        self._result: Any = None

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a Handle cannot be copied or pickled, since its call runs in this process; "
                        "take what synchronize() gives")

    def poll(self) -> bool:
        """Whether synchronize() would not block."""
        return self._call is None or self._call.poll()

    def wait_for(self, seconds: float) -> bool:
        """Wait at most ``seconds``; whether synchronize() would not block."""
        return self._call is None or self._call.wait_for(seconds)

    @short_traceback
    def synchronize(self) -> Any:
        """Wait for the result; raises what the call failed with. May be called again.

        On a GPU it is there for what PyTorch puts on its current stream from now on; other streams,
        also in later calls, wait for that one. Where the call is enqueued and fails later, the job
        ends, and whatever is called next raises.
        """
        if self._call is not None:
            self._result = self._finish(result_of(self._call))
            self._call = None
            del self._finish
        return self._result

    __call__ = synchronize  # what sparse_allreduce_async() returns is called, in Horovod


def result_of(call: _native.Handle | Handle) -> Any:
    """What a call gave; on a GPU for what PyTorch puts on its current stream from now on."""
    return (call.synchronize() if isinstance(call, Handle)
            else call._synchronize_on(gpu.reading_stream))


def _checked(handle: object) -> Handle:
    if isinstance(handle, Handle):
        return handle
    raise _native.InvalidArgumentError(
        f"expected the handle of an asynchronous call, got {type(handle).__name__}")


@short_traceback
def poll(handle: Handle) -> bool:
    """Whether ``synchronize(handle)`` would not block.

    Raises:
        InvalidArgumentError: ``handle`` is no handle.
    """
    return _checked(handle).poll()


@short_traceback
def synchronize(handle: Handle) -> Any:
    """Wait for a call's result.

    Returns:
        The tensor, or list of tensors; for ``alltoall_async`` a pair (tensor, received splits).

    Raises:
        InvalidArgumentError: ``handle`` is no handle.
        MismatchError: ranks disagreed; on every rank, and the job goes on.
        HorovodInternalError: the job ended.
    """
    return _checked(handle).synchronize()
