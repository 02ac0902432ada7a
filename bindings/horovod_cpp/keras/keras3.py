"""How optimizers of Keras 3 reduce gradients: before ``apply()``, on the backends "tensorflow" and
"torch"."""

import importlib
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from horovod_cpp import Min
from horovod_cpp.keras.variables import backend, named, refuse
from horovod_cpp.keras.version import keras
from horovod_cpp.short_traceback import short_traceback

KINDS = (keras.optimizers.Optimizer,)

if TYPE_CHECKING:
    from keras.optimizers import Optimizer as _Wrapped
else:
    _Wrapped = object  # the optimizer's class comes behind in the order of inheritance

_wrappings: weakref.WeakSet["Wrapping"] = weakref.WeakSet()  # of all optimizers that live


class Wrapping:
    """What a distributed optimizer knows in addition to its plain class."""

    def __init__(self, optimizer: Any, options: dict[str, Any], groups: Any, scale_local: bool,
                 passes: int, is_averaged: bool) -> None:
        self.passes = _passes(optimizer, passes)
        # Keras averages what it accumulates, and Horovod adds it up.
        self.factor = 1 if is_averaged else passes
        self.of_backend = importlib.import_module(
            f"horovod_cpp.keras.{backend('DistributedOptimizer')}_reduction")
        self.options, self.groups, self.process_set = options, groups, options["process_set"]
        self.local: dict[int, Any] = {}  # variables by id()
        self.added: set[int] = set()  # variables that have had gradients, by id()
        self.scale_local = scale_local
        self.broadcast_follows = False  # a callback's, after the first step
        self.reduction: Any = None
        if self.passes > 1:
            optimizer.gradient_accumulation_steps = self.passes
        _wrappings.add(self)
        for each in _wrappings:
            each._let_overlap()

    def keep_local(self, variable: Any) -> None:
        if self.reduction is not None:
            refuse("register_local_var() after the optimizer was built; call it before fit()")
        self.local[id(variable)] = variable

    def build(self, variables: Sequence[Any]) -> None:
        if self.reduction is None:
            shared = [variable for variable in variables if id(variable) not in self.local]
            # In the names, which ranks compare: others are not paired with these.
            passes = f" (backward_passes_per_step={self.passes})" if self.passes > 1 else ""
            self.reduction = self.of_backend.Reduction(
                [(name + passes, variable) for name, variable in named(shared)], self.groups,
                self.options)
            self._let_overlap()

    def _let_overlap(self) -> None:
        """Only where a backward pass is for this optimizer: with PyTorch that of a GAN's generator would
        start to reduce gradients of the discriminator, which the program then drops."""
        if self.reduction is not None:
            self.reduction.let_overlap(self.passes == 1 and len(_wrappings) == 1)

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Of the gradients, those of variables that are not local over the ranks."""
        self.build(variables)
        shared = [place for place, variable in enumerate(variables) if id(variable) not in self.local]
        reduced = self.reduction.reduce([gradients[place] for place in shared],
                                        [variables[place] for place in shared],
                                        self.broadcast_follows)
        self._let_overlap()  # again, if another optimizer is gone
        is_scaled = self.scale_local and self.process_set.included()
        result = [self._times(gradient, 1 / self.process_set.size()) if is_scaled else gradient
                  for gradient in gradients] if self.local else list(gradients)
        for place, gradient in zip(shared, reduced):
            result[place] = gradient
        return [self._times(gradient, self.factor) for gradient in result]

    def on_all_ranks(self, is_finite: Any) -> Any:
        """Whether every rank's local gradients are finite as well; the others are the same on all."""
        if not self.local or not self.process_set.included():
            return is_finite
        collectives = importlib.import_module(f"horovod_cpp.{backend('DistributedOptimizer')}")
        own = keras.ops.cast(is_finite, "int32")
        return keras.ops.cast(collectives.allreduce(own, op=Min, process_set=self.process_set), "bool")

    @staticmethod
    def _times(gradient: Any, factor: float) -> Any:
        if gradient is None or factor == 1:
            return gradient
        if hasattr(gradient, "dense_shape"):  # tf.IndexedSlices, which have no product
            return type(gradient)(gradient.values * factor, gradient.indices, gradient.dense_shape)
        return gradient * factor


class Hook(_Wrapped):  # type: ignore[misc]  # Keras may be missing
    """In front of an optimizer's class in the order of inheritance."""

    _hvd: Wrapping

    @short_traceback
    def build(self, variables: Sequence[Any]) -> None:
        super().build(variables)
        self._hvd.build(variables)

    @short_traceback
    def apply(self, grads: Sequence[Any], trainable_variables: Iterable[Any] | None = None) -> Any:
        """The wrapped optimizer's, of gradients that are first reduced over the ranks; those of
        several passes as their sum, in the pass that updates."""
        variables = list(self._trainable_variables if trainable_variables is None
                         else trainable_variables)
        apply, passes = super().apply, self._hvd.passes
        if not len(variables) == len(grads) > 0:  # Keras says what is wrong
            return apply(grads, trainable_variables and variables)
        if passes == 1:
            return apply(self._hvd.reduce(grads, variables), variables)
        if not self.built:
            with keras.name_scope(self.name):
                self.build(variables)
        plain: Any = getattr(self, "inner_optimizer", self)
        # One that is missing in a pass counts as zero if it was there in another.
        self._hvd.added.update(id(variable) for gradient, variable in zip(grads, variables)
                               if gradient is not None)

        def update() -> None:
            sums = _take_accumulated(plain, grads, variables, self._hvd.added)
            apply(self._hvd.reduce(sums, variables), variables)
            if plain is not self:  # which counts no pass whose gradients are not finite
                plain._iterations.assign(plain._iterations // passes * passes)

        def accumulate() -> None:
            # Past a LossScaleOptimizer: infinities are in the sum that all ranks get, and until then
            # the scale stays as it is.
            (apply if plain is self else plain.apply)(grads, variables)

        return keras.ops.cond((plain._iterations + 1) % passes == 0, update, accumulate)

    def check_finite(self, grads: Sequence[Any]) -> Any:
        """By which a LossScaleOptimizer skips a step: all ranks do, or none."""
        return self._hvd.on_all_ranks(super().check_finite(grads))


def _take_accumulated(optimizer: Any, grads: Sequence[Any], variables: Sequence[Any],
                      added: set[int]) -> list[Any]:
    """The sums of gradients and what Keras has accumulated, which is zeros from then on; None of
    variables that are not in ``added``."""
    accumulated = [optimizer._accumulated_gradients[optimizer._get_variable_index(variable)]
                   for variable in variables]
    scale = optimizer.loss_scale_factor  # Keras has divided by it
    sums = [(0 if gradient is None else gradient) + (before if scale is None else before * scale)
            if id(variable) in added else None
            for gradient, before, variable in zip(grads, accumulated, variables)]
    for each in accumulated:  # Keras would multiply infinities by 0 with the backend "torch"
        each.assign(keras.ops.zeros_like(each))
    return sums


def _passes(optimizer: Any, passes: int) -> int:
    """The number of backward passes per update."""
    own = optimizer.gradient_accumulation_steps or 1
    if passes == own or passes == 1:
        return int(own)
    if own > 1:
        refuse(f"backward_passes_per_step={passes}, and the optimizer's gradient_accumulation_steps "
               f"is {own}; give one of the two")
    if optimizer.built:
        refuse("backward_passes_per_step of an optimizer that is built, which has no accumulators; "
               "wrap it before")
    return passes
