"""A parameter of an optimizer, with what is known of its gradient."""

from typing import Any

import torch

from horovod_cpp.torch import memory


class Entry:
    """A parameter."""

    def __init__(self, name: str, parameter: torch.Tensor) -> None:
        self.name = name
        self.parameter = parameter
        self.taken: torch.Tensor | None = None  # by the reducer, and not set aside nor given back
        self.frozen: torch.Tensor | None = None  # a copy of what was taken of a frozen parameter
        self.apart = False  # parameter.grad is another one: backward() has come after that
        self.travelling: Any = None  # what is in flight
        self.compressed: Any = None  # (what travels, context), with a compressor of Python's
        self.sparse_call: Any = None  # in flight
        self.done: torch.Tensor | None = None  # sum of what was set aside
        self.windows: torch.Tensor | None = None  # sum of the means of closed windows
        self.sparse_dims = 0  # of gradients in coordinate form, as the ranks agreed; 0: dense
        self.seen_sparse_dims = 0  # of those of this rank
        self.view: Any = None  # its gradient's place in the arena, if it has one
        self._native_view: Any = None  # (its stream, it) as the engine takes it
        self.copy: torch.Tensor | None = None  # what is reduced instead of parameter.grad

    def set_view(self, view: torch.Tensor | None) -> None:
        """Its gradient is reduced there from now on; None: anywhere."""
        self.view, self._native_view = view, None
        if view is None:
            return
        self._address = view.data_ptr()
        if self._is_apart():
            return
        if self.parameter.is_contiguous():  # the same, also in the strides of axes of one element
            self.view = view = view.as_strided(view.shape, self.parameter.stride())
        if self.parameter.grad is not None:
            view.copy_(self.parameter.grad)
            self.parameter.grad = view

    def _is_apart(self) -> bool:
        """Whether what is reduced is a copy of the gradient, which has the layout of its parameter as
        PyTorch wants it. The elements travel in the order of the axes: layouts may differ between
        ranks."""
        return not self.parameter.is_contiguous() and memory.fills_its_memory(self.parameter)

    def native(self, stream: int) -> Any:
        """Its dense gradient, as the engine takes it, used in the order of the stream."""
        gradient, self.copy = self.parameter.grad, None
        if not gradient.is_contiguous():
            self.copy = gradient.contiguous() if self.view is None else self.view.copy_(gradient)
        if self.view is None:
            return memory.source(gradient if self.copy is None else self.copy)
        if self._native_view is None or self._native_view[0] != stream:
            self._native_view = stream, memory.wrap(self.view)
        return self._native_view[1]

    def move_gradient(self) -> torch.Tensor | None:
        """The gradient, which is not the parameter's any more, nor in its place in the arena."""
        gradient, self.parameter.grad = self.parameter.grad, None
        return self.out_of_view(gradient)

    def out_of_view(self, gradient: torch.Tensor | None) -> torch.Tensor | None:
        if gradient is None or self.view is None or gradient.is_sparse:
            return gradient
        return gradient.clone() if gradient.data_ptr() == self.view.data_ptr() else gradient

    def make_dense(self, gradient: torch.Tensor | None) -> torch.Tensor:
        """Puts the parameter's gradient where it can be reduced; zeros if there is none."""
        parameter = self.parameter
        if gradient is not None and gradient is self.view and gradient.data_ptr() == self._address:
            return gradient  # as in most steps
        if gradient is not None and gradient.is_sparse:
            gradient = gradient.to_dense()
        if self._has_lost_its_view():
            self.set_view(None)
        apart = self._is_apart()
        if self.view is not None and not apart:
            if gradient is None:
                self.view.zero_()
            else:
                if gradient.data_ptr() == self.view.data_ptr():  # the view as .conj(), .t() and so on
                    gradient = gradient.clone()
                self.view.copy_(gradient)
            parameter.grad = self.view
            return self.view
        if gradient is None:
            gradient = torch.zeros_like(parameter.data)
        gradient = gradient.data  # with a version of its own, if it is part of another
        if not apart or gradient.shape != parameter.shape:
            gradient = memory.dense(gradient)
        elif gradient.stride() != parameter.stride() or gradient.is_conj() or gradient.is_neg():
            gradient = torch.empty_like(parameter.data).copy_(gradient)
        parameter.grad = gradient
        return gradient

    def _has_lost_its_view(self) -> bool:
        """Module.double(), .half(), .cpu() and so on give gradients other memory, views included."""
        return self.view is not None and (
            self.view.data_ptr() != self._address or self.view.dtype != self.parameter.dtype
            or self.view.shape != self.parameter.shape
            or self.view.device != self.parameter.device)
