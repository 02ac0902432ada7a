"""What a pickled Tensor names, so that files outlive changes of the native module."""

import threading
import weakref
from typing import Any

from horovod_cpp import _native
from horovod_cpp._native import Tensor


class _Body:
    """What all Python objects of one Tensor share: pickle and copy know by it that a parameter of a
    model and one of its optimizer are the same."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __reduce__(self) -> tuple[Any, ...]:
        return body_from_state, _native._tensor_state(self.tensor)


_bodies: weakref.WeakValueDictionary[int, _Body] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """What ``Tensor.__reduce__`` gives."""
    with _lock:
        body = _bodies.get(hash(tensor))
        if body is None:
            body = _bodies[hash(tensor)] = _Body(tensor)
    return tensor_of, (body,)


def tensor_of(body: _Body) -> Tensor:
    """The Tensor that a pickle has under ``body``."""
    return body.tensor


def body_from_state(dtype: str, shape: tuple[int, ...], data: bytes,
                    requires_grad: bool) -> _Body:
    """A new Tensor of that dtype and shape with the row-major bytes ``data``, to be shared."""
    return _Body(_native._tensor_from_state(dtype, shape, data, requires_grad))
