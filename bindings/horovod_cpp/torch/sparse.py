"""Sparse tensors in coordinate form."""

import functools
from collections.abc import Sequence
from typing import Any

import torch

from horovod_cpp import _native
from horovod_cpp._native import (
    Average,
    Handle,
    ProcessSet,
    ReduceOp,
    Sum,
    Tensor,
    global_process_set,
)
from horovod_cpp.front_end import reduce_op
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import gpu, memory
from horovod_cpp.torch.forms import eager

_OPTIONS: dict[str, Any] = (
    # Else PyTorch 2 warns that it checks nothing.
    {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {})


def coordinate_form(places: torch.Tensor, values: torch.Tensor, shape: Sequence[int]
                    ) -> torch.Tensor:
    """torch.sparse_coo_tensor() of places that are known to be right."""
    return torch.sparse_coo_tensor(places, values, shape, **_OPTIONS)


@short_traceback
@eager
def sparse_allreduce_async(tensor: torch.Tensor, name: str | None, op: ReduceOp,
                           process_set: ProcessSet = global_process_set) -> Handle:
    """Add up or average a sparse tensor over all ranks; what travels are coordinates and values.

    Args:
        tensor: torch.sparse_coo_tensor; the same shape on every rank, any number of values.
        name: pairs the call across ranks; None numbers it.
        op: Average (over the ranks of the set) or Sum.
        process_set: the ranks among which the call runs.

    Returns:
        A Handle for synchronize(), which may also be called itself; it gives a new, coalesced
        tensor, bitwise equal on every rank.

    Raises:
        TypeError: ``tensor`` is not sparse.
        InvalidArgumentError: another ``op``.
        MismatchError: from the handle, on every rank: some passed a dense tensor to allreduce()
            under this name ("collective: allreduce on rank 0, allgather on rank 1"), or the shapes
            differ.
    """
    if not isinstance(tensor, torch.Tensor) or not tensor.is_sparse:
        raise TypeError("sparse_allreduce_async() takes a torch.sparse_coo_tensor, got "
                        + (str(tensor.layout) if isinstance(tensor, torch.Tensor)
                           else type(tensor).__name__))
    op = reduce_op(op)
    if op not in (Average, Sum):
        raise _native.InvalidArgumentError(f"sparse_allreduce: op is {op.name}; expected Average "
                                           "or Sum")
    tensor = tensor.detach().coalesce()
    shape, dims = tensor.shape, tensor.sparse_dim()
    divisor = (process_set.size() or 1) if op == Average else 1

    # Negotiation compares extents from the second on: those of the third part, which has no values,
    # are the extents that coordinates lie in.
    parts = [memory.source(part) for part in (
        _carrier(tensor), tensor.values(), tensor.values().new_empty(0, *shape[:dims]))]
    if name is not None and not name.startswith("/"):
        name = "/allreduce." + name  # where a dense tensor's would be: else ranks would wait
    call = _native.grouped_allgather_async(parts, name, process_set)
    return call._then(functools.partial(_sum, shape, dims, divisor), gpu.reading_stream)


@eager
def _sum(shape: Sequence[int], dims: int, divisor: int, gathered: list[Tensor]) -> torch.Tensor:
    """Of all ranks' parts, divided."""
    carrier, values = map(memory.result, gathered[:2])
    places = carrier.view(torch.int64)[:, :dims]
    whole = not (values.is_floating_point() or values.is_complex())
    if divisor > 1 and not whole:  # first: the sum of halves may be too large for them
        values = values / divisor
    total = coordinate_form(places.t(), values, shape).coalesce()
    if divisor > 1 and whole:
        total.values().div_(divisor, rounding_mode="trunc")
    return total


def _carrier(tensor: torch.Tensor) -> torch.Tensor:
    """The coordinates, [values, ...], as elements of the values' dtype, which carry their bits.

    With one dtype a call is one group of tensors, and so one name.
    """
    places, size = tensor.indices().t(), tensor.values().element_size()
    if size > places.element_size():  # complex128: an even number of coordinates
        places = torch.nn.functional.pad(places, (0, places.shape[1] % 2))
    return places.clone(memory_format=torch.contiguous_format).view(tensor.dtype)
