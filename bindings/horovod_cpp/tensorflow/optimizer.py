"""Optimizers of tf.compat.v1 over the ranks."""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from horovod_cpp import _native
from horovod_cpp._native import Adasum, Average, ProcessSet, ReduceOp, global_process_set
from horovod_cpp.front_end import reduce_op
from horovod_cpp.tensorflow.compression import Compression
from horovod_cpp.tensorflow.passes import Passes
from horovod_cpp.tensorflow.reduction import Reduction

__all__ = ["DistributedOptimizer"]

_Pairs = Iterable[tuple[Any, Any]]


class _Distributed(tf.compat.v1.train.Optimizer):  # type: ignore[misc]  # of TensorFlow
    """Reduces what another optimizer computes; everything else is that one's."""

    def __init__(self, optimizer: Any, reduction: Reduction, passes: Passes, name: str,
                 use_locking: bool) -> None:
        super().__init__(use_locking, name)
        self._optimizer = optimizer
        self._reduction = reduction
        self._passes = passes

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Pairs of reduced gradient and variable; between the steps, what is summed so far."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        if not pairs:
            return []
        gradients, variables = zip(*pairs, strict=True)
        reduced = self._passes.summed(gradients, variables, self._reduction)
        return list(zip(reduced, variables, strict=True))

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable is not reduced: it is this rank's own."""
        self._reduction.keep_local(var)

    def apply_gradients(self, grads_and_vars: _Pairs, global_step: Any = None,
                        name: str | None = None) -> Any:
        """The optimizer's own. With ``backward_passes_per_step`` it only counts the global step, except
        after the last pass of a step."""
        pairs = list(grads_and_vars)
        return self._passes.if_over(
            [gradient for gradient, _ in pairs],
            lambda: self._optimizer.apply_gradients(pairs, global_step, name),
            lambda: None if global_step is None else tf.compat.v1.assign_add(
                global_step, tf.ones([], global_step.dtype)))

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's own."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's own."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's own."""
        return self._optimizer.variables(*args, **kwargs)


class _DistributedDelta(_Distributed):
    """Steps on this rank's gradients in every pass, and after the last one combines what that has
    changed over the ranks."""

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The optimizer's own."""
        pairs: list[tuple[Any, Any]] = self._optimizer.compute_gradients(*args, **kwargs)
        return pairs

    def apply_gradients(self, grads_and_vars: _Pairs, global_step: Any = None,
                        name: str | None = None) -> Any:
        """Steps on this rank, and after the last pass gives the variables what all ranks have made
        of them."""
        pairs = list(grads_and_vars)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        starts = self._passes.kept(variables)
        with tf.control_dependencies(starts):
            step = self._optimizer.apply_gradients(pairs, global_step, name)
        with tf.control_dependencies([step]), tf.control_dependencies([self._passes.count()]):
            return self._passes.if_over([], lambda: self._move(variables, starts))

    def _move(self, variables: Sequence[Any], starts: Sequence[Any]) -> Any:
        deltas = [variable.read_value() - start for variable, start in zip(variables, starts)]
        return tf.group(*[tf.compat.v1.assign(variable, start + delta) for variable, start, delta in
                          zip(variables, starts, self._reduction(deltas, variables))])


def DistributedOptimizer(
        optimizer: Any, name: str | None = None, use_locking: bool = False, device_dense: str = "",
        device_sparse: str = "", compression: Any = Compression.none,
        sparse_as_dense: bool = False, backward_passes_per_step: int = 1,
        op: ReduceOp | str = Average, gradient_predivide_factor: float = 1.0,
        average_aggregated_gradients: bool = False, num_groups: int = 0,
        groups: int | Sequence[Sequence[Any]] | None = None,
        process_set: ProcessSet = global_process_set, scale_local_gradients: bool = True) -> Any:
    """An optimizer of tf.compat.v1 whose compute_gradients() is reduced over the ranks. One of
    Keras is passed to horovod_cpp.keras.DistributedOptimizer with the same options.

    With Adasum each rank steps on its own gradients, and what that has changed is combined instead.

    Args:
        optimizer: a tf.compat.v1.train.Optimizer, or one of Keras.
        name: of this one; None: "Distributed" and the class of ``optimizer``.
        use_locking: as for ``optimizer``.
        device_dense, device_sparse: Horovod's, without effect.
        backward_passes_per_step: ranks communicate once in this many passes. Until then gradients are
            summed, and no variable changes; with Adasum each rank steps by itself. What this has
            to remember is in local variables: a plain session has to run
            tf.compat.v1.local_variables_initializer().
        average_aggregated_gradients: divide that sum by the number of passes; not with Adasum.

    The other arguments are those of DistributedGradientTape.

    Raises:
        TypeError: ``optimizer`` is of another kind.
        InvalidArgumentError: an option does not fit; from compute_gradients, a gradient to be summed
            is a tf.IndexedSlices and ``sparse_as_dense`` is not given.
    """
    if hasattr(optimizer, "get_config"):  # of Keras 3 or 2
        from horovod_cpp.keras import DistributedOptimizer as wrap_keras  # which may be missing

        return wrap_keras(
            optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
            gradient_predivide_factor, op, num_groups, groups, process_set,
            backward_passes_per_step, average_aggregated_gradients, scale_local_gradients)
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise TypeError("DistributedOptimizer: expected a tf.compat.v1.train.Optimizer or an optimizer "
                        f"of Keras, got a {type(optimizer)}")
    op = reduce_op(op)
    if op == Adasum and average_aggregated_gradients:
        raise _native.InvalidArgumentError(
            "average_aggregated_gradients with Adasum, which sums no gradients")
    # A local variable's change is the rank's own, and nothing divides it.
    scale_local = scale_local_gradients and op != Adasum
    reduction = Reduction(compression, sparse_as_dense, op, gradient_predivide_factor,
                          groups or num_groups, process_set, scale_local)
    wrapped = _DistributedDelta if op == Adasum else _Distributed
    return wrapped(optimizer, reduction,
                   Passes(backward_passes_per_step, average_aggregated_gradients),
                   name or f"Distributed{type(optimizer).__name__}", use_locking)
