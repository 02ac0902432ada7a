"""Gradients between backward() and the end of their reduction."""

import functools
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Variable

from horovod_cpp.torch.named_parameters import in_data_parallel, refuse, refuse_data_parallel

_TOGETHER = 1 << 20  # bytes that are submitted as soon as they are there
_WORTH_A_BATCH = _TOGETHER // 16  # if fewer are still to come, those that are there wait for them
_AT_ONCE = 300e-6  # seconds from the end of backward() to step()


class Submissions:
    """Buckets that wait for each other: each submission may wake the engine's thread, which takes
    the core from backward(). Those at the end of backward() wake nobody if the program does as in
    the step before, and waits for them at once.

    ``submit(bucket, quietly)``, a method whose object is not kept alive, hands one to the engine.
    """

    def __init__(self, submit: Callable[[Any, bool], None]) -> None:
        self._submit = weakref.WeakMethod(submit)
        self._waiting: list[Any] = []
        self._bytes = 0
        self._backward_ended = 0.0
        self._waits_at_once = False

    def add(self, bucket: Any) -> None:
        self._waiting.append(bucket)
        self._bytes += bucket.bytes

    def during_backward(self, bytes_to_come: int) -> None:
        """Something was added by a hook."""
        if self._bytes >= _TOGETHER and bytes_to_come >= _WORTH_A_BATCH:
            self.flush(quietly=False)
        elif self._waiting:
            Variable._execution_engine.queue_callback(self._end_backward)

    def _end_backward(self) -> None:
        if self._waiting and self._submit() is not None:
            self.flush(quietly=self._waits_at_once)
            self._backward_ended = time.perf_counter()

    def waits_now(self) -> None:
        """The program waits for all."""
        self._waits_at_once = time.perf_counter() - self._backward_ended < _AT_ONCE

    def flush(self, quietly: bool) -> None:
        """Submits all. ``quietly``: what follows at once is a wait."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        attempts, submit = Attempts(), self._submit()
        assert submit is not None  # who calls this keeps its object alive
        for bucket in waiting:
            attempts.run(functools.partial(submit, bucket, quietly or bucket is not waiting[-1]))
        attempts.raise_first()


class Travelling:
    """A gradient in flight: what tells whether somebody changed it."""

    def __init__(self, gradient: torch.Tensor) -> None:
        self._gradient = gradient
        self._address = gradient.data_ptr()
        self._version = self._version_now()

    def _version_now(self) -> int | None:
        return None if self._gradient.is_inference() else self._gradient._version

    def change(self, gradient: torch.Tensor | None) -> str | None:
        """What happened to it; None: nothing."""
        if gradient is not self._gradient or gradient.data_ptr() != self._address:
            return "replaced or dropped"
        return "changed" if self._version_now() != self._version else None


def check_place(entry: Any) -> None:
    """Otherwise the optimizer would take a gradient that no other rank has."""
    travelling, entry.travelling = entry.travelling, None
    change = travelling and travelling.change(entry.parameter.grad)
    if not change:
        return
    if in_data_parallel(entry.parameter):
        refuse_data_parallel()
    refuse(f"the gradient of '{entry.name}' was {change} while it was being reduced, between "
           "backward() and step(); call synchronize() first, then clip or change gradients and call "
           "step() inside skip_synchronize()")


class Attempts:
    """Goes on after a failure; the first one is raised at the end."""

    def __init__(self) -> None:
        self._first: Exception | None = None

    def run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            self._first = self._first or error

    def raise_first(self) -> None:
        if self._first is not None:
            raise self._first
