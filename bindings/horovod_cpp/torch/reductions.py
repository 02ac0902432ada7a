"""allreduce, and what all collectives that compute have in common.

Tensors are dense, of any dtype that the engine has, and of any layout where the call is not in
place. They lie on the CPU or, in a job with HVD_GPU_OPERATIONS, on the rank's GPU; gpu.py says how
its streams are kept in order. The synchronous forms that are not in place are part of PyTorch's
graph. ``op`` is Average, Sum, Min, Max, Product, BitAnd, BitOr or (allreduce only) Adasum, or its
name, such as "sum"; gradients exist for Average and Sum. ``name`` pairs a call across ranks; without
one, ranks make their calls of one kind in the same order. A name may be used again when its call has
ended, or once its handle is dropped: then calls of one name run one after another. Results are
bitwise equal on every rank.

Raises (all of them):
    TypeError: something is no dense tensor, or of a dtype that cannot be communicated.
    UnsupportedError: a tensor lies on a GPU, and the job has no collectives of GPUs, or this rank's
        run on another one; or on another kind of device.
    InvalidArgumentError: a mistake on this rank; a ``name`` in flight under a handle that is not
        dropped; tensors of one in-place call share memory, or were given other memory before it ended.
    MismatchError: ranks disagree; on every rank, and the job goes on.
    HorovodInternalError: the job ended.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch

from horovod_cpp import _native
from horovod_cpp._native import Average, ProcessSet, ReduceOp, Sum, global_process_set
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import compression as compressors
from horovod_cpp.torch import forms, memory
from horovod_cpp.torch.compression import Compression
from horovod_cpp.torch.forms import form, name_of_gradient, recorded

__all__ = [
    "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "grouped_allreduce",
    "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_",
]

_Call: TypeAlias = Callable[[Sequence[torch.Tensor], _native.Compression | None],
                            list[torch.Tensor]]


def reduce_op(op: ReduceOp | str | None, average: bool | None = None) -> ReduceOp:
    """The ReduceOp that ``op``, or Horovod's old ``average``, means."""
    if average is not None and op is not None:
        raise _native.InvalidArgumentError("op and average exclude each other; average=True is "
                                           "op=Average, average=False is op=Sum")
    if average is not None:
        return Average if average else Sum
    if isinstance(op, str):
        return _native._reduce_op(op)
    try:
        return Average if op is None else ReduceOp(op)
    except ValueError:
        raise _native.InvalidArgumentError(f"op={op!r} is not a reduction (Average, Sum, Adasum, "
                                           "Min, Max, Product, BitAnd, BitOr)") from None


def check_gradient(op: ReduceOp, call: str) -> None:
    if op not in (Average, Sum):
        raise _native.UnsupportedError(f"{call} with {op.name} has no gradient; give it "
                                       "tensor.detach()")


def compressed(compression: Any, has_wires: bool, tensors: Sequence[torch.Tensor],
               call: _Call) -> list[torch.Tensor]:
    """``call(tensors, wire)`` with what the compression makes of the tensors, and back."""
    compression = compressors.chosen(compression)
    wire = compressors.wire(compression) if has_wires else None
    if wire is not None:
        return call(tensors, wire)
    compression = compressors.methods(compression)
    pairs = [compression.compress(tensor) for tensor in tensors]
    reduced = call([tensor for tensor, _ in pairs], None)
    return [compression.decompress(tensor, context)
            for tensor, (_, context) in zip(reduced, pairs)]


def _reduced(call: str, tensors: Iterable[torch.Tensor], average: bool | None, name: str | None,
             compression: Any, op: ReduceOp | str | None, *factors_and_set: Any
             ) -> list[torch.Tensor]:
    op = reduce_op(op, average)

    def reduce(tensors: Sequence[torch.Tensor],
               wire: _native.Compression | None) -> list[torch.Tensor]:
        *factors, process_set = factors_and_set
        return forms.run(call, tensors, op, name, *factors, wire, process_set)

    def gradients(grads: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        check_gradient(op, call)
        return _reduced(call, grads, None, name_of_gradient(name), compression, op,
                        *factors_and_set)

    # With other reductions the engine does not compress by itself.
    return recorded(lambda given: compressed(compression, op in (Average, Sum), given, reduce),
                    gradients, tensors)


@short_traceback
def allreduce(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
              compression: Any = Compression.none, op: ReduceOp | str | None = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """``postscale_factor * reduction(prescale_factor * tensor)`` over all ranks, a new tensor.

    ``average`` is Horovod's older way to say ``op``. The gradient is the same allreduce.
    """
    return _reduced("allreduce", [tensor], average, name, compression, op, prescale_factor,
                    postscale_factor, process_set)[0]


@short_traceback
def grouped_allreduce(tensors: Iterable[torch.Tensor], average: bool | None = None,
                      name: str | None = None, compression: Any = Compression.none,
                      op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    """allreduce() of several tensors as one call: all or none are reduced. Returns a list."""
    return _reduced("grouped_allreduce", tensors, average, name, compression, op, prescale_factor,
                    postscale_factor, process_set)


def _one(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
         op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
         postscale_factor: float = 1.0,
         process_set: ProcessSet = global_process_set) -> tuple[Any, ...]:
    return ("allreduce", tensor, reduce_op(op, average), name, prescale_factor, postscale_factor,
            None, process_set)


def _several(tensors: Iterable[torch.Tensor], average: bool | None = None, name: str | None = None,
             op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
             postscale_factor: float = 1.0,
             process_set: ProcessSet = global_process_set) -> tuple[Any, ...]:
    return ("grouped_allreduce", tensors, reduce_op(op, average), name, prescale_factor,
            postscale_factor, None, process_set)


def _overwrite(_: str, tensor: torch.Tensor, *arguments: Any) -> torch.Tensor:
    target = memory.target(tensor)
    memory.written(tensor)
    _native.allreduce_(target, *arguments)
    return tensor


allreduce_async = form(
    _one, "allreduce_async", forms.start,
    "allreduce() that returns a Handle; outside of PyTorch's graph.")
allreduce_async_ = form(
    _one, "allreduce_async_", forms.start_in_place,
    "allreduce_() that returns a Handle. Until it ended, ``tensor`` must not be touched.")
allreduce_ = form(
    _one, "allreduce_", _overwrite,
    "allreduce() that overwrites ``tensor``, which must be contiguous, and returns it.")
grouped_allreduce_async = form(
    _several, "grouped_allreduce_async", forms.start,
    "grouped_allreduce() that returns a Handle; outside of PyTorch's graph.")
grouped_allreduce_async_ = form(
    _several, "grouped_allreduce_async_", forms.start_in_place,
    "grouped_allreduce_() that returns a Handle. Until it ended, no tensor must be touched.")
grouped_allreduce_ = form(
    _several, "grouped_allreduce_", forms.all_in_place,
    "grouped_allreduce() that overwrites the tensors, and returns them as a list.")
