"""Gradients of Keras' backend "tensorflow", by operations of horovod_cpp.tensorflow."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod_cpp import _native, from_numpy
from horovod_cpp.front_end import check_same_setup
from horovod_cpp.keras.variables import values_of
from horovod_cpp.tensorflow.reduction import Reduction as _Reduction


class Reduction:
    """In a graph gradients are reduced in buckets of some MiB, each as soon as it is there."""

    def __init__(self, named: Sequence[tuple[str, Any]], groups: Any, options: dict[str, Any],
                 overlap: bool) -> None:
        self._reduce, self._set = _Reduction(groups=groups, **options), options["process_set"]
        self._named = named  # until the ranks have compared them

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any], broadcast_follows: bool
               ) -> Sequence[Any]:
        if self._named and self._set.included():
            self._compare(broadcast_follows)
            self._named = []
        return self._reduce(gradients, variables)

    def _compare(self, broadcast_follows: bool) -> None:
        names = [name for name, _ in self._named]
        check_same_setup("DistributedOptimizer", [f"'{name}'" for name in names], self._set)
        with tf.init_scope():  # the values there are now, while a function is traced
            if broadcast_follows or not tf.executing_eagerly():
                return
            values = values_of([variable for _, variable in self._named])
        _native._compare_values("DistributedOptimizer of Keras",
                                list(zip(names, map(from_numpy, values))), self._set)
