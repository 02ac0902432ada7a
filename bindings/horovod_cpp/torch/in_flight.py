"""Gradients between backward() and the end of their reduction."""

from typing import Any

import torch

from horovod_cpp.torch.named_parameters import in_data_parallel, refuse, refuse_data_parallel


class Travelling:
    """A gradient in flight: what tells whether somebody changed it."""

    def __init__(self, gradient: torch.Tensor) -> None:
        self._gradient = gradient
        self.address = gradient.data_ptr()
        self._version = None if gradient.is_inference() else gradient._version

    def change(self, gradient: torch.Tensor | None) -> str | None:
        """What happened to it; None: nothing."""
        if gradient is not self._gradient or gradient.data_ptr() != self.address:
            return "replaced or dropped"
        return None if self._version in (None, gradient._version) else "changed"


def check_unchanged(entry: Any) -> None:
    """Otherwise the optimizer would take a gradient that no other rank has."""
    change = entry.travelling.change(entry.taken if entry.apart else entry.parameter.grad)
    if change is not None:
        refuse_change(entry, change)


def refuse_change(entry: Any, change: str) -> None:
    if in_data_parallel(entry.parameter):
        refuse_data_parallel()
    refuse(f"the gradient of '{entry.name}' was {change} while it was being reduced, between "
           "backward() and step(); call synchronize() first, then clip or change gradients and call "
           "step() inside skip_synchronize()")
