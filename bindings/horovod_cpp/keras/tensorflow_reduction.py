"""Gradients of Keras' backend "tensorflow", by operations of horovod_cpp.tensorflow."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod_cpp import from_numpy
from horovod_cpp.front_end import check_same_start
from horovod_cpp.keras.variables import values_of
from horovod_cpp.tensorflow.reduction import Reduction as _Reduction


class Reduction:
    """In a graph gradients are reduced in buckets of some MiB, each as soon as it is there."""

    def __init__(self, named: Sequence[tuple[str, Any]], groups: Any, options: dict[str, Any]) -> None:
        self._reduce, self._set = _Reduction(groups=groups, **options), options["process_set"]
        self._named = list(named)

    def let_overlap(self, allowed: bool) -> None:
        """Nothing: gradients are those that are passed to ``reduce()``."""

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any], broadcast_follows: bool
               ) -> Sequence[Any]:
        if self._named and self._set.included():
            names, own = zip(*self._named)
            check_same_start("DistributedOptimizer", names, None if broadcast_follows else _values(own),
                             self._set)
            self._named = []  # once
        return self._reduce(gradients, variables)


def _values(variables: Sequence[Any]) -> list[Any] | None:
    """None if variables have none yet, which are made while a function is traced, or in a graph."""
    with tf.init_scope():
        if not tf.executing_eagerly():
            return None
        values = values_of(variables)
    known = all(value.shape == tuple(variable.shape) for value, variable in zip(values, variables))
    return list(map(from_numpy, values)) if known else None
