"""PyTorch's gradients, as the reducer of C++ sees them: what GradientAccess asks of a front end.

They stay where they are while they are reduced, and must not be touched there.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch.autograd import Variable

from horovod_cpp import _native
from horovod_cpp.torch import gpu, memory
from horovod_cpp.torch.entries import Entry
from horovod_cpp.torch.in_flight import Travelling, check_place
from horovod_cpp.torch.sparse import sparse_allreduce_async

_Indices = Sequence[int]


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _no_grad(method: _Method) -> _Method:
    return cast(_Method, torch.no_grad()(method))


class Gradients:
    """Those of an optimizer's parameters. Called by ``_native._GradientReducer`` alone."""

    def __init__(self, entries: list[Entry], options: Any) -> None:
        self.entries = entries
        self._options = options
        self._wire = options.wire  # None: the compressor is Python's

    def parameters(self) -> list[tuple[str, list[int], str, int | None]]:
        return [(entry.name, list(entry.parameter.shape), memory.name_of(entry.parameter.dtype),
                 entry.parameter.device.index if gpu.is_gpus(entry.parameter) else None)
                for entry in self.entries]

    def trained(self) -> list[bool]:
        return [entry.parameter.requires_grad for entry in self.entries]

    def value(self, index: int) -> _native.Tensor:
        return memory.source(self.entries[index].parameter.detach().cpu())

    @_no_grad
    def take(self, which: _Indices, zeros: bool) -> tuple[list[int], list[Any], list[int]]:
        dense, sparse = [], []
        for index in which:
            entry = self.entries[index]
            if not entry.parameter.requires_grad:
                continue
            entry.taken = True
            entry.sparse_dims = entry.sparse_dims or sparse_dims(entry.parameter.grad)
            if entry.sparse_dims and not self._options.sparse_as_dense:
                sparse.append(index)
                continue
            dense.append(index)
            if zeros:
                entry.make_dense()
                entry.travelling = Travelling(entry.parameter.grad)
        return dense, self._tensors(dense) if zeros else [], sparse

    def _tensors(self, dense: _Indices) -> list[_native.Tensor]:
        entries = [self.entries[index] for index in dense]
        if self._wire is not None:
            return natives(entries)
        for entry in entries:
            compressed, context = self._options.compression.compress(entry.parameter.grad)
            entry.compressed = memory.dense(compressed), context
        return [memory.source(entry.compressed[0]) for entry in entries]

    @_no_grad
    def arrived(self, which: _Indices) -> None:
        for index in which:
            entry = self.entries[index]
            check_place(entry)
            if entry.compressed is not None:
                (tensor, context), entry.compressed = entry.compressed, None
                entry.parameter.grad.copy_(self._options.compression.decompress(tensor, context))

    @_no_grad
    def set_aside(self, which: _Indices) -> None:
        for index in which:
            entry = self.entries[index]
            if not entry.taken:
                continue
            entry.taken, entry.travelling = False, None
            gradient, entry.parameter.grad = entry.parameter.grad, None
            if gradient is not None and entry.view is not None:
                gradient = gradient.clone()
            entry.done = _sum(entry.done, gradient)

    @_no_grad
    def give_back(self, which: _Indices) -> None:
        for index in which:
            entry = self.entries[index]
            entry.taken, entry.travelling = False, None
            if entry.done is not None:
                entry.parameter.grad, entry.done = _sum(entry.done, entry.parameter.grad), None
            gradient = entry.parameter.grad
            if entry.sparse_dims and gradient is not None and not gradient.is_sparse:
                entry.parameter.grad = gradient.to_sparse(entry.sparse_dims)

    def drop(self) -> None:
        for entry in self.entries:
            entry.done, entry.travelling, entry.taken = None, None, False

    @_no_grad
    def scale(self, index: int, factor: float) -> None:
        gradient = self.entries[index].parameter.grad
        if gradient is not None:
            gradient.mul_(factor)

    def clip(self, max_norm: float) -> None:
        torch.nn.utils.clip_grad_norm_(
            [entry.parameter for entry in self.entries if entry.parameter.grad is not None],
            max_norm)

    @_no_grad
    def move_to(self, index: int, place: _native.Tensor) -> None:
        self.entries[index].set_view(memory.shared(place))

    def sparse_axes(self) -> list[int]:
        return [entry.sparse_dims or sparse_dims(entry.parameter.grad) for entry in self.entries]

    def set_sparse_axes(self, axes: _Indices) -> None:
        for entry, number in zip(self.entries, axes):
            entry.sparse_dims = number

    @_no_grad
    def start_sparse(self, index: int, name: str) -> Any:
        entry, options = self.entries[index], self._options
        gradient = coordinates(entry.parameter, entry.sparse_dims)
        entry.sparse_call = sparse_allreduce_async(gradient, name, options.op, options.process_set)
        return entry.sparse_call._call

    @_no_grad
    def finish_sparse(self, index: int) -> None:
        entry = self.entries[index]
        call, entry.sparse_call = entry.sparse_call, None
        if call is not None:
            entry.parameter.grad = call.synchronize()

    def after_backward(self, function: Callable[[], None]) -> None:
        Variable._execution_engine.queue_callback(function)

    def reader(self, device: int) -> int:
        return gpu.reading_stream(device)


def _sum(one: torch.Tensor | None, two: torch.Tensor | None) -> torch.Tensor | None:
    return two if one is None else one if two is None else one + two


def sparse_dims(gradient: torch.Tensor | None) -> int:
    """How many axes its coordinates have; 0 for a dense one, and for one that was emptied."""
    return gradient.sparse_dim() if gradient is not None and gradient.is_sparse and (
        gradient._nnz() > 0) else 0


def coordinates(parameter: torch.Tensor, dims: int) -> torch.Tensor:
    """The parameter's gradient in coordinate form over so many axes, without values if it is missing."""
    gradient = parameter.grad
    if gradient is None or (gradient.is_sparse and gradient._nnz() == 0):
        return torch.sparse_coo_tensor(parameter.new_empty(dims, 0, dtype=torch.int64),
                                       parameter.new_empty(0, *parameter.shape[dims:]),
                                       parameter.shape)
    return gradient if sparse_dims(gradient) == dims else gradient.to_dense().to_sparse(dims)


def natives(entries: list[Entry]) -> list[_native.Tensor]:
    """The dense gradients of entries, as the engine takes them."""
    streams: dict[torch.device, int] = {}  # looked up once for each device
    tensors = []
    for entry in entries:
        device = entry.parameter.device
        if device not in streams:
            streams[device] = gpu.stream_of(device)
        tensors.append(entry.native(streams[device]))
    return tensors
