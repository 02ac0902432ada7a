"""Collectives of PyTorch's tensors.

Tensors are dense, of any dtype that the engine has, and of any layout where the call is not in
place. They lie on the CPU or, in a job with HVD_GPU_OPERATIONS, on the rank's GPU; gpu.py says how
its streams are kept in order. The synchronous forms that are not in place are part of PyTorch's
graph. ``op`` is Average, Sum, Min, Max, Product, BitAnd, BitOr or (allreduce only) Adasum, or its
name, such as "sum"; gradients exist for Average and Sum. Allgathers and broadcasts have Horovod's
gradients, which are averages over the ranks. ``name`` pairs a call across ranks; without one, ranks
make their calls of one kind in the same order. A name may be used again when its call has ended, or
once its handle is dropped: then calls of one name run one after another. Results of reductions are
bitwise equal on every rank.

Raises (all of them):
    TypeError: something is no dense tensor, or of a dtype that cannot be communicated; another
        argument is of a wrong type.
    UnsupportedError: a tensor lies on a GPU, and the job has no collectives of GPUs, or this rank's
        run on another one; or on another kind of device.
    InvalidArgumentError: a mistake on this rank; a ``name`` in flight under a handle that is not
        dropped; tensors of one in-place call share memory, or were given other memory before it ended.
    MismatchError: ranks disagree; on every rank, and the job goes on.
    HorovodInternalError: the job ended.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, overload

import torch

from horovod_cpp import _native
from horovod_cpp._native import Average, Handle, ProcessSet, ReduceOp, Sum, global_process_set
from horovod_cpp.front_end import name_of_gradient, reduce_op
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import compression as compressors
from horovod_cpp.torch import gpu, memory
from horovod_cpp.torch.compression import Compression
from horovod_cpp.torch.forms import (
    async_form,
    eager,
    listed,
    other_forms,
    recorded,
    run,
    waiting_form,
)

__all__ = [
    "allgather", "allgather_async", "allreduce", "allreduce_", "allreduce_async",
    "allreduce_async_", "alltoall", "alltoall_async", "barrier", "broadcast", "broadcast_",
    "broadcast_async", "broadcast_async_", "grouped_allgather", "grouped_allgather_async",
    "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async",
    "grouped_allreduce_async_", "grouped_broadcast", "grouped_broadcast_",
    "grouped_broadcast_async", "grouped_broadcast_async_", "grouped_reducescatter",
    "grouped_reducescatter_async", "join", "reducescatter", "reducescatter_async",
]

_Tensors: TypeAlias = Sequence[torch.Tensor]
_Call: TypeAlias = Callable[[_Tensors, _native.Compression | None], list[torch.Tensor]]


def _check_gradient(op: ReduceOp, call: str) -> None:
    if op not in (Average, Sum):
        raise _native.UnsupportedError(f"{call} with {op.name} has no gradient; give it "
                                       "tensor.detach()")


def _compressed(compression: Any, has_wires: bool, tensors: _Tensors, call: _Call
                ) -> list[torch.Tensor]:
    """``call(tensors, wire)`` with what the compression makes of the tensors, and back."""
    compression = compressors.chosen(compression)
    wire = compressors.wire(compression) if has_wires else None
    if wire is not None:
        return call(tensors, wire)
    compression = compressors.methods(compression)
    pairs = [compression.compress(tensor) for tensor in tensors]
    given = call([tensor for tensor, _ in pairs], None)
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(given, pairs)]


# -- allreduce


def _reduced(call: str, tensors: Any, average: bool | None, name: str | None, compression: Any,
             op: ReduceOp | str | None, *factors_and_set: Any) -> Any:
    op = reduce_op(op, average)

    def reduce(tensors: _Tensors, wire: _native.Compression | None) -> list[torch.Tensor]:
        *factors, process_set = factors_and_set
        return run(call, tensors, op, name, *factors, wire, process_set)

    def gradients(grads: _Tensors) -> list[torch.Tensor]:
        _check_gradient(op, call)
        return grouped_allreduce(grads, None, name_of_gradient(name), compression, op,
                                 *factors_and_set)

    # With other reductions the engine does not compress by itself.
    return recorded(call, listed(call, tensors), lambda given: _compressed(
        compression, op in (Average, Sum), given, reduce), gradients)


@waiting_form(torch.Tensor, _reduced)
def allreduce(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
              compression: Any = Compression.none, op: ReduceOp | str | None = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> Any:
    """``postscale_factor * reduction(prescale_factor * tensor)`` over all ranks, a new tensor.

    ``average`` is Horovod's older way to say ``op``. The gradient is the same allreduce.
    """
    return (tensor, average, name, compression, op, prescale_factor, postscale_factor, process_set)


@waiting_form(list[torch.Tensor], _reduced)
def grouped_allreduce(tensors: Iterable[torch.Tensor], average: bool | None = None,
                      name: str | None = None, compression: Any = Compression.none,
                      op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> Any:
    """allreduce() of several tensors as one call: all or none are reduced. Returns a list."""
    return (tensors, average, name, compression, op, prescale_factor, postscale_factor, process_set)


def _one(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
         op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
         postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Any:
    return (tensor, reduce_op(op, average), name, prescale_factor, postscale_factor, None,
            process_set)


def _several(tensors: Iterable[torch.Tensor], average: bool | None = None, name: str | None = None,
             op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
             postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Any:
    return (tensors, reduce_op(op, average), name, prescale_factor, postscale_factor, None,
            process_set)


allreduce_async, allreduce_async_, allreduce_ = other_forms("allreduce", torch.Tensor, _one)
grouped_allreduce_async, grouped_allreduce_async_, grouped_allreduce_ = other_forms(
    "grouped_allreduce", list[torch.Tensor], _several)


# -- allgather


def _own_rows(grads: _Tensors, rows: list[int], name: str | None,
              process_set: ProcessSet) -> list[torch.Tensor]:
    """This rank's part of the ranks' average gradients. ``rows``: of its own tensors."""
    averages = grouped_allreduce(grads, name=name_of_gradient(name), process_set=process_set)
    counts = allgather(torch.tensor([rows]), name and f"{name}.rows", process_set)
    firsts = counts[: process_set.rank()].sum(0).tolist()
    return [average.narrow(0, first, count)
            for average, first, count in zip(averages, firsts, rows)]


def _gathered(call: str, tensors: Any, name: str | None, process_set: ProcessSet) -> Any:
    given = listed(call, tensors)
    return recorded(call, given, lambda given: run(call, given, name, process_set),
                    lambda grads: _own_rows(grads, [
                        len(tensor) for tensor in given if memory.has_gradient(tensor)], name,
                        process_set))


@waiting_form(torch.Tensor, _gathered)
def allgather(tensor: torch.Tensor, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> Any:
    """All ranks' tensors concatenated along the first axis, in rank order.

    First extents may differ or be 0, the others and the dtype may not. The gradient is this rank's
    rows of the ranks' average gradient.
    """
    return tensor, name, process_set


@waiting_form(list[torch.Tensor], _gathered)
def grouped_allgather(tensors: Iterable[torch.Tensor], name: str | None = None,
                      process_set: ProcessSet = global_process_set) -> Any:
    """allgather() of several tensors as one call. Returns a list."""
    return tensors, name, process_set


allgather_async = async_form("allgather", allgather)
grouped_allgather_async = async_form("grouped_allgather", grouped_allgather)


# -- reducescatter


def _scattered(call: str, tensors: Any, name: str | None, compression: Any,
               op: ReduceOp | str | None, process_set: ProcessSet, prescale_factor: float,
               postscale_factor: float) -> Any:
    op = reduce_op(op)

    def reduce(given: _Tensors, _: object) -> list[torch.Tensor]:
        return run(call, given, op, name, prescale_factor, postscale_factor, process_set)

    def gradients(grads: _Tensors) -> list[torch.Tensor]:
        """Of results to those of the inputs, with Horovod's factor: Sum counts every rank."""
        _check_gradient(op, "reducescatter")
        factor = prescale_factor * postscale_factor
        if op == Sum and (ranks := process_set.size()) is not None:
            factor *= ranks
        scaled = list(grads) if factor == 1.0 else [grad * factor for grad in grads]
        return _compressed(compression, False, scaled, lambda given, _: grouped_allgather(
            given, name_of_gradient(name), process_set))

    return recorded(call, listed(call, tensors), lambda given: _compressed(
        compression, False, given, reduce), gradients)


@waiting_form(torch.Tensor, _scattered)
def reducescatter(tensor: torch.Tensor, name: str | None = None,
                  compression: Any = Compression.none, op: ReduceOp | str | None = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> Any:
    """This rank's rows of the reduction, cut along the first axis in rank order.

    Of n rows and k ranks the first n % k ranks get one row more. The gradient is Horovod's: the
    allgather of the ranks' gradients times the two factors, and with Sum times the number of ranks.
    """
    return tensor, name, compression, op, process_set, prescale_factor, postscale_factor


@waiting_form(list[torch.Tensor], _scattered)
def grouped_reducescatter(tensors: Iterable[torch.Tensor], name: str | None = None,
                          compression: Any = Compression.none, op: ReduceOp | str | None = Average,
                          process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Any:
    """reducescatter() of several tensors as one call: all or none are reduced. Returns a list."""
    return tensors, name, compression, op, process_set, prescale_factor, postscale_factor


def _rows_of_one(tensor: torch.Tensor, name: str | None = None, op: ReduceOp | str | None = Average,
                 process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                 postscale_factor: float = 1.0) -> Any:
    return tensor, reduce_op(op), name, prescale_factor, postscale_factor, process_set


def _rows_of_several(tensors: Iterable[torch.Tensor], name: str | None = None,
                     op: ReduceOp | str | None = Average,
                     process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                     postscale_factor: float = 1.0) -> Any:
    return tensors, reduce_op(op), name, prescale_factor, postscale_factor, process_set


reducescatter_async = async_form("reducescatter", _rows_of_one)
grouped_reducescatter_async = async_form("grouped_reducescatter", _rows_of_several)


# -- broadcast


def _sent(call: str, tensors: Any, root_rank: int, name: str | None,
          process_set: ProcessSet) -> Any:
    def gradients(grads: _Tensors) -> list[torch.Tensor]:
        averages = grouped_allreduce(grads, name=name_of_gradient(name), process_set=process_set)
        if _native.rank() == root_rank:
            return averages
        return [torch.zeros_like(average) for average in averages]

    return recorded(call, listed(call, tensors), lambda given: run(
        call, given, root_rank, name, process_set), gradients)


@waiting_form(torch.Tensor, _sent)
def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> Any:
    """The values of rank ``root_rank`` (of the job, also in a process set), a new tensor.

    On other ranks ``tensor`` gives shape and dtype. The gradient is the ranks' average on the root
    and zero elsewhere.
    """
    return tensor, root_rank, name, process_set


@waiting_form(list[torch.Tensor], _sent)
def grouped_broadcast(tensors: Iterable[torch.Tensor], root_rank: int, name: str | None = None,
                      process_set: ProcessSet = global_process_set) -> Any:
    """broadcast() of several tensors as one call: all or none are sent. Returns a list."""
    return tensors, root_rank, name, process_set


broadcast_async, broadcast_async_, broadcast_ = other_forms("broadcast", torch.Tensor, broadcast)
grouped_broadcast_async, grouped_broadcast_async_, grouped_broadcast_ = other_forms(
    "grouped_broadcast", list[torch.Tensor], grouped_broadcast)


# -- alltoall


def _numbers(splits: Sequence[int] | torch.Tensor | None) -> list[int] | None:
    if splits is None:
        return None
    if isinstance(splits, torch.Tensor):
        if splits.dim() != 1:
            raise _native.InvalidArgumentError(
                f"splits has {splits.dim()} axes; expected one number for each rank")
        splits = splits.tolist()
    try:
        return [operator.index(split) for split in splits]
    except TypeError:
        raise _native.InvalidArgumentError(
            f"splits={splits!r}: expected integers, one for each rank") from None


@eager
def _with_splits(pair: tuple[_native.Tensor, list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    return memory.result(pair[0]), torch.tensor(pair[1], dtype=torch.int32)


@overload
def alltoall(tensor: torch.Tensor, splits: None = None, name: str | None = None,
             process_set: ProcessSet = global_process_set) -> torch.Tensor: ...


@overload
def alltoall(tensor: torch.Tensor, splits: Sequence[int] | torch.Tensor, name: str | None = None,
             process_set: ProcessSet = global_process_set) -> tuple[torch.Tensor, torch.Tensor]: ...


@short_traceback
@eager
def alltoall(tensor: torch.Tensor, splits: Sequence[int] | torch.Tensor | None = None,
             name: str | None = None, process_set: ProcessSet = global_process_set
             ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Every rank gets its rows of every rank's tensor, in rank order.

    ``splits``: the rows for each rank, integers in a list or tensor; None = equal parts. Returns
    the output, and with ``splits`` a pair (output, received splits as int32). The gradient goes the
    way back.
    """
    numbers = _numbers(splits)
    received: list[torch.Tensor] = []

    def exchange(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        output, rows = alltoall_async(tensors[0], numbers, name, process_set).synchronize()
        received.append(rows)
        return [output]

    def gradients(grads: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [alltoall(grads[0], received[0], name_of_gradient(name), process_set)[0]]

    output = recorded("alltoall", [tensor], exchange, gradients)
    return output if splits is None else (output, received[0])


@short_traceback
@eager
def alltoall_async(tensor: torch.Tensor, splits: Sequence[int] | torch.Tensor | None = None,
                   name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """alltoall() that returns a Handle, which always gives the pair; outside PyTorch's graph."""
    call = _native.alltoall_async(memory.source(tensor), _numbers(splits), name, process_set)
    return call._then(_with_splits, gpu.reading_stream)


# -- meetings

@short_traceback
@eager
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Return when all ranks of the set have called it."""
    _native.barrier(process_set=process_set)


@short_traceback
@eager
def join(device: object = -1, *, average: str = "size",
         process_set: ProcessSet = global_process_set) -> int:
    """Say that this rank has no more data, and wait until all ranks of the set have.

    Meanwhile it takes part in what the others submit with neutral elements: zeros in sums, no rows
    in allgathers.

    Args:
        device: Horovod's; not looked at.
        average: what averages divide by meanwhile: "size", all ranks of the set, as in Horovod and
            in any case of sparse tensors, or "contributed", those that have not joined.

    Returns:
        The rank that joined last, on every rank.
    """
    return _native.join(average=average, process_set=process_set)
