"""DistributedOptimizer of Keras."""

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import keras

from horovod_cpp import _native
from horovod_cpp._native import Average, ProcessSet, ReduceOp, Sum, global_process_set
from horovod_cpp.front_end import reduce_op
from horovod_cpp.keras.variables import backend, named
from horovod_cpp.objects import whole_number
from horovod_cpp.short_traceback import short_traceback

_Groups = int | Sequence[Sequence[Any]] | None

if TYPE_CHECKING:
    from keras.optimizers import Optimizer as _Wrapped
else:
    _Wrapped = object  # the optimizer's class comes behind in the order of inheritance


def _refuse(text: str) -> Any:
    raise _native.InvalidArgumentError(f"DistributedOptimizer: {text}")


def _reduction() -> Any:
    """The class that reduces gradients of Keras' backend."""
    module = f"horovod_cpp.keras.{backend('DistributedOptimizer')}_reduction"
    return importlib.import_module(module).Reduction


class _Wrapping:
    """What a distributed optimizer knows besides what its plain class does."""

    def __init__(self, options: dict[str, Any], groups: _Groups, scale_local: bool, passes: int,
                 factor: int) -> None:
        self.make_reduction = _reduction()
        self.options, self.groups = options, groups
        self.local: dict[int, Any] = {}  # variables by id()
        self.scale_local = scale_local
        self.passes, self.factor = passes, factor
        self.reduction: Any = None

    def build(self, variables: Sequence[Any]) -> None:
        if self.reduction is None:
            shared = [variable for variable in variables if id(variable) not in self.local]
            self.reduction = self.make_reduction(named(shared), self.groups, self.options,
                                                 overlap=self.passes == 1)

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Of the gradients, those of variables that are not local over the ranks."""
        self.build(variables)
        shared = [place for place, variable in enumerate(variables) if id(variable) not in self.local]
        reduced = self.reduction.reduce([gradients[place] for place in shared],
                                        [variables[place] for place in shared])
        ranks = self.options["process_set"]
        is_scaled = self.scale_local and ranks.included()
        result = [self._times(gradient, 1 / ranks.size()) if is_scaled else gradient
                  for gradient in gradients] if self.local else list(gradients)
        for place, gradient in zip(shared, reduced):
            result[place] = gradient
        return [self._times(gradient, self.factor) for gradient in result]

    @staticmethod
    def _times(gradient: Any, factor: float) -> Any:
        if gradient is None or factor == 1:
            return gradient
        if hasattr(gradient, "dense_shape"):  # tf.IndexedSlices, which have no product
            return type(gradient)(gradient.values * factor, gradient.indices, gradient.dense_shape)
        return gradient * factor


class _Distributed(_Wrapped):  # type: ignore[misc]  # Keras may be missing
    """In front of an optimizer's class in the order of inheritance."""

    _hvd: _Wrapping

    @short_traceback
    def build(self, variables: Sequence[Any]) -> None:
        super().build(variables)
        self._hvd.build(variables)

    @short_traceback
    def apply(self, grads: Sequence[Any], trainable_variables: Iterable[Any] | None = None) -> Any:
        """The wrapped optimizer's, of gradients that are reduced over the ranks before; those of
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

        def update() -> None:
            apply(self._hvd.reduce(_take_accumulated(plain, grads, variables), variables), variables)
            if plain is not self:  # which counts no pass whose gradients are not finite
                plain._iterations.assign(plain._iterations // passes * passes)

        def accumulate() -> None:
            # Past a LossScaleOptimizer: infinities are in the sum that all ranks get, and until then
            # the scale stays as it is.
            (apply if plain is self else plain.apply)(grads, variables)

        return keras.ops.cond((plain._iterations + 1) % passes == 0, update, accumulate)

    def register_local_var(self, variable: Any) -> None:
        """Leaves the variable's gradient as this rank has it; before the first step, on every rank."""
        if self._hvd.reduction is not None:
            _refuse("register_local_var() after the optimizer was built; call it before fit()")
        self._hvd.local[id(variable)] = variable

    def __setattr__(self, name: str, value: Any) -> None:
        """A LossScaleOptimizer, which lets a rank whose gradients are not finite step without the
        others, sets this of the optimizer that it wraps, and nothing else tells that it does."""
        if name == "loss_scale_factor":
            raise _native.UnsupportedError(
                "DistributedOptimizer: a LossScaleOptimizer, which compile() makes under the policy "
                "mixed_float16, must be inside: DistributedOptimizer(keras.optimizers."
                "LossScaleOptimizer(optimizer)), or set the global policy before you wrap the "
                "optimizer")
        super().__setattr__(name, value)


def _take_accumulated(optimizer: Any, grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """The sums of gradients and what Keras has accumulated, which is zeros from then on."""
    accumulated = [optimizer._accumulated_gradients[optimizer._get_variable_index(variable)]
                   for variable in variables]
    scale = optimizer.loss_scale_factor  # Keras has divided by it
    sums = [gradient if gradient is None else gradient + (before if scale is None else before * scale)
            for gradient, before in zip(grads, accumulated)]
    for each in accumulated:  # Keras would multiply infinities by 0 with the backend "torch"
        each.assign(keras.ops.zeros_like(each))
    return sums


@short_traceback
def DistributedOptimizer(optimizer: Any, name: str | None = None, device_dense: str = "",
                         device_sparse: str = "", compression: Any = None,
                         sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
                         op: ReduceOp | str = Average, num_groups: int = 0, groups: _Groups = None,
                         process_set: ProcessSet = global_process_set,
                         backward_passes_per_step: int = 1,
                         average_aggregated_gradients: bool = False,
                         scale_local_gradients: bool = True) -> Any:
    """Wrap a Keras optimizer: ``apply()``, which ``model.fit`` calls, reduces gradients over all ranks
    before the optimizer clips and applies them.

    Gradients are reduced while the backward pass still runs; with the backend "tensorflow" in a
    function that TensorFlow traces, as fit() does. Of several passes, those of
    ``backward_passes_per_step`` or of the optimizer's own ``gradient_accumulation_steps``, each rank
    adds up its gradients, and the sums are reduced in the pass that updates.

    Under the global policy "mixed_float16" the optimizer is wrapped in a LossScaleOptimizer first, as
    compile() would do it: all ranks then see the same infinities. Files have the plain optimizer; see
    ``load_model``.

    Args:
        optimizer: of Keras 3, or of a class derived from one of its.
        name, device_dense, device_sparse: Horovod's; not used.
        compression: how gradients travel: a Compression, or its name, such as "fp16".
        sparse_as_dense: make sparse gradients, those of embeddings, dense before they are reduced.
        gradient_predivide_factor: with Average, gradients are divided by it before the sum and
            multiplied by it afterwards.
        op: Average or Sum, or its name.
        num_groups: Horovod's older way to give a number for ``groups``.
        groups: gradients that are reduced together: a number of groups, or lists of variables.
        process_set: the ranks to reduce over; a rank outside trains on its own.
        backward_passes_per_step: updates take place after so many steps, whose gradients are summed
            in the accumulators of Keras' ``gradient_accumulation_steps``. Not of an optimizer that is
            built.
        average_aggregated_gradients: divide that sum by the number of steps.
        scale_local_gradients: divide gradients of local variables by the number of ranks; see
            PartialDistributedOptimizer.

    Returns:
        ``optimizer``, which keeps its state and has a class derived from its own; under the policy
        "mixed_float16" the LossScaleOptimizer around it.

    Raises:
        TypeError: ``optimizer`` is no Keras optimizer.
        ValueError: ``op`` is another one.
        InvalidArgumentError: before init(), the optimizer is wrapped already, or options exclude
            each other.
        UnsupportedError: Keras runs on another backend.
        MismatchError: by the first step, on every rank: the ranks differ in variables or options.
    """
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError("DistributedOptimizer: expected a keras.optimizers.Optimizer of Keras 3, got a "
                        f"{type(optimizer)}")
    if isinstance(optimizer, _Distributed):
        _refuse("the optimizer is wrapped already")
    if groups is not None and num_groups:
        _refuse("groups and num_groups exclude each other; groups takes a number too")
    if not _native.is_initialized():
        _refuse("called before init()")
    op = reduce_op(op)
    if op not in (Average, Sum):
        raise ValueError(f"DistributedOptimizer: op is {op.name}; Keras' optimizers take Average or "
                         "Sum")
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    passes = _passes(inner, backward_passes_per_step)
    wrapping = _Wrapping({
        "compression": compression, "op": op, "sparse_as_dense": sparse_as_dense,
        "gradient_predivide_factor": gradient_predivide_factor, "process_set": process_set,
    }, num_groups if groups is None else groups, scale_local_gradients, passes,
        # Keras averages what it accumulates, and Horovod adds it up.
        1 if average_aggregated_gradients else backward_passes_per_step)
    if passes > 1:
        inner.gradient_accumulation_steps = passes
    if optimizer is inner and keras.config.dtype_policy().name == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    plain = type(optimizer)
    # The name and the module are what files have, and where Keras looks when it reads them.
    optimizer.__class__ = type(plain.__name__, (_Distributed, plain), {
        "__module__": plain.__module__, "__doc__": plain.__doc__})
    object.__setattr__(optimizer, "_hvd", wrapping)  # past Keras, which tracks what it is given
    if optimizer.built:
        wrapping.build(optimizer._trainable_variables)
    return optimizer


def _passes(optimizer: Any, passes: int) -> int:
    """Of an update."""
    passes = whole_number("backward_passes_per_step", passes)
    if passes < 1:
        _refuse(f"backward_passes_per_step={passes}; it must be at least 1")
    if passes == 1:
        return optimizer.gradient_accumulation_steps or 1
    if optimizer.built:
        _refuse("backward_passes_per_step of an optimizer that is built, which has no accumulators; "
                "wrap it before")
    if optimizer.gradient_accumulation_steps:
        _refuse("backward_passes_per_step and the optimizer's gradient_accumulation_steps exclude "
                "each other")
    return passes


@short_traceback
def PartialDistributedOptimizer(optimizer: Any, *args: Any, local_layers: Iterable[Any] = (),
                                **options: Any) -> Any:
    """DistributedOptimizer that leaves the gradients of some layers as each rank has them.

    Args:
        local_layers: a layer or several, which are built, and whose variables each rank has for
            itself; on every rank the same.
        args, options: DistributedOptimizer's. With ``scale_local_gradients`` these gradients are
            divided by the number of ranks, as an average would.
    """
    layers = [local_layers] if isinstance(local_layers, keras.layers.Layer) else list(local_layers)
    for layer in layers:
        if not isinstance(layer, keras.layers.Layer):
            raise TypeError("PartialDistributedOptimizer: local_layers has a "
                            f"{type(layer).__name__}, which is not a layer")
        if not layer.built:
            _refuse(f"the local layer {layer.name!r} is not built, so it has no variables yet; call "
                    "model.build() before")
    if getattr(optimizer, "built", False):
        _refuse("local layers of an optimizer that is built; wrap it before")
    wrapped = DistributedOptimizer(optimizer, *args, **options)
    for layer in layers:
        for variable in layer.trainable_variables:
            wrapped.register_local_var(variable)
    return wrapped
