"""Gradients of collectives."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

_Run: TypeAlias = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]
_Gradients: TypeAlias = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor | None]]


class _Recorded(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    @staticmethod
    def forward(ctx: Any, run: _Run, gradients: _Gradients,
                *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.gradients = gradients
        return tuple(run(tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (None, None, *ctx.gradients(gradients))


def recorded(run: _Run, gradients: _Gradients,
             tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """``run(tensors)``, a list of results, as one node of PyTorch's graph.

    ``gradients`` gets those of the results and returns those of the tensors. The node exists only
    where one of the tensors needs it.
    """
    if torch.is_grad_enabled() and any(
            getattr(tensor, "requires_grad", False) for tensor in tensors):
        return list(_Recorded.apply(run, gradients, *tensors))
    return run(tensors)


def name_of_gradient(name: str | None) -> str | None:
    """Pairs the collective of a backward pass, as ``name`` does that of the forward pass."""
    return None if name is None else f"{name}.gradient"
