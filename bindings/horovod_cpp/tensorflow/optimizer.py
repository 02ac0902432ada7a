"""Optimizers of tf.compat.v1 over the ranks."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod_cpp import _native
from horovod_cpp._native import Adasum, Average, ProcessSet, ReduceOp, global_process_set
from horovod_cpp.front_end import reduce_op
from horovod_cpp.tensorflow.compression import Compression
from horovod_cpp.tensorflow.reduction import Reduction

__all__ = ["DistributedOptimizer"]


class _Distributed(tf.compat.v1.train.Optimizer):  # type: ignore[misc]  # of TensorFlow
    """Reduces what another optimizer computes; everything else is that one's."""

    def __init__(self, optimizer: Any, reduction: Reduction, name: str, use_locking: bool) -> None:
        super().__init__(use_locking, name)
        self._optimizer = optimizer
        self._reduction = reduction

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Pairs of reduced gradient and variable."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        if not pairs:
            return []
        gradients, variables = zip(*pairs, strict=True)
        return list(zip(self._reduction(gradients, variables), variables, strict=True))

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable is not reduced: it is this rank's own."""
        self._reduction.keep_local(var)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's own."""
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's own."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's own."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's own."""
        return self._optimizer.variables(*args, **kwargs)


def DistributedOptimizer(
        optimizer: Any, name: str | None = None, use_locking: bool = False, device_dense: str = "",
        device_sparse: str = "", compression: Any = Compression.none,
        sparse_as_dense: bool = False, op: ReduceOp | str = Average,
        gradient_predivide_factor: float = 1.0, num_groups: int = 0,
        groups: int | Sequence[Sequence[Any]] | None = None,
        process_set: ProcessSet = global_process_set, scale_local_gradients: bool = True) -> Any:
    """An optimizer of tf.compat.v1 whose compute_gradients() is reduced over the ranks.

    Args:
        optimizer: a tf.compat.v1.train.Optimizer.
        name: of this one; None: "Distributed" and the class of ``optimizer``.
        use_locking: as for ``optimizer``.
        device_dense, device_sparse: Horovod's, without effect.

    The other arguments are those of DistributedGradientTape.

    Raises:
        UnsupportedError: ``optimizer`` is of another kind, such as Keras', or ``op`` is Adasum.
    """
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise _native.UnsupportedError(
            f"DistributedOptimizer wraps a tf.compat.v1.train.Optimizer, not a "
            f"{type(optimizer).__name__}; with others, use DistributedGradientTape")
    if reduce_op(op) == Adasum:
        raise _native.UnsupportedError("DistributedOptimizer of TensorFlow has no Adasum")
    reduction = Reduction(compression, sparse_as_dense, reduce_op(op), gradient_predivide_factor,
                          groups or num_groups, process_set, scale_local_gradients)
    return _Distributed(optimizer, reduction, name or f"Distributed{type(optimizer).__name__}",
                        use_locking)
