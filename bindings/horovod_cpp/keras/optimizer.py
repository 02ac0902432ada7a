"""DistributedOptimizer of Keras."""

import importlib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, SupportsIndex

from horovod_cpp import _native
from horovod_cpp._native import Average, ProcessSet, ReduceOp, Sum, global_process_set
from horovod_cpp.front_end import reduce_op, variables_of_layers
from horovod_cpp.keras.variables import refuse
from horovod_cpp.keras.version import IS_KERAS_2, keras
from horovod_cpp.objects import whole_number
from horovod_cpp.short_traceback import short_traceback

_Groups = int | Sequence[Sequence[Any]] | None

_version: Any = importlib.import_module(f"horovod_cpp.keras.keras{2 if IS_KERAS_2 else 3}")


class _Distributed:
    """In front of an optimizer's class in the order of inheritance."""

    _hvd: Any  # a Wrapping of Keras' version

    def __init__(self, *args: Any, **options: Any) -> None:
        """Of from_config(), too: an optimizer was made before it got this class."""
        _refuse_another(self)

    def register_local_var(self, variable: Any) -> None:
        """Leaves the variable's gradient as this rank has it; before the first step, on every rank."""
        _refuse_global_norm(self)
        self._hvd.keep_local(variable)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Keras would copy and pickle the plain optimizer, with which a rank trains by itself."""
        _refuse_another(self)

    def __setattr__(self, name: str, value: Any) -> None:
        """A LossScaleOptimizer, which lets a rank whose gradients are not finite step without the
        others, sets this of the optimizer that it wraps, and nothing else tells that it does."""
        if name in ("loss_scale_factor", "_is_wrapped_by_loss_scale_optimizer"):
            raise _native.UnsupportedError(
                "DistributedOptimizer: a LossScaleOptimizer, which compile() makes under the policy "
                "mixed_float16, must be inside: DistributedOptimizer(keras.mixed_precision."
                "LossScaleOptimizer(optimizer)), or set the global policy before you wrap the "
                "optimizer")
        super().__setattr__(name, value)


def _refuse_another(optimizer: Any) -> NoReturn:
    plain = type(optimizer).__name__
    refuse("an optimizer that is wrapped cannot be copied or pickled, nor is another one made of its "
           f"class; wrap a plain one: DistributedOptimizer({plain}.from_config(optimizer.get_config()), "
           "...)")


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
    function that TensorFlow traces, as fit() does. Over several passes, those of
    ``backward_passes_per_step`` or of the optimizer's own ``gradient_accumulation_steps``, each rank
    adds up its gradients, and the sums are reduced in the pass that updates.

    Under the global policy "mixed_float16" the optimizer is wrapped in a LossScaleOptimizer first, as
    compile() would do it: all ranks then see the same infinities. Files have the plain optimizer; see
    ``load_model``.

    Args:
        optimizer: of the Keras that tf.keras is, or of a class derived from one of its; of Keras 2
            also one of keras.optimizers.legacy.
        name, device_dense, device_sparse: Horovod's; not used.
        compression: how gradients travel: a Compression, or its name, such as "fp16".
        sparse_as_dense: make sparse gradients, those of embeddings, dense before they are reduced.
        gradient_predivide_factor: with Average, gradients are divided by it before the sum and
            multiplied by it afterwards.
        op: Average or Sum, or its name.
        num_groups: Horovod's older way to give a number for ``groups``.
        groups: gradients that are reduced together: a number of groups, or lists of variables.
        process_set: the ranks to reduce over; a rank outside trains on its own.
        backward_passes_per_step: updates happen after this many steps, whose gradients are summed
            in Keras 3 in the accumulators of its ``gradient_accumulation_steps``, and so not of an
            optimizer that is built without them.
        average_aggregated_gradients: divide that sum by the number of steps.
        scale_local_gradients: divide gradients of local variables by the number of ranks; see
            PartialDistributedOptimizer.

    Returns:
        ``optimizer``, which keeps its state and has a class derived from its own; under the policy
        "mixed_float16" the LossScaleOptimizer around it.

    Raises:
        TypeError: ``optimizer`` is not an optimizer of this Keras.
        ValueError: ``op`` is another one.
        InvalidArgumentError: before init(), the optimizer is wrapped already, or options exclude
            each other; of Keras 2, it would be replaced by a legacy one.
        UnsupportedError: Keras runs on another backend.
        MismatchError: by the first step, on every rank: the ranks differ in variables or options.
    """
    if not isinstance(optimizer, _version.KINDS):
        raise TypeError("DistributedOptimizer: expected a keras.optimizers.Optimizer of Keras "
                        f"{keras.__version__}, got {optimizer!r}{_remedy(optimizer)}")
    if isinstance(optimizer, _Distributed):
        refuse("the optimizer is wrapped already")
    if groups is not None and num_groups:
        refuse("groups and num_groups exclude each other; groups takes a number too")
    if not _native.is_initialized():
        refuse("called before init(); call init() first")
    op = reduce_op(op)
    if op not in (Average, Sum):
        raise ValueError(f"DistributedOptimizer: op is {op.name}; Keras' optimizers take Average or "
                         "Sum")
    backward_passes_per_step = whole_number("backward_passes_per_step", backward_passes_per_step)
    if backward_passes_per_step < 1:
        refuse(f"backward_passes_per_step={backward_passes_per_step}; it must be at least 1")
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    wrapping = _version.Wrapping(inner, {
        "compression": compression, "op": op, "sparse_as_dense": sparse_as_dense,
        "gradient_predivide_factor": gradient_predivide_factor, "process_set": process_set,
    }, num_groups if groups is None else groups, scale_local_gradients, backward_passes_per_step,
        average_aggregated_gradients)
    if optimizer is inner and keras.mixed_precision.global_policy().name == "mixed_float16":
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    plain = type(optimizer)
    # The name and the module are what files have, and where Keras looks when it reads them.
    optimizer.__class__ = type(plain.__name__, (_Distributed, _version.Hook, plain), {
        "__module__": plain.__module__, "__doc__": plain.__doc__})
    object.__setattr__(optimizer, "_hvd", wrapping)  # past Keras, which tracks what it is given
    if getattr(optimizer, "built", False):
        wrapping.build(optimizer._trainable_variables)
    return optimizer


def _remedy(given: Any) -> str:
    """What to do if it is a name, or an optimizer of something else in this environment."""
    if isinstance(given, (str, dict)):
        return f"; make one with keras.optimizers.get({given!r})"
    if type(given).__module__.startswith("tensorflow."):
        return "; for those of tf.compat.v1 there is horovod_cpp.tensorflow.DistributedOptimizer"
    other, remedy = (("keras", "unset TF_USE_LEGACY_KERAS") if keras.__name__ == "tf_keras" else
                     ("tf_keras", "set TF_USE_LEGACY_KERAS=1"))
    is_one = any(each.__module__.partition(".")[0] == other for each in type(given).__mro__)
    return f"; for those {remedy} before the program starts" if is_one else ""


def _refuse_global_norm(optimizer: Any) -> None:
    """Of gradients of which some are local, each rank has another, and would clip the shared ones by it."""
    if getattr(getattr(optimizer, "inner_optimizer", optimizer), "global_clipnorm", None):
        refuse("local variables of an optimizer with global_clipnorm, whose norm would be another one on "
               "each rank; clip by clipnorm or clipvalue")


@short_traceback
def PartialDistributedOptimizer(optimizer: Any, *args: Any, local_layers: Iterable[Any] = (),
                                **options: Any) -> Any:
    """DistributedOptimizer that does not reduce the gradients of some layers.

    Args:
        local_layers: a layer or several, which are built, and whose variables each rank has for
            itself; on every rank the same.
        args, options: DistributedOptimizer's. With ``scale_local_gradients`` these gradients are
            divided by the number of ranks, as an average would.

    Raises:
        InvalidArgumentError: also where one of ``local_layers`` is not a layer, or is not built, or
            the optimizer of Keras 3 is built, or clips by ``global_clipnorm``.
    """
    variables = variables_of_layers(local_layers, "PartialDistributedOptimizer")
    if getattr(optimizer, "built", False):
        refuse("local layers of an optimizer that is built; wrap it before")
    if variables:
        _refuse_global_norm(optimizer)
    wrapped = DistributedOptimizer(optimizer, *args, **options)
    for variable in variables:
        wrapped.register_local_var(variable)
    return wrapped
