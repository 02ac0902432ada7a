"""Collectives of values outside a model: of what NumPy can turn into an array."""

from typing import Any

import numpy

import horovod_cpp
from horovod_cpp import Average, ProcessSet, ReduceOp, global_process_set
from horovod_cpp.objects import whole_number
from horovod_cpp.short_traceback import short_traceback


def _array(value: Any) -> Any:
    return numpy.asarray(value, order="C")  # which, unlike ascontiguousarray, keeps a scalar's shape


@short_traceback
def allreduce(value: Any, name: str | None = None, op: ReduceOp | str = Average,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> Any:
    """``horovod_cpp.allreduce`` of a value as a NumPy array."""
    return horovod_cpp.allreduce(_array(value), op, name, prescale_factor, postscale_factor,
                                 process_set=process_set)


@short_traceback
def allgather(value: Any, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> Any:
    """``horovod_cpp.allgather`` of a value as a NumPy array; of a scalar, an array of the ranks'."""
    return horovod_cpp.allgather(numpy.atleast_1d(_array(value)), name, process_set=process_set)


@short_traceback
def broadcast(value: Any, root_rank: int, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> Any:
    """``horovod_cpp.broadcast`` of a value as a NumPy array."""
    return horovod_cpp.broadcast(_array(value), whole_number("root_rank", root_rank), name,
                                 process_set=process_set)


@short_traceback
def reducescatter(value: Any, name: str | None = None, op: ReduceOp | str = Average,
                  process_set: ProcessSet = global_process_set) -> Any:
    """``horovod_cpp.reducescatter`` of a value as a NumPy array."""
    return horovod_cpp.reducescatter(_array(value), op, name, process_set=process_set)
