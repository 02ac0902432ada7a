"""Collectives that only move data: allgather, broadcast, alltoall, barrier, join.

What reductions.py says of tensors, names, gradients and errors holds here too. Allgathers and
broadcasts have Horovod's gradients, which are averages over the ranks.
"""

import operator
from collections.abc import Iterable, Sequence
from typing import Any, overload

import torch

from horovod_cpp import _native
from horovod_cpp._native import ProcessSet, global_process_set
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import forms, memory
from horovod_cpp.torch.forms import form, name_of_gradient, recorded
from horovod_cpp.torch.handle import Handle
from horovod_cpp.torch.reductions import allreduce, grouped_allreduce

__all__ = [
    "allgather", "allgather_async", "alltoall", "alltoall_async", "barrier", "broadcast",
    "broadcast_", "broadcast_async", "broadcast_async_", "grouped_allgather",
    "grouped_allgather_async", "grouped_broadcast", "grouped_broadcast_", "grouped_broadcast_async",
    "grouped_broadcast_async_", "join",
]


def _average(tensors: Sequence[torch.Tensor], name: str | None,
             process_set: ProcessSet) -> list[torch.Tensor]:
    if len(tensors) == 1:
        return [allreduce(tensors[0], name=name, process_set=process_set)]
    return grouped_allreduce(tensors, name=name, process_set=process_set)


# -- allgather


def _own_rows(grads: Sequence[torch.Tensor], rows: list[int], name: str | None,
              process_set: ProcessSet) -> list[torch.Tensor]:
    """This rank's part of the ranks' average gradients. ``rows``: of its own tensors."""
    averages = _average(list(grads), name_of_gradient(name), process_set)
    counts = allgather(torch.tensor([rows]), name and f"{name}.rows", process_set)
    firsts = counts[: process_set.rank()].sum(0).tolist()
    return [average.narrow(0, first, count)
            for average, first, count in zip(averages, firsts, rows)]


def _gathered(call: str, tensors: Iterable[torch.Tensor], name: str | None,
              process_set: ProcessSet) -> list[torch.Tensor]:
    tensors = list(tensors)
    return recorded(lambda given: forms.run(call, given, name, process_set),
                    lambda grads: _own_rows(grads, [len(tensor) for tensor in tensors], name,
                                            process_set), tensors)


@short_traceback
def allgather(tensor: torch.Tensor, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """All ranks' tensors concatenated along the first axis, in rank order.

    First extents may differ or be 0, the others and the dtype may not. The gradient is this rank's
    rows of the ranks' average gradient.
    """
    return _gathered("allgather", [tensor], name, process_set)[0]


@short_traceback
def allgather_async(tensor: torch.Tensor, name: str | None = None,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """allgather() that returns a Handle; outside of PyTorch's graph."""
    return forms.start("allgather", tensor, name, process_set)


@short_traceback
def grouped_allgather(tensors: Iterable[torch.Tensor], name: str | None = None,
                      process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    """allgather() of several tensors as one call. Returns a list."""
    return _gathered("grouped_allgather", tensors, name, process_set)


@short_traceback
def grouped_allgather_async(tensors: Iterable[torch.Tensor], name: str | None = None,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """grouped_allgather() that returns a Handle; outside of PyTorch's graph."""
    return forms.start("grouped_allgather", tensors, name, process_set)


# -- broadcast


def _sent(call: str, tensors: Iterable[torch.Tensor], root_rank: int, name: str | None,
          process_set: ProcessSet) -> list[torch.Tensor]:
    def send(given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if call == "broadcast":
            return [forms.start(call, given[0], root_rank, name, process_set).synchronize()]
        return list(forms.start(call, given, root_rank, name, process_set).synchronize())

    def gradients(grads: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        averages = _average(list(grads), name_of_gradient(name), process_set)
        if _native.rank() == root_rank:
            return averages
        return [torch.zeros_like(average) for average in averages]

    return recorded(send, gradients, tensors)


@short_traceback
def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The values of rank ``root_rank`` (of the job, also in a process set), a new tensor.

    On other ranks ``tensor`` tells shape and dtype. The gradient is the ranks' average on the root
    and zero elsewhere.
    """
    return _sent("broadcast", [tensor], root_rank, name, process_set)[0]


@short_traceback
def grouped_broadcast(tensors: Iterable[torch.Tensor], root_rank: int, name: str | None = None,
                      process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    """broadcast() of several tensors as one call: all or none are sent. Returns a list."""
    return _sent("grouped_broadcast", tensors, root_rank, name, process_set)


def _one(tensor: torch.Tensor, root_rank: int, name: str | None = None,
         process_set: ProcessSet = global_process_set) -> tuple[Any, ...]:
    return "broadcast", tensor, root_rank, name, process_set


def _several(tensors: Iterable[torch.Tensor], root_rank: int, name: str | None = None,
             process_set: ProcessSet = global_process_set) -> tuple[Any, ...]:
    return "grouped_broadcast", tensors, root_rank, name, process_set


broadcast_async = form(
    _one, "broadcast_async", forms.start,
    "broadcast() that returns a Handle; outside of PyTorch's graph.")
broadcast_async_ = form(
    _one, "broadcast_async_", forms.start_in_place,
    "broadcast_() that returns a Handle. Until it ended, ``tensor`` must not be touched.")
broadcast_ = form(
    _one, "broadcast_", forms.in_place,
    "broadcast() that overwrites ``tensor``, which must be contiguous, and returns it.")
grouped_broadcast_async = form(
    _several, "grouped_broadcast_async", forms.start,
    "grouped_broadcast() that returns a Handle; outside of PyTorch's graph.")
grouped_broadcast_async_ = form(
    _several, "grouped_broadcast_async_", forms.start_in_place,
    "grouped_broadcast_() that returns a Handle. Until it ended, no tensor must be touched.")
grouped_broadcast_ = form(
    _several, "grouped_broadcast_", forms.all_in_place,
    "grouped_broadcast() that overwrites the tensors, and returns them as a list.")


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


def _with_splits(pair: tuple[_native.Tensor, list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    return memory.result(pair[0]), torch.tensor(pair[1], dtype=torch.int32)


@overload
def alltoall(tensor: torch.Tensor, splits: None = None, name: str | None = None,
             process_set: ProcessSet = global_process_set) -> torch.Tensor: ...


@overload
def alltoall(tensor: torch.Tensor, splits: Sequence[int] | torch.Tensor, name: str | None = None,
             process_set: ProcessSet = global_process_set) -> tuple[torch.Tensor, torch.Tensor]: ...


@short_traceback
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

    output, = recorded(exchange, gradients, [tensor])
    return output if splits is None else (output, received[0])


@short_traceback
def alltoall_async(tensor: torch.Tensor, splits: Sequence[int] | torch.Tensor | None = None,
                   name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """alltoall() that returns a Handle, which always gives the pair; outside of PyTorch's graph."""
    return Handle(_native.alltoall_async(memory.source(tensor), _numbers(splits), name,
                                         process_set), _with_splits)


# -- meetings

@short_traceback
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Return when all ranks of the set have called it."""
    _native.barrier(process_set=process_set)


@short_traceback
def join(device: object = -1, *, average: str = "size",
         process_set: ProcessSet = global_process_set) -> int:
    """Say that this rank has no more data, and wait until all ranks of the set have.

    Meanwhile it takes part in what the others submit with neutral elements: zeros in sums, no rows
    in allgathers.

    Args:
        device: Horovod's; not looked at.
        average: what averages divide by meanwhile: "size", all ranks of the set, as in Horovod, or
            "contributed", those that have not joined.

    Returns:
        The rank that joined last, on every rank.
    """
    return _native.join(average=average, process_set=process_set)
