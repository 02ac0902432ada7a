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
from horovod_cpp.torch import memory
from horovod_cpp.torch.compression import Compression
from horovod_cpp.torch.handle import Handle
from horovod_cpp.torch.recorded import name_of_gradient, recorded

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


def _has_wires(op: ReduceOp) -> bool:
    """Whether the engine compresses by itself with this reduction."""
    return op in (Average, Sum)


@short_traceback
def allreduce(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
              compression: Any = Compression.none, op: ReduceOp | str | None = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """``postscale_factor * reduction(prescale_factor * tensor)`` over all ranks, a new tensor.

    ``average`` is Horovod's older way to say ``op``. The gradient is the same allreduce.
    """
    op = reduce_op(op, average)

    def call(tensors: Sequence[torch.Tensor],
             wire: _native.Compression | None) -> list[torch.Tensor]:
        sources = memory.Sources(tensors)
        run = sources.call(_native.allreduce, _native.allreduce_)
        return sources.results([run(sources.native[0], op, name, prescale_factor, postscale_factor,
                                    wire, process_set)])

    def gradients(grads: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        check_gradient(op, "allreduce")
        return [allreduce(grads[0], None, name_of_gradient(name), compression, op, prescale_factor,
                          postscale_factor, process_set)]

    return recorded(lambda tensors: compressed(compression, _has_wires(op), tensors, call), gradients,
                    [tensor])[0]


@short_traceback
def allreduce_async(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
                    op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
                    postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce() that returns a Handle; outside of PyTorch's graph."""
    sources = memory.Sources([tensor])
    start = sources.call(_native.allreduce_async, _native.allreduce_async_)
    return Handle(start(sources.native[0], reduce_op(op, average), name, prescale_factor,
                        postscale_factor, None, process_set),
                  lambda result: sources.results([result])[0])


@short_traceback
def allreduce_async_(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
                     op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
                     postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_() that returns a Handle. Until it ended, ``tensor`` must not be touched."""
    targets = memory.Targets([tensor])
    call = _native.allreduce_async_(targets.native[0], reduce_op(op, average), name,
                                    prescale_factor, postscale_factor, None, process_set)
    memory.written(tensor)
    return Handle(call, lambda _: targets.finish()[0])


@short_traceback
def allreduce_(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
               op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
               postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """allreduce() that overwrites ``tensor``, which must be contiguous, and returns it."""
    target = memory.target(tensor)
    memory.written(tensor)
    _native.allreduce_(target, reduce_op(op, average), name, prescale_factor, postscale_factor,
                       None, process_set)
    return tensor


@short_traceback
def grouped_allreduce(tensors: Iterable[torch.Tensor], average: bool | None = None,
                      name: str | None = None, compression: Any = Compression.none,
                      op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    """allreduce() of several tensors as one call: all or none are reduced. Returns a list."""
    op = reduce_op(op, average)

    def call(tensors: Sequence[torch.Tensor],
             wire: _native.Compression | None) -> list[torch.Tensor]:
        sources = memory.Sources(tensors)
        run = sources.call(_native.grouped_allreduce, _native.grouped_allreduce_)
        return sources.results(run(sources.native, op, name, prescale_factor, postscale_factor,
                                   wire, process_set))

    def gradients(grads: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        check_gradient(op, "grouped_allreduce")
        return grouped_allreduce(grads, None, name_of_gradient(name), compression, op,
                                 prescale_factor, postscale_factor, process_set)

    return recorded(lambda given: compressed(compression, _has_wires(op), given, call), gradients,
                    list(tensors))


@short_traceback
def grouped_allreduce_async(tensors: Iterable[torch.Tensor], average: bool | None = None,
                            name: str | None = None, op: ReduceOp | str | None = None,
                            prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """grouped_allreduce() that returns a Handle; outside of PyTorch's graph."""
    sources = memory.Sources(tensors)
    start = sources.call(_native.grouped_allreduce_async, _native.grouped_allreduce_async_)
    return Handle(start(sources.native, reduce_op(op, average), name, prescale_factor,
                        postscale_factor, None, process_set), sources.results)


@short_traceback
def grouped_allreduce_async_(tensors: Iterable[torch.Tensor], average: bool | None = None,
                             name: str | None = None, op: ReduceOp | str | None = None,
                             prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> Handle:
    """grouped_allreduce_() that returns a Handle. Until it ended, no tensor must be touched."""
    targets = memory.Targets(tensors)
    call = _native.grouped_allreduce_async_(targets.native, reduce_op(op, average), name,
                                            prescale_factor, postscale_factor, None, process_set)
    for tensor in targets.tensors:
        memory.written(tensor)
    return Handle(call, lambda _: targets.finish())


@short_traceback
def grouped_allreduce_(tensors: Iterable[torch.Tensor], average: bool | None = None,
                       name: str | None = None, op: ReduceOp | str | None = None,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    """grouped_allreduce() that overwrites the tensors, and returns them as a list."""
    return list(grouped_allreduce_async_(tensors, average, name, op, prescale_factor,
                                         postscale_factor, process_set).synchronize())
