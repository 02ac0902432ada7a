"""reducescatter. What reductions.py says of tensors, names, gradients and errors holds here too."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from horovod_cpp._native import Average, ProcessSet, ReduceOp, Sum, global_process_set
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import compression as compressors
from horovod_cpp.torch.compression import Compression
from horovod_cpp.torch.forms import name_of_gradient, recorded, run, start
from horovod_cpp.torch.handle import Handle
from horovod_cpp.torch.movement import allgather, grouped_allgather
from horovod_cpp.torch.reductions import check_gradient, compressed, reduce_op

__all__ = [
    "grouped_reducescatter", "grouped_reducescatter_async", "reducescatter", "reducescatter_async",
]


def _scatter_gradients(grads: Sequence[torch.Tensor], name: str | None, compression: Any,
                       op: ReduceOp, process_set: ProcessSet, factor: float) -> list[torch.Tensor]:
    """Of results to those of the inputs, with Horovod's factor: Sum counts every rank."""
    check_gradient(op, "reducescatter")
    compression = compressors.chosen(compression)
    if op == Sum and (ranks := process_set.size()) is not None:
        factor *= ranks
    scaled = list(grads) if factor == 1.0 else [grad * factor for grad in grads]
    pairs = [compression.compress(grad) for grad in scaled]
    name = name_of_gradient(name)
    if len(pairs) == 1:
        gathered = [allgather(pairs[0][0], name, process_set)]
    else:
        gathered = grouped_allgather([grad for grad, _ in pairs], name, process_set)
    return [compression.decompress(grad, context) for grad, (_, context) in zip(gathered, pairs)]


def _scattered(call: str, tensors: Iterable[torch.Tensor], name: str | None, compression: Any,
               op: ReduceOp | str | None, process_set: ProcessSet, prescale_factor: float,
               postscale_factor: float) -> list[torch.Tensor]:
    op = reduce_op(op)

    def reduce(given: Sequence[torch.Tensor], _: object) -> list[torch.Tensor]:
        return run(call, given, op, name, prescale_factor, postscale_factor, process_set)

    def gradients(grads: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return _scatter_gradients(grads, name, compression, op, process_set,
                                  prescale_factor * postscale_factor)

    return recorded(lambda given: compressed(compression, False, given, reduce), gradients, tensors)


@short_traceback
def reducescatter(tensor: torch.Tensor, name: str | None = None,
                  compression: Any = Compression.none, op: ReduceOp | str | None = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """This rank's rows of the reduction, cut along the first axis in rank order.

    Of n rows and k ranks the first n % k ranks get one row more. The gradient is Horovod's: the
    allgather of the ranks' gradients times the two factors, and with Sum times the number of ranks.
    """
    return _scattered("reducescatter", [tensor], name, compression, op, process_set,
                      prescale_factor, postscale_factor)[0]


@short_traceback
def reducescatter_async(tensor: torch.Tensor, name: str | None = None,
                        op: ReduceOp | str | None = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> Handle:
    """reducescatter() that returns a Handle; outside of PyTorch's graph."""
    return start("reducescatter", tensor, reduce_op(op), name, prescale_factor,
                 postscale_factor, process_set)


@short_traceback
def grouped_reducescatter(tensors: Iterable[torch.Tensor], name: str | None = None,
                          compression: Any = Compression.none, op: ReduceOp | str | None = Average,
                          process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> list[torch.Tensor]:
    """reducescatter() of several tensors as one call: all or none are reduced. Returns a list."""
    return _scattered("grouped_reducescatter", tensors, name, compression, op, process_set,
                      prescale_factor, postscale_factor)


@short_traceback
def grouped_reducescatter_async(tensors: Iterable[torch.Tensor], name: str | None = None,
                                op: ReduceOp | str | None = Average,
                                process_set: ProcessSet = global_process_set,
                                prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> Handle:
    """grouped_reducescatter() that returns a Handle; outside of PyTorch's graph."""
    return start("grouped_reducescatter", tensors, reduce_op(op), name, prescale_factor,
                 postscale_factor, process_set)
