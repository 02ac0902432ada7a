"""Calls in flight, as torch.distributed knows them."""

import datetime
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from horovod_cpp import _native
from horovod_cpp.engine_thread import start_engine_thread
from horovod_cpp.torch import gpu

_LOOK_AGAIN = 0.1  # seconds between looks whether the session has ended


class Work(c10d.Work):  # type: ignore[misc]
    """A call in flight. Any thread. What the call failed with is raised by wait(), every time."""

    def __init__(self, call: Any, finish: Callable[[Any], list[torch.Tensor]],
                 describe: Callable[[], str], limit: float,
                 finisher: "Finisher | None" = None) -> None:
        """
        Args:
            call: the engine's handle.
            finish: turns what the call returned into the list of tensors that this Work returns.
            describe: returns a description of the call, for messages.
            limit: seconds that wait() waits unless it is told otherwise.
            finisher: completes get_future(); None: there is no future.
        """
        super().__init__()
        self._call = call
        self._finish: Callable[[Any], list[torch.Tensor]] | None = finish
        self._describe = describe
        self.limit = limit
        self._finisher = finisher
        self._lock = threading.RLock()
        self._value: list[torch.Tensor] = []
        self._error: Exception | None = None
        self._future: Any = None
        self._point = gpu.Point()  # past what made the results

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Returns True when the results are there; on a GPU, for what is put on PyTorch's current
        stream from then on.

        Args:
            timeout: a timedelta; None or 0: that of the process group.

        Raises:
            StalledError: it did not end in that time.
            MismatchError: ranks disagreed; on all of them, and the group goes on.
            HorovodInternalError: the job ended.
        """
        limit = timeout.total_seconds() if timeout else self.limit
        if not self._call.wait_for(limit):
            raise self.late(limit)
        self.value()
        self._point.wait()
        return True

    def late(self, limit: float | None = None) -> _native.StalledError:
        """The error of a call that did not end in time."""
        limit = self.limit if limit is None else limit
        return _native.StalledError(
            f"{self._describe()} did not end within the timeout of {limit:g} s; not all of these "
            "ranks have made the call. init_process_group() and new_group() take another timeout=")

    def value(self) -> list[torch.Tensor]:
        """The list of tensors; blocks until the call ended and raises what it failed with."""
        with self._lock:
            if self._finish is not None:
                try:
                    self._value = self._finish(
                        self._call._synchronize_on(gpu.reading_stream))
                    self._point = gpu.Point(_tensors_in(self._value))
                except Exception as error:
                    self._error = error
                self._finish = None  # drops the tensors that it needs
        if self._error is not None:
            raise self._error
        return self._value

    def ends_within(self, seconds: float) -> bool:
        """Whether the engine is done with it by then."""
        return bool(self._call.wait_for(seconds))

    def is_completed(self) -> bool:
        """Whether wait() would not block; the results are there, or exception() is."""
        if not self._call.poll():
            return False
        self._ended_well()
        return True

    def is_success(self) -> bool:
        """Whether it has ended and did not fail."""
        return bool(self._call.poll()) and self._ended_well()

    def exception(self) -> Exception | None:
        """What it failed with; None while it runs."""
        self.is_completed()
        return self._error

    def _ended_well(self) -> bool:
        try:
            self.value()
        except Exception:
            return False
        return True

    def result(self) -> list[torch.Tensor]:
        """The tensors; waits for them."""
        self.wait()
        return self._value

    def synchronize(self) -> None:
        """wait(), for callers of GPU backends."""
        self.wait()

    def get_future(self) -> Any:
        """A torch.futures.Future of the tensors. Its errors are RuntimeErrors that quote ours."""
        if self._finisher is None:
            raise _native.UnsupportedError(f"{self._describe()} has no future; wait() for it")
        with self._lock:
            if self._future is None:
                self._future = self._finisher.future_of(self)
        return self._future


class Finisher:
    """Completes futures in the order of their calls, on a thread of its own once one is needed."""

    def __init__(self) -> None:
        self._devices = gpu.own_devices()
        self._queue: queue.SimpleQueue[tuple[Work, Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ending = False

    def future_of(self, work: Work) -> Any:
        """A Future that this completes."""
        begun = torch.futures.Future(devices=self._devices)
        future = begun.then(lambda _: self._value_of(work))
        # A callback, which may wait for this one, keeps the thread from its queue.
        in_callback = self._thread is threading.current_thread()
        if in_callback:
            self._await(work)
        if in_callback or work.ends_within(0):
            begun.set_result(None)
            return future
        if self._thread is None:
            self._thread = start_engine_thread(self._run, name="hvd-futures")
        self._queue.put((work, begun))
        return future

    def close(self) -> None:
        """Fails what is in flight."""
        self._ending = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            work, begun = item
            self._await(work)
            begun.set_result(None)

    def _await(self, work: Work) -> None:
        left = work.limit
        while left > 0 and not self._ending and not work.ends_within(min(left, _LOOK_AGAIN)):
            left -= _LOOK_AGAIN

    def _value_of(self, work: Work) -> list[torch.Tensor]:
        if work.ends_within(0):
            return work.value()
        if self._ending:
            raise _native.AbortedError("the process group was destroyed")
        raise work.late()


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Those of a result: a tensor, or lists of lists of them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors_in(part)


def for_native_code(work: Work) -> Any:
    """A Work for callers in C++.

    They may keep it longer than Python does, and PyTorch 1.13 then forgets what Python overrides;
    a future stays. Their wait() does not raise, only the future's value does.
    """
    return c10d._create_work_from_future(work.get_future())


def seconds_of(timeout: datetime.timedelta) -> float:
    """A timedelta in seconds: at least one millisecond, at most 30 years, which are forever."""
    return min(max(timeout / datetime.timedelta(seconds=1), 0.001), 1e9)
