"""What a pickled Tensor names, so that files outlive changes of the native module."""

from horovod_cpp import _native
from horovod_cpp._native import Tensor


def tensor_from_state(dtype: str, shape: tuple[int, ...], data: bytes,
                      requires_grad: bool) -> Tensor:
    """A Tensor of that dtype and shape with the row-major bytes ``data``."""
    return _native._tensor_from_state(dtype, shape, data, requires_grad)
