"""How optimizers of Keras 2, new and legacy ones, reduce gradients: before ``apply_gradients()``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from horovod_cpp.keras.variables import refuse
from horovod_cpp.keras.version import keras
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.tensorflow.passes import Passes
from horovod_cpp.tensorflow.reduction import Reduction

KINDS = (keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)

if TYPE_CHECKING:
    from keras.optimizers import Optimizer as _Wrapped
else:
    _Wrapped = object  # the optimizer's class comes behind in the order of inheritance


class Wrapping:
    """What a distributed optimizer knows in addition to its plain class."""

    def __init__(self, optimizer: Any, options: dict[str, Any], groups: Any, scale_local: bool,
                 passes: int, is_averaged: bool) -> None:
        if isinstance(optimizer, KINDS[0]) and not tf.__internal__.tf2.enabled():
            refuse("without TensorFlow 2's behavior Keras would replace this optimizer by one of "
                   "keras.optimizers.legacy, which is not wrapped; pass one of those")
        if passes > 1 and not tf.compat.v1.executing_eagerly_outside_functions():
            refuse("backward_passes_per_step in a graph of tf.compat.v1, where Keras initializes no "
                   "variables except its own; leave eager execution enabled")
        self.reduction = Reduction(groups=groups, scale_local_gradients=scale_local, **options)
        self.passes = Passes(passes, is_averaged)
        self.process_set = options["process_set"]
        self.local: dict[int, Any] = {}  # variables by id()

    def keep_local(self, variable: Any) -> None:
        self.local[id(variable)] = variable
        self.reduction.keep_local(variable)


class Hook(_Wrapped):  # type: ignore[misc]  # Keras may be missing
    """In front of an optimizer's class in the order of inheritance."""

    _hvd: Wrapping

    @short_traceback
    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]], *args: Any,
                        **options: Any) -> Any:
        """The wrapped optimizer's, of gradients that are first reduced over the ranks, unless the
        caller says that they are aggregated; those of several passes as their sum, in the last."""
        apply, pairs = super().apply_gradients, list(grads_and_vars)
        if (not pairs or options.get("skip_gradients_aggregation")
                or not options.get("experimental_aggregate_gradients", True)):
            return apply(pairs, *args, **options)
        gradients, variables = zip(*pairs)
        reduced = self._hvd.passes.summed(gradients, variables, self._hvd.reduction)
        return self._hvd.passes.if_over(
            reduced, lambda: apply(list(zip(reduced, variables)), *args, **options))
