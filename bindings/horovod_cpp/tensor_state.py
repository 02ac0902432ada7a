"""What a pickled Tensor names, so that files outlive changes of the native module."""

from horovod_cpp import _native


def tensor_from_state(dtype, shape, data, requires_grad):
    """A Tensor of that dtype and shape with the row-major bytes ``data``."""
    return _native._tensor_from_state(dtype, shape, data, requires_grad)
