"""Gradients between backward() and the end of their reduction."""

from typing import Any

import torch

from horovod_cpp.torch.named_parameters import in_data_parallel, refuse, refuse_data_parallel


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
    """Of a gradient that has arrived: see check_unchanged()."""
    try:
        check_unchanged(entry)
    finally:
        entry.travelling = None


def check_unchanged(entry: Any) -> None:
    """Otherwise the optimizer would take a gradient that no other rank has."""
    change = entry.travelling and entry.travelling.change(
        entry.taken if entry.apart else entry.parameter.grad)
    if not change:
        return
    if in_data_parallel(entry.parameter):
        refuse_data_parallel()
    refuse(f"the gradient of '{entry.name}' was {change} while it was being reduced, between "
           "backward() and step(); call synchronize() first, then clip or change gradients and call "
           "step() inside skip_synchronize()")
