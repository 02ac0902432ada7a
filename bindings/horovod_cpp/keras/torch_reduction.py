"""Gradients of Keras' backend "torch": PyTorch's, by the reducer of horovod_cpp.torch."""

from collections.abc import Sequence
from typing import Any

from horovod_cpp.torch import compression as compressors
from horovod_cpp.torch.compression import Compression
from horovod_cpp.torch.gradients import reducer_of


class Reduction:
    """From now on, as long as it lives, backward passes start to reduce what they have finished, if
    ``let_overlap()`` lets them."""

    def __init__(self, named: Sequence[tuple[str, Any]], groups: Any, options: dict[str, Any]) -> None:
        if isinstance(groups, (list, tuple)):
            groups = [[getattr(variable, "value", variable) for variable in group] for group in groups]
        compression = options["compression"]
        self._reducer = reducer_of([(name, variable.value) for name, variable in named], groups, {
            **options, "backward_passes_per_step": 1, "gradient_as_bucket_view": True,
            "compression": compressors.chosen(Compression.none if compression is None else compression),
            "average_aggregated_gradients": False, "clip_grad_norm": None, "clip_when": "after",
            "overlap_step": False})
        self._overlaps = True

    def let_overlap(self, allowed: bool) -> None:
        """Otherwise ``reduce()`` starts everything."""
        if allowed != self._overlaps:
            (self._reducer.release if allowed else self._reducer.hold)()
        self._overlaps = allowed

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any], broadcast_follows: bool
               ) -> Sequence[Any]:
        """``broadcast_follows`` never: fit() has built the model before its first batch."""
        if not self._reducer.active:
            return gradients
        for gradient, variable in zip(gradients, variables):
            if variable.value.grad is not gradient:  # computed without a backward pass of our hooks
                variable.value.grad = gradient
        self._reducer.synchronize()
        self._reducer.begin_step()
        return [variable.value.grad for variable in variables]
