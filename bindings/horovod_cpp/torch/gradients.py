"""PyTorch's gradients, as the reducer of C++ sees them: what GradientAccess asks of a front end.

They stay where they are while they are reduced, and must not be touched there.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch.autograd import Variable

from horovod_cpp import _native
from horovod_cpp._native import Average, Sum
from horovod_cpp.torch import gpu, memory
from horovod_cpp.torch.entries import Entry
from horovod_cpp.torch.in_flight import Travelling, check_unchanged, refuse_change
from horovod_cpp.torch.named_parameters import refuse
from horovod_cpp.torch.sparse import coordinate_form, sparse_allreduce_async

_Indices = Sequence[int]


_PLAIN = (bool, int, float, str, tuple, type(None))
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _no_grad(method: _Method) -> _Method:
    return cast(_Method, torch.no_grad()(method))


class Gradients:
    """Those of an optimizer's parameters. Called by ``_native._GradientReducer`` alone."""

    def __init__(self, entries: list[Entry], options: Any) -> None:
        self.entries = entries
        self._options = options
        self._wire = options.wire  # None: the compressor is Python's
        self.optimizer: Callable[[], Any] = lambda: None  # a weak reference
        self._places: set[int] = set()  # addresses of what was taken
        self._described: tuple[list[Any], str] = ([], "")
        self._agreed = False  # which gradients are sparse

    def parameters(self) -> list[tuple[str, list[int], str, int | None, int]]:
        return [(entry.name, list(entry.parameter.shape), memory.name_of(entry.parameter.dtype),
                 entry.parameter.device.index if gpu.is_gpus(entry.parameter) else None,
                 id(entry.parameter))
                for entry in self.entries]

    def trained(self) -> list[bool]:
        return [entry.parameter.requires_grad for entry in self.entries]

    def options(self) -> str:
        optimizer = self.optimizer()
        if optimizer is None:
            return ""
        values = [value for group in optimizer.param_groups for value in group.values()
                  if isinstance(value, _PLAIN)]
        if self._described[0] != values:  # asked at each step, and rarely another answer
            self._described = values, described(optimizer)
        return self._described[1]

    def value(self, index: int) -> _native.Tensor:
        return memory.source(self.entries[index].parameter.detach().cpu())

    @_no_grad
    def take(self, which: _Indices, sends: bool) -> tuple[list[Any], bool]:
        dense = []
        new_sparse = False
        for index in which:
            entry = self.entries[index]
            gradient = entry.parameter.grad
            is_frozen = gradient is not None and not entry.parameter.requires_grad
            entry.frozen = gradient.clone() if is_frozen else None
            if gradient is not None and gradient.is_sparse:
                new_sparse |= self._look(entry)
            if entry.sparse_dims and not self._options.sparse_as_dense:
                self._check_sparse_op(entry)
                entry.taken = entry.parameter.grad = coordinates(entry.parameter, entry.sparse_dims)
            else:
                dense.append(entry)
                entry.taken = self._in_place(entry, gradient) if sends else gradient
            entry.apart = False
        if not sends:
            return [], new_sparse
        tensors = self._tensors(dense)
        if len(dense) < len(which):
            of_entry = dict(zip(dense, tensors))
            tensors = [of_entry.get(self.entries[index]) for index in which]
        return tensors, new_sparse

    def _check_sparse_op(self, entry: Entry) -> None:
        options = self._options
        if options.op not in (Average, Sum) and not works_alone(options.process_set):
            refuse(f"the gradient of '{entry.name}' is sparse, and op is {options.op.name}, which "
                   "takes dense ones; give sparse_as_dense=True, or op Average or Sum")

    def _in_place(self, entry: Entry, gradient: torch.Tensor | None) -> torch.Tensor:
        """Where it is reduced: apart from others, if the program gave it to several parameters."""
        gradient = entry.make_dense(gradient)
        entry.travelling = Travelling(gradient)
        if entry.travelling.address in self._places and gradient.numel() > 0:
            gradient = entry.parameter.grad = gradient.clone()
            entry.travelling = Travelling(gradient)
        self._places.add(entry.travelling.address)
        return gradient

    def _look(self, entry: Entry) -> bool:
        """At a sparse one. Before the ranks agreed what is sparse, that is as it is here. Whether it is
        against that."""
        seen = sparse_dims(entry.parameter.grad)
        entry.seen_sparse_dims = max(entry.seen_sparse_dims, seen)
        if not self._agreed:
            entry.sparse_dims = entry.sparse_dims or seen
        return seen > 0 and not entry.sparse_dims

    def _tensors(self, entries: list[Entry]) -> list[_native.Tensor]:
        if self._wire is not None:
            return natives(entries)
        for entry in entries:
            compressed, context = self._options.compression.compress(entry.taken)
            entry.compressed = memory.dense(compressed), context
        return [memory.source(entry.compressed[0]) for entry in entries]

    @_no_grad
    def arrived(self, which: _Indices) -> None:
        for index in which:
            entry = self.entries[index]
            if entry.travelling is not None:
                try:
                    check_unchanged(entry)
                finally:
                    entry.travelling = None
            copy, entry.copy = entry.copy, None
            if copy is not None and entry.taken is not None:
                entry.taken.copy_(copy)
            if entry.compressed is not None and entry.taken is not None:
                (tensor, context), entry.compressed = entry.compressed, None
                entry.taken.copy_(self._options.compression.decompress(tensor, context))

    @_no_grad
    def make_room(self, index: int) -> None:
        entry = self.entries[index]
        if entry.taken is None:
            entry.done = _sum(entry.done, entry.move_gradient())
            return
        if entry.travelling is not None:
            check_unchanged(entry)
        entry.parameter.grad, entry.apart = None, True

    @_no_grad
    def set_aside(self, which: _Indices) -> None:
        for index in which:
            entry = self.entries[index]
            entry.done = _sum(entry.done, entry.out_of_view(entry.taken))
            entry.taken, entry.apart = None, False

    @_no_grad
    def give_back(self, which: _Indices) -> None:
        self._places.clear()
        for index in which:
            entry = self.entries[index]
            gradient = entry.taken if entry.done is None else _sum(entry.done, entry.taken)
            entry.done = entry.taken = entry.frozen = None
            entry.apart = False
            if gradient is None:
                continue
            if entry.sparse_dims and not gradient.is_sparse:
                gradient = gradient.to_sparse(entry.sparse_dims)
            unused = gradient.is_sparse and gradient._nnz() == 0  # by all ranks
            entry.parameter.grad = None if unused else gradient

    def drop(self, which: _Indices) -> None:
        for index in which:
            entry = self.entries[index]
            if entry.taken is not None and not entry.apart:
                entry.parameter.grad = None
            entry.done = entry.windows = entry.taken = entry.frozen = entry.travelling = None
            entry.copy = None
            entry.apart = False

    def leave(self, which: _Indices) -> None:
        for index in which:
            entry = self.entries[index]
            before = entry.frozen
            self.drop([index])
            if before is not None:
                entry.parameter.grad = before

    @_no_grad
    def close_window(self, index: int, passes: int) -> None:
        entry = self.entries[index]
        gradient = entry.move_gradient()
        if gradient is not None and passes > 1:
            gradient.mul_(1 / passes)
        entry.windows = _sum(entry.windows, gradient)

    def average(self, index: int, passes: int) -> None:
        self.close_window(index, passes)
        entry = self.entries[index]
        entry.parameter.grad, entry.windows = entry.windows, None

    @_no_grad
    def clip(self, which: _Indices, max_norm: float) -> None:
        parameters = [self.entries[index].parameter for index in which]
        sparse = [each for each in parameters if each.grad is not None and each.grad.is_sparse]
        if not sparse:
            torch.nn.utils.clip_grad_norm_(parameters, max_norm)
            return
        # PyTorch's function counts those, and leaves them as they are.
        for each in sparse:
            each.grad = each.grad.coalesce()
        gradients = [each.grad for each in parameters if each.grad is not None]
        norms = [torch.linalg.vector_norm(each._values() if each.is_sparse else each)
                 for each in gradients]
        factor = (max_norm / (torch.linalg.vector_norm(torch.stack(norms)) + 1e-6)).clamp(max=1.0)
        for each in parameters:
            if each.grad is not None and not each.grad.is_sparse:
                each.grad.mul_(factor)
        for each in sparse:
            each.grad = each.grad * factor

    @_no_grad
    def move_to(self, index: int, place: _native.Tensor) -> None:
        entry, view = self.entries[index], memory.shared(place)
        # Sparse, as the ranks have agreed since; or Module.double() and so on came between.
        if entry.sparse_dims or view.dtype != entry.parameter.dtype or (
                view.shape != entry.parameter.shape):
            return
        entry.set_view(view)

    def sparse_axes(self) -> list[int]:
        return [max(entry.sparse_dims, entry.seen_sparse_dims, sparse_dims(entry.parameter.grad))
                for entry in self.entries]

    def set_sparse_axes(self, axes: _Indices) -> None:
        for entry, number in zip(self.entries, axes):
            entry.sparse_dims = number
        self._agreed = True

    @_no_grad
    def start_sparse(self, index: int, name: str) -> Any:
        entry, options = self.entries[index], self._options
        entry.sparse_call = sparse_allreduce_async(entry.taken, name, options.op,
                                                   options.process_set)
        return entry.sparse_call._call

    @_no_grad
    def finish_sparse(self, index: int) -> None:
        entry = self.entries[index]
        call, entry.sparse_call = entry.sparse_call, None
        if call is None:
            return
        replaced = not entry.apart and entry.parameter.grad is not entry.taken
        entry.taken = call.synchronize()
        if replaced:
            refuse_change(entry, "replaced or dropped")

    def after_backward(self, function: Callable[[], None]) -> None:
        Variable._execution_engine.queue_callback(function)

    def reader(self, device: int) -> int:
        return gpu.reading_stream(device)


def works_alone(process_set: Any) -> bool:
    return _native.size() == 1 or not process_set.included() or process_set.size() == 1


def _sum(one: torch.Tensor | None, two: torch.Tensor | None) -> torch.Tensor | None:
    if one is None or two is None:
        return two if one is None else one
    return two + one if one.is_sparse else one + two  # PyTorch adds no dense one to a sparse one


def described(optimizer: Any) -> str:
    """Class and options, as GradientAccess has them: what is a number, a name or a few numbers."""
    lines = [f"class\t{type(optimizer).__name__}"]
    for number, group in enumerate(optimizer.param_groups):
        lines += [f"{name} of group {number}\t{value}" for name, value in group.items()
                  if name != "params" and isinstance(value, _PLAIN)]
    return "\n".join(lines) + "\n"


def sparse_dims(gradient: torch.Tensor | None) -> int:
    """How many axes its coordinates have; 0 for a dense one, and for one that zero_() has emptied,
    which takes all axes for sparse."""
    if gradient is None or not gradient.is_sparse:
        return 0
    return gradient.sparse_dim() if gradient._nnz() > 0 or gradient.dense_dim() > 0 else 0


def coordinates(parameter: torch.Tensor, dims: int) -> torch.Tensor:
    """The parameter's gradient in coordinate form over so many axes, without values if it is missing."""
    gradient = parameter.grad
    if gradient is None or (gradient.is_sparse and gradient._nnz() == 0):
        return coordinate_form(parameter.new_empty(dims, 0, dtype=torch.int64),
                               parameter.new_empty(0, *parameter.shape[dims:]), parameter.shape)
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
