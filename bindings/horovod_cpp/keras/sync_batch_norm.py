"""Batch normalization over the batches of all ranks."""

import importlib
import math
from typing import Any

from horovod_cpp import _native
from horovod_cpp._native import Sum, global_process_set
from horovod_cpp.keras.variables import backend
from horovod_cpp.keras.version import IS_KERAS_2, keras

ops: Any = getattr(keras, "ops", None)  # which Keras 2 has not


@keras.saving.register_keras_serializable("horovod_cpp")
class SyncBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]  # Keras may be missing
    """keras.layers.BatchNormalization whose mean and variance in training are those of all ranks'
    batches together, which may differ in size and be empty.

    In inference, and in a job of one rank, it is the plain layer. All ranks run the same layers in
    the same order.

    Args:
        fused: Horovod's; only False.
        options: keras.layers.BatchNormalization's.

    Raises:
        UnsupportedError: ``fused`` is true, or this is Keras 2; from the call, Keras' backend is
            neither "tensorflow" nor "torch".
    """

    def __init__(self, *, fused: bool = False, **options: Any) -> None:
        if IS_KERAS_2:
            raise _native.UnsupportedError(
                f"SyncBatchNormalization needs Keras 3, and this is Keras {keras.__version__}")
        if fused:
            raise _native.UnsupportedError("SyncBatchNormalization does not support fused=True")
        super().__init__(**options)

    def _moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        mean, variance = super()._moments(inputs, mask)
        if not _native.is_initialized() or global_process_set.size() == 1:
            return mean, variance
        # Sums of squares lose digits where the mean is large; float64 has them to spare.
        count = self._count(inputs, mask, mean)
        is_empty = ops.equal(count, 0)
        own_mean = ops.where(is_empty, 0.0, ops.cast(mean, "float64"))
        own_variance = ops.where(is_empty, 0.0, ops.cast(variance, "float64"))
        own = ops.stack([count, count * own_mean, count * (own_variance + ops.square(own_mean))])
        collectives = importlib.import_module(f"horovod_cpp.{backend('SyncBatchNormalization')}")
        total, values, squares = ops.unstack(collectives.allreduce(own, op=Sum))
        joint_mean = values / total
        joint_variance = squares / total - ops.square(joint_mean)
        return ops.cast(joint_mean, mean.dtype), ops.cast(joint_variance, variance.dtype)

    def _count(self, inputs: Any, mask: Any, mean: Any) -> Any:
        """Of this rank's values, per channel: float64 of the shape of ``mean``."""
        if mask is None:
            shape = ops.shape(inputs)
            counted = math.prod(shape[axis] for axis in self._reduction_axes)
            return ops.broadcast_to(ops.cast(counted, "float64"), ops.shape(mean))
        counted = ops.broadcast_to(ops.expand_dims(mask, -1), ops.shape(inputs))
        return ops.sum(ops.cast(counted, "float64"), self._reduction_axes)
