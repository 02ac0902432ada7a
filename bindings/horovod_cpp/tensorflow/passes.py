"""Backward passes between two communications of an optimizer, in graphs, in tf.function and eagerly."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod_cpp._native import InvalidArgumentError
from horovod_cpp.objects import whole_number
from horovod_cpp.tensorflow.library import as_list
from horovod_cpp.tensorflow.reduction import Reduction, same


def _make_variable(value: Any, name: str) -> Any:
    """Of this rank: neither trained nor saved nor broadcast. Made once, outside loops, branches and
    functions."""
    return tf.compat.v1.Variable(value, trainable=False, use_resource=True, name=name,
                                 collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES])


class Passes:
    """Counts passes modulo ``per_step``, and keeps a tensor for each variable meanwhile.

    ``average``: gradients that are summed are divided by ``per_step``.
    """

    def __init__(self, per_step: int, average: bool) -> None:
        per_step = whole_number("backward_passes_per_step", per_step)
        if per_step < 1:
            raise InvalidArgumentError(
                f"backward_passes_per_step={per_step}; it must be at least 1")
        self.per_step = per_step
        self._divisor = per_step if average else 1
        self._counters: dict[Any, Any] = {}  # by graph
        self._memory: dict[Any, Any] = {}  # by variable

    def summed(self, gradients: Sequence[Any], variables: Sequence[Any],
               reduction: Reduction) -> list[Any]:
        """The sums of gradients so far; after the last pass of a step, reduced. Counts a pass."""
        if self.per_step == 1:
            return reduction(gradients, variables)
        places, added = [], []
        for place, (gradient, variable) in enumerate(zip(gradients, variables, strict=True)):
            if isinstance(gradient, tf.IndexedSlices) and not reduction.sparse_as_dense:
                raise InvalidArgumentError(
                    "gradients of backward_passes_per_step > 1 are summed, which tf.IndexedSlices "
                    "are not; pass sparse_as_dense=True")
            # One that was there in another pass of this optimizer counts as zero.
            if gradient is not None or same(variable) in self._memory:
                places.append(place)
                added.append(tf.zeros(variable.shape, _dtype(variable))
                             if gradient is None else tf.convert_to_tensor(gradient))
        if not places:
            return list(gradients)
        used = [variables[place] for place in places]
        memory = self._memory_of(used)
        sums = as_list(tf.cond(
            self._is_first(),
            lambda: [total.assign(each) for total, each in zip(memory, added)],
            lambda: [total.assign_add(each) for total, each in zip(memory, added)]))
        with tf.control_dependencies(sums), tf.control_dependencies([self.count()]):
            reduced = as_list(tf.cond(
                self._is_first(),
                lambda: reduction([total / tf.cast(self._divisor, total.dtype) for total in sums],
                                  used),
                lambda: [tf.convert_to_tensor(total) for total in sums]))
        results: list[Any] = [None] * len(gradients)
        for place, each in zip(places, reduced, strict=True):
            results[place] = each
        return results

    def kept(self, variables: Sequence[Any]) -> list[Any]:
        """The values that variables had before the first pass of this step."""
        memory = self._memory_of(variables)
        return as_list(tf.cond(
            self._is_first(),
            lambda: [start.assign(variable) for start, variable in zip(memory, variables)],
            lambda: [start.read_value() for start in memory]))

    def count(self) -> Any:
        """Counts a pass."""
        counter = self._counter()
        return counter.assign((counter.read_value() + 1) % self.per_step)

    def if_over(self, gradients: Sequence[Any], then: Callable[[], Any],
                otherwise: Callable[[], Any] = lambda: None) -> Any:
        """What ``then`` does if the pass that made ``gradients`` ended a step, or else ``otherwise``."""
        if self.per_step == 1:
            return then()
        with tf.control_dependencies([each for each in gradients if each is not None]):
            return tf.cond(self._is_first(), lambda: _grouped(then()), lambda: _grouped(otherwise()))

    def _is_first(self) -> Any:
        return tf.equal(self._counter().read_value(), 0)

    def _counter(self) -> Any:
        with tf.init_scope():
            graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
            if graph not in self._counters:
                self._counters[graph] = _make_variable(0, "passes")
            return self._counters[graph]

    def _memory_of(self, variables: Sequence[Any]) -> list[Any]:
        with tf.init_scope():
            for variable in variables:
                if same(variable) not in self._memory:
                    self._memory[same(variable)] = _make_variable(
                        tf.zeros(variable.shape, _dtype(variable)), "of_passes")
        return [self._memory[same(variable)] for variable in variables]


def _dtype(variable: Any) -> Any:
    """Its own, where mixed precision of Keras 2 shows what it is cast to."""
    return getattr(variable, "true_dtype", variable.dtype).base_dtype


def _grouped(done: Any) -> Any:
    return tf.group(*[each for each in tf.nest.flatten(done) if each is not None])
