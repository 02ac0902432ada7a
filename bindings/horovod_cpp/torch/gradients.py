"""PyTorch's gradients on their way through the ranks: what the reducer of C++ asks of a front end.

It decides when they are reduced, and PyTorch's hooks tell it of them. From the start of a reduction
to its end a gradient stays where it is and must not be touched; another backward pass waits for it.
"""

import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar, cast

import torch
from torch.autograd import Variable

from horovod_cpp import _native
from horovod_cpp._native import Adasum, Average, ProcessSet, ReduceOp, Sum
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import compression as compressors
from horovod_cpp.torch import gpu, memory
from horovod_cpp.torch.sparse import coordinate_form, sparse_allreduce_async

_Indices = Sequence[int]
_Named = Sequence[tuple[str, torch.Tensor]]
_PLAIN = (bool, int, float, str, tuple, type(None))
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _no_grad(method: _Method) -> _Method:
    return cast(_Method, short_traceback(torch.no_grad()(method)))


def refuse(text: str) -> NoReturn:
    raise _native.InvalidArgumentError(f"DistributedOptimizer: {text}")


def refuse_data_parallel() -> NoReturn:
    refuse("the model is wrapped in DistributedDataParallel, which averages gradients already; take "
           "the plain optimizer, or a model without that wrapper")


def in_data_parallel(parameter: torch.Tensor) -> bool:
    """Whether PyTorch's DistributedDataParallel has it, which averages gradients by itself."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return False
    wrapper = torch.nn.parallel.DistributedDataParallel
    return any(parameter is each for module in gc.get_objects()
               if issubclass(type(module), wrapper) for each in module.parameters())


def parameters_of(optimizer: torch.optim.Optimizer, named_parameters: Any
                  ) -> list[tuple[str, torch.Tensor]]:
    """(name, parameter) for each of the optimizer that may have a gradient, in its order."""
    names = None if named_parameters is None else _names(named_parameters)
    found = []
    for number, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            name = f"allreduce.noname.{number}.{place}"
            if names is not None:
                if id(parameter) not in names:
                    refuse(f"parameter {place} of group {number}, of shape "
                           f"{list(parameter.shape)}, is not in named_parameters; name all of the "
                           "optimizer's parameters")
                name = names[id(parameter)]
            if memory.has_gradient(parameter):
                with memory.about(f"DistributedOptimizer: '{name}'"):
                    memory.check_kind(parameter)
                found.append((name, parameter))
    # Its names begin with "module."; the model inside may be trained without it.
    if found and all(name.startswith("module.") for name, _ in found) and in_data_parallel(
            found[0][1]):
        refuse_data_parallel()
    return found


def _names(named_parameters: Any) -> dict[int, str]:
    """By id()."""
    kind = type(named_parameters).__name__
    if isinstance(named_parameters, Mapping):
        named_parameters = named_parameters.items()
    pairs: list[Any] = [None]
    if isinstance(named_parameters, Iterable) and not isinstance(named_parameters, torch.nn.Module):
        pairs = list(named_parameters)
    names: dict[str, int] = {}
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            refuse("named_parameters must be pairs (name, parameter), such as "
                   f"model.named_parameters(), not a {kind}")
        if pair[0] in names:
            refuse(f"named_parameters has the name '{pair[0]}' twice")
        names[pair[0]] = id(pair[1])
    if not names:
        refuse("named_parameters is empty; pass model.named_parameters(), or None to number the "
               "parameters")
    return {parameter: name for name, parameter in reversed(names.items())}  # the first of several


def numbered(named: _Named, groups: Any) -> list[list[int]]:
    """Lists of parameters as their numbers."""
    numbers = {id(parameter): number for number, (_, parameter) in enumerate(named)}
    for place, group in enumerate(groups):
        if not isinstance(group, (list, tuple)):
            refuse("groups must be a number of groups, 0 or more, or lists of parameters, not a "
                   f"list with a {type(group).__name__}")
        for each in group:
            if id(each) not in numbers:
                what = (f"tensor of shape {list(each.shape)}" if isinstance(each, torch.Tensor)
                        else type(each).__name__)
                refuse(f"groups[{place}] has a {what} that is not a parameter of the optimizer")
    return [[numbers[id(each)] for each in group] for group in groups]


class Entry:
    """A parameter, with what is known of its gradient."""

    def __init__(self, name: str, parameter: torch.Tensor) -> None:
        self.name = name
        self.parameter = parameter
        self.taken: torch.Tensor | None = None  # by the reducer, and not set aside nor given back
        self.frozen: torch.Tensor | None = None  # a copy of what was taken of a frozen parameter
        self.apart = False  # parameter.grad is another one: backward() has come after that
        self.in_flight: Any = None  # (gradient, its address, its version) while it is reduced
        self.sent: Any = None  # (what is reduced instead of it, a compressor's context)
        self.sparse_call: Any = None  # in flight
        self.accumulated: torch.Tensor | None = None  # sum of what was set aside
        self.windows: torch.Tensor | None = None  # sum of the means of closed windows
        self.sparse_dims = 0  # of gradients in coordinate form, as the ranks agreed; 0: dense
        self.seen_sparse_dims = 0  # of those of this rank
        self.view: Any = None  # its gradient's place in the arena, if it has one
        self._native_view: Any = None  # (its stream, it) as the engine takes it

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
        gradient, self.sent = self.parameter.grad, None
        if not gradient.is_contiguous():
            copy = gradient.contiguous() if self.view is None else self.view.copy_(gradient)
            gradient, self.sent = copy, (copy, None)
        if self.view is None:
            return memory.source(gradient)
        if self._native_view is None or self._native_view[0] != stream:
            self._native_view = stream, memory.wrap(self.view)
        return self._native_view[1]

    def compressed(self, compress: Callable[[Any], Any]) -> Any:
        """What a compressor of Python's makes of its dense gradient."""
        tensor, context = compress(self.taken)
        self.sent = memory.dense(tensor), context
        return memory.source(self.sent[0])

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
            if sys.getrefcount(self.view) > 2:  # an earlier gradient, which the program keeps
                kept, self.view = self.view, self.view.detach()
                kept.data = kept.clone()
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

    def send(self, gradient: torch.Tensor) -> int:
        """It is in flight from now on. Returns its address."""
        address: int = gradient.data_ptr()
        self.in_flight = gradient, address, None if gradient.is_inference() else gradient._version
        return address

    def check_unchanged(self) -> None:
        """Otherwise the optimizer would take a gradient that no other rank has."""
        sent, address, version = self.in_flight
        gradient = self.taken if self.apart else self.parameter.grad
        if gradient is None or gradient is not sent or gradient.data_ptr() != address:
            self.refuse_change("replaced or dropped")
        if version not in (None, gradient._version):
            self.refuse_change("changed")

    def refuse_change(self, change: str) -> NoReturn:
        if in_data_parallel(self.parameter):
            refuse_data_parallel()
        refuse(f"the gradient of '{self.name}' was {change} while it was being reduced, between "
               "backward() and step(); call the optimizer's synchronize() after backward(), before "
               "gradients are clipped or changed")

    # -- what the reducer does to one gradient: see GradientAccess (C++)

    @_no_grad
    def make_room(self) -> None:
        if self.taken is None:
            self.accumulated = _sum(self.accumulated, self.move_gradient())
            return
        if self.in_flight is not None:
            self.check_unchanged()
        self.parameter.grad, self.apart = None, True

    def drop(self) -> None:
        if self.taken is not None and not self.apart:
            self.parameter.grad = None
        self.accumulated = self.windows = self.taken = self.frozen = None
        self.in_flight = self.sent = None
        self.apart = False

    @_no_grad
    def close_window(self, passes: int) -> None:
        gradient = self.move_gradient()
        if gradient is not None and passes > 1:
            gradient.mul_(1 / passes)
        self.windows = _sum(self.windows, gradient)

    def average(self, passes: int) -> None:
        self.close_window(passes)
        self.parameter.grad, self.windows = self.windows, None

    @_no_grad
    def move_to(self, place: _native.Tensor) -> None:
        view = memory.shared(place)
        # Sparse, as the ranks have agreed since; or Module.double() and so on came between.
        if not self.sparse_dims and view.dtype == self.parameter.dtype and (
                view.shape == self.parameter.shape):
            self.set_view(view)

    @_no_grad
    def start_sparse(self, name: str, op: ReduceOp, process_set: ProcessSet) -> Any:
        self.sparse_call = sparse_allreduce_async(cast(torch.Tensor, self.taken), name, op,
                                                  process_set)
        return self.sparse_call

    @_no_grad
    def finish_sparse(self) -> None:
        call, self.sparse_call = self.sparse_call, None
        if call is None:
            return
        replaced = not self.apart and self.parameter.grad is not self.taken
        self.taken = call.synchronize()
        if replaced:
            self.refuse_change("replaced or dropped")


class Gradients:
    """Those of an optimizer's parameters: GradientAccess (C++), for ``_native._GradientReducer``."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.entries: list[Entry] = []
        self.optimizer: Callable[[], Any] = lambda: None  # a weak reference
        self._op, self._process_set = options["op"], options["process_set"]
        self._sparse_as_dense, self._compression = options["sparse_as_dense"], options["compression"]
        self._compresses = wire_of(options) is None  # else the engine does
        self._places: set[int] = set()  # addresses of what was taken
        self._described: tuple[list[Any], str] = ([], "")
        self._agreed = False  # which gradients are sparse
        self._hooks: list[Any] = []
        self._kept: list[Any] = []  # AccumulateGrad nodes, which keep their hooks alive

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

    def _of(self, which: _Indices) -> Iterator[Entry]:
        return map(self.entries.__getitem__, which)

    @_no_grad
    def take(self, which: _Indices, sends: bool) -> tuple[list[Any], bool]:
        dense = []
        new_sparse = False
        for entry in self._of(which):
            gradient = entry.parameter.grad
            is_frozen = gradient is not None and not entry.parameter.requires_grad
            entry.frozen = gradient.clone() if is_frozen else None
            if gradient is not None and gradient.is_sparse:
                new_sparse |= self._look(entry)
            if entry.sparse_dims and not self._sparse_as_dense:
                self._check_sparse_op(entry)
                entry.taken = entry.parameter.grad = coordinates(entry.parameter, entry.sparse_dims)
            else:
                dense.append(entry)
                entry.taken = self._in_place(entry, gradient) if sends else gradient
            entry.apart = False
        if not sends:
            return [], new_sparse
        tensors: list[Any] = self._tensors(dense)
        if len(dense) < len(which):
            of_entry = dict(zip(dense, tensors))
            tensors = [of_entry.get(entry) for entry in self._of(which)]
        return tensors, new_sparse

    def _check_sparse_op(self, entry: Entry) -> None:
        if self._op not in (Average, Sum) and not works_alone(self._process_set):
            refuse(f"the gradient of '{entry.name}' is sparse, and op is {self._op.name}, which "
                   "takes dense ones; give sparse_as_dense=True, or op Average or Sum")

    def _in_place(self, entry: Entry, gradient: torch.Tensor | None) -> torch.Tensor:
        """Where it is reduced: apart from others, if the program gave it to several parameters."""
        gradient = entry.make_dense(gradient)
        address = entry.send(gradient)
        if address in self._places and gradient.numel() > 0:
            gradient = entry.parameter.grad = gradient.clone()
            address = entry.send(gradient)
        self._places.add(address)
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
        """Dense gradients, as the engine takes them."""
        if self._compresses:
            return [entry.compressed(self._compression.compress) for entry in entries]
        streams = {device: gpu.stream_of(device)
                   for device in {entry.parameter.device for entry in entries}}
        return [entry.native(streams[entry.parameter.device]) for entry in entries]

    @_no_grad
    def arrived(self, which: _Indices) -> None:
        for entry in self._of(which):
            sent, entry.sent = entry.sent, None
            if entry.in_flight is not None:
                try:
                    entry.check_unchanged()
                finally:
                    entry.in_flight = None
            if sent is not None:
                tensor, context = sent
                if self._compresses:
                    tensor = self._compression.decompress(tensor, context)
                if entry.taken is not None:
                    entry.taken.copy_(tensor)

    @_no_grad
    def set_aside(self, which: _Indices) -> None:
        for entry in self._of(which):
            entry.accumulated = _sum(entry.accumulated, entry.out_of_view(entry.taken))
            entry.taken, entry.apart = None, False

    @_no_grad
    def give_back(self, which: _Indices) -> None:
        self._places.clear()
        for entry in self._of(which):
            gradient = _sum(entry.accumulated, entry.taken)
            entry.accumulated = entry.taken = entry.frozen = None
            entry.apart = False
            if gradient is None:
                continue
            if entry.sparse_dims and not gradient.is_sparse:
                gradient = gradient.to_sparse(entry.sparse_dims)
            unused = gradient.is_sparse and gradient._nnz() == 0  # by all ranks
            entry.parameter.grad = None if unused else gradient

    def drop(self, which: _Indices) -> None:
        for entry in self._of(which):
            entry.drop()

    def leave(self, which: _Indices) -> None:
        for entry in self._of(which):
            before = entry.frozen
            entry.drop()
            if before is not None:
                entry.parameter.grad = before

    @_no_grad
    def clip(self, which: _Indices, max_norm: float) -> None:
        holders = []
        for parameter in [entry.parameter for entry in self._of(which)]:
            if parameter.grad is not None and parameter.grad.is_sparse:
                # PyTorch's function counts sparse ones, and leaves them as they are.
                parameter.grad = parameter.grad.coalesce()
                values = parameter.grad._values()
                parameter = values.detach()
                parameter.grad = values
            elif parameter.grad is not None and (parameter.grad.is_conj() or parameter.grad.is_neg()):
                # PyTorch 2 scales many at once, and no lazy conjugates among them.
                parameter.grad = parameter.grad.resolve_conj().resolve_neg()
            holders.append(parameter)
        torch.nn.utils.clip_grad_norm_(holders, max_norm)

    def sparse_axes(self) -> list[int]:
        return [max(entry.sparse_dims, entry.seen_sparse_dims, sparse_dims(entry.parameter.grad))
                for entry in self.entries]

    def set_sparse_axes(self, axes: _Indices) -> None:
        for entry, number in zip(self.entries, axes):
            entry.sparse_dims = number
        self._agreed = True

    after_backward = staticmethod(Variable._execution_engine.queue_callback)
    reader = staticmethod(gpu.reading_stream)

    def hook(self, reducer: _native._GradientReducer, first: int = 0) -> None:
        """Lets PyTorch tell the reducer of gradients from this one on, without a frame of Python in the
        backward pass. Also of frozen parameters, which may thaw."""
        for index, entry in enumerate(self.entries[first:], first):
            before, after = reducer.hooks(index)
            parameter = entry.parameter
            needed_gradient = parameter.requires_grad
            parameter.requires_grad_(True)
            self._hooks.append(parameter.register_hook(before))
            if hasattr(parameter, "register_post_accumulate_grad_hook"):
                self._hooks.append(parameter.register_post_accumulate_grad_hook(after))
            else:
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
                self._hooks.append(node.register_hook(after))
                self._kept.append(node)
            parameter.requires_grad_(needed_gradient)


def reducer_of(named: _Named, groups: Any, options: Mapping[str, Any]) -> _native._GradientReducer:
    """When gradients are reduced: DistributedOptimizer's ``options``, which it checks. One thread."""
    gradients = Gradients(options)
    gradients.entries = [Entry(name, parameter) for name, parameter in named]
    buckets = []
    if isinstance(groups, (list, tuple)):
        groups, buckets = None, numbered(named, groups)
    wire = wire_of(options)
    reducer = _native._GradientReducer(gradients, buckets, groups=groups, **{
        **options, "compression": wire,
        "gradient_as_bucket_view": options["gradient_as_bucket_view"] and wire is not None})
    if reducer.active:
        weakref.finalize(reducer, _remove, gradients._hooks)
        gradients.hook(reducer)
    return reducer


def wire_of(options: Mapping[str, Any]) -> _native.Compression | None:
    """How the engine compresses gradients; None: the compressor is Python's."""
    if options["op"] == Adasum:  # which is of what changed, compressed by methods
        compressors.methods(options["compression"])
        return _native.Compression.none
    return compressors.wire(options["compression"])


def add_parameters(reducer: _native._GradientReducer, named: _Named) -> None:
    """Parameters that come later; on all ranks, between two steps."""
    gradients: Gradients = reducer.gradients
    first = len(gradients.entries)
    gradients.entries += [Entry(name, parameter) for name, parameter in named]
    reducer.parameters_added()
    if reducer.active:
        gradients.hook(reducer, first)


def _remove(hooks: list[Any]) -> None:
    for hook in hooks:
        hook.remove()


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
    """The gradient in coordinate form over this many axes, without values if it is missing."""
    gradient = parameter.grad
    if gradient is None or (gradient.is_sparse and gradient._nnz() == 0):
        return coordinate_form(parameter.new_empty(dims, 0, dtype=torch.int64),
                               parameter.new_empty(0, *parameter.shape[dims:]), parameter.shape)
    return gradient if sparse_dims(gradient) == dims else gradient.to_dense().to_sparse(dims)
