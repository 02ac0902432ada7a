"""Models in files, with the optimizers that trained them."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import horovod_cpp
from horovod_cpp.keras.optimizer import DistributedOptimizer
from horovod_cpp.keras.version import keras
from horovod_cpp.short_traceback import short_traceback


@short_traceback
def load_model(filepath: Any, custom_optimizers: Iterable[type[Any]] | None = None,
               custom_objects: Mapping[str, Any] | None = None, compression: Any = None,
               **options: Any) -> Any:
    """``keras.saving.load_model``, with the model's optimizer wrapped in a DistributedOptimizer.

    The file of a model whose optimizer was wrapped has the plain one, and loads without this
    package too; the state of the optimizer is kept. One that adds up gradients of several passes is
    in the file with their number, and without what became of the sum: give
    ``backward_passes_per_step`` again, or ``average_aggregated_gradients=True``. Rank 0 warns where
    neither is given.

    Args:
        filepath: a ``.keras`` file; with Keras 2 also the other formats that it reads.
        custom_optimizers: classes of optimizers that are not Keras' own.
        custom_objects: by name, for Keras.
        compression, options: DistributedOptimizer's.

    Returns:
        The model; not compiled, if the one in the file was not.
    """
    known = {**{each.__name__: each for each in custom_optimizers or ()}, **(custom_objects or {})}
    model = keras.saving.load_model(filepath, custom_objects=known)
    if getattr(model, "optimizer", None) is not None:
        model.optimizer = DistributedOptimizer(model.optimizer, compression=compression, **options)
        _warn_of_passes(model.optimizer, options)
    return model


def _warn_of_passes(optimizer: Any, options: Mapping[str, Any]) -> None:
    plain = getattr(optimizer, "inner_optimizer", optimizer)
    passes = getattr(plain, "gradient_accumulation_steps", None)  # which Keras 2 has not
    if passes and horovod_cpp.rank() == 0 and not options.keys() & {
            "backward_passes_per_step", "average_aggregated_gradients"}:
        warnings.warn(f"load_model: the gradients of {passes} passes are averaged, as Keras does it; "
                      f"give backward_passes_per_step={passes} if they were summed before, or "
                      "average_aggregated_gradients=True", stacklevel=4)
