"""Models in files, with the optimizers that trained them."""

from collections.abc import Iterable, Mapping
from typing import Any

from horovod_cpp.keras.optimizer import DistributedOptimizer
from horovod_cpp.keras.version import keras
from horovod_cpp.short_traceback import short_traceback


@short_traceback
def load_model(filepath: Any, custom_optimizers: Iterable[type[Any]] | None = None,
               custom_objects: Mapping[str, Any] | None = None, compression: Any = None,
               **options: Any) -> Any:
    """``keras.saving.load_model``, with the model's optimizer wrapped in a DistributedOptimizer.

    The file of a model whose optimizer was wrapped has the plain one, and loads without this
    package too; the state of the optimizer is kept.

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
    return model
