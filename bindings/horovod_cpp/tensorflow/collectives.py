"""Collectives of TensorFlow's tensors, eager and in tf.function, with gradients.

Tensors, variables and what ``tf.convert_to_tensor`` takes; of any dtype that the engine has, on the
CPU (TensorFlow copies what lies on a GPU). ``name`` pairs a call across ranks. Without one, eager
calls of one kind are made in the same order on every rank, and those in a graph are paired by their
scopes, without the numbers of Keras' layers, and the order in which they were added to the graph, in
whatever order TensorFlow runs them. So are those of one name in a graph. Allgathers and broadcasts
have Horovod's gradients, which are averages over the ranks.

Raises (all of them; in a tf.function as TensorFlow's classes alone, see horovod_cpp.tensorflow.errors):
    InvalidArgumentError: a mistake on this rank.
    MismatchError: ranks disagree; on every rank, and the job goes on.
    UnsupportedError: XLA traces the function, or it is in nested loops of tf.compat.v1.
    HorovodInternalError: the job ended.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod_cpp import _native
from horovod_cpp._native import Average, ProcessSet, ReduceOp, Sum, global_process_set
from horovod_cpp.front_end import name_of_gradient, reduce_op
from horovod_cpp.objects import whole_number
from horovod_cpp.process_sets import numbered
from horovod_cpp.tensorflow.compression import Compression, wire_of
from horovod_cpp.tensorflow.errors import raising_both
from horovod_cpp.tensorflow.library import call, scope_of_graph

__all__ = [
    "allgather", "allreduce", "alltoall", "barrier", "broadcast", "broadcast_",
    "grouped_allgather", "grouped_allreduce", "grouped_reducescatter", "join", "reducescatter",
]


def _all_tensors(values: Sequence[Any]) -> list[Any]:
    return [tf.convert_to_tensor(value) for value in values]


def _scoped(name: str | None, ignore_name_scope: bool) -> str | None:
    """Names in a graph are relative to the scope, as TensorFlow's are."""
    if name is None or ignore_name_scope or tf.executing_eagerly():
        return name
    scope = scope_of_graph()
    return f"{scope}/{name}" if scope else name


def _attribute(node: Any, name: str) -> Any:
    value = node.get_attr(name)
    return value.decode() if isinstance(value, bytes) else value


def _pairing(node: Any) -> dict[str, Any]:
    """The arguments of library.call() for a gradient: its calls pair as those of ``node`` do."""
    return {"name": name_of_gradient(_attribute(node, "tensor_name")),
            "process_set": _attribute(node, "process_set")}


def _check_gradient(op: int, kind: str) -> None:
    if op not in (Average, Sum):
        raise _native.UnsupportedError(f"{kind} with {ReduceOp(op).name} has no gradient; give it "
                                       "tf.stop_gradient(tensor)")


# -- allreduce


@raising_both
def grouped_allreduce(tensors: Sequence[Any], average: bool | None = None, device_dense: str = "",
                      device_sparse: str = "", compression: Any = Compression.none,
                      op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, name: str | None = None,
                      process_set: ProcessSet = global_process_set,
                      ignore_name_scope: bool = False) -> list[Any]:
    """allreduce() of several tensors as one call: all or none are reduced. Returns a list.

    Each tf.IndexedSlices is a call of its own; the dense tensors together are one.
    """
    return allreduce_group(list(tensors), reduce_op(op, average), compression, prescale_factor,
                           postscale_factor, _scoped(name, ignore_name_scope), process_set)


def allreduce_group(tensors: list[Any], op: ReduceOp, compression: Any, prescale_factor: float,
                    postscale_factor: float, name: str | None, process_set: ProcessSet,
                    note: str = "") -> list[Any]:
    """See grouped_allreduce(). ``note``: what this rank adds to the text of a mismatch."""
    results = [_sparse(each, op, prescale_factor, postscale_factor,
                       name and f"{name}.{i}", process_set)
               if isinstance(each, tf.IndexedSlices) else each for i, each in enumerate(tensors)]
    dense = [i for i, each in enumerate(tensors) if not isinstance(each, tf.IndexedSlices)]
    if dense:
        reduced = call("allreduce", _all_tensors([tensors[i] for i in dense]), name, process_set,
                       reduce_op=int(op), prescale_factor=repr(float(prescale_factor)),
                       postscale_factor=repr(float(postscale_factor)), wire=wire_of(compression),
                       note=note)
        for i, each in zip(dense, reduced):
            results[i] = each
    return results


def allreduce(tensor: Any, average: bool | None = None, device_dense: str = "",
              device_sparse: str = "", compression: Any = Compression.none,
              op: ReduceOp | str | None = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, name: str | None = None,
              process_set: ProcessSet = global_process_set,
              ignore_name_scope: bool = False) -> Any:
    """``postscale_factor * reduction(prescale_factor * tensor)`` over all ranks.

    ``average`` is Horovod's older way to say ``op``; ``device_dense`` and ``device_sparse`` are
    accepted and have no effect. For tf.IndexedSlices the ranks gather rows and their numbers, with
    Average and Sum and without factors. The gradient is the same allreduce.
    """
    result, = grouped_allreduce([tensor], average, device_dense, device_sparse, compression, op,
                                prescale_factor, postscale_factor, name, process_set,
                                ignore_name_scope)
    return result


def _sparse(slices: Any, op: ReduceOp, prescale_factor: float, postscale_factor: float,
            name: str | None, process_set: ProcessSet) -> Any:
    if op not in (Average, Sum) or (prescale_factor, postscale_factor) != (1.0, 1.0):
        raise _native.UnsupportedError(
            "allreduce of tf.IndexedSlices goes by Average or Sum, without factors: convert them "
            "with tf.convert_to_tensor(), or pass sparse_as_dense=True where there is one")
    values, indices = call("allgather", [slices.values, slices.indices], name, process_set)
    if op == Average:
        values /= tf.cast(process_set.size(), values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


@tf.RegisterGradient("HvdAllreduce")  # type: ignore[untyped-decorator]
@raising_both
def _gradient_of_allreduce(node: Any, *grads: Any) -> list[Any]:
    _check_gradient(_attribute(node, "reduce_op"), "allreduce")
    attributes = {name: _attribute(node, name)
                  for name in ("reduce_op", "prescale_factor", "postscale_factor", "wire")}
    return call("allreduce", _all_tensors(grads), **_pairing(node), **attributes)


# -- allgather


@raising_both
def grouped_allgather(tensors: Sequence[Any], name: str | None = None,
                      ignore_name_scope: bool = False,
                      process_set: ProcessSet = global_process_set) -> list[Any]:
    """allgather() of several tensors as one call. Returns a list."""
    given = _all_tensors(tensors)
    if not given:
        return []
    return call("allgather", given, _scoped(name, ignore_name_scope), process_set)


def allgather(tensor: Any, name: str | None = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> Any:
    """All ranks' tensors concatenated along the first axis, in rank order.

    First extents may differ or be 0, the others and the dtype may not. The gradient is this rank's
    rows of the ranks' average gradient.
    """
    result, = grouped_allgather([tensor], name, ignore_name_scope, process_set)
    return result


@tf.RegisterGradient("HvdAllgather")  # type: ignore[untyped-decorator]
@raising_both
def _gradient_of_allgather(node: Any, *grads: Any) -> list[Any]:
    pairing = _pairing(node)
    averages = call("allreduce", _all_tensors(grads), **pairing, reduce_op=int(Average))
    rows = [tf.shape(each, tf.int64)[0] for each in node.inputs]
    pairing["name"] = pairing["name"] and f"{pairing['name']}.rows"
    counts, = call("allgather", [tf.stack(rows)[tf.newaxis]], **pairing)
    firsts = tf.cumsum(counts, exclusive=True)[numbered(pairing["process_set"]).rank()]
    return [average[firsts[i]:firsts[i] + rows[i]] for i, average in enumerate(averages)]


# -- reducescatter


@raising_both
def grouped_reducescatter(tensors: Sequence[Any], device_dense: str = "",
                          compression: Any = Compression.none, op: ReduceOp | str | None = Average,
                          name: str | None = None, process_set: ProcessSet = global_process_set,
                          ignore_name_scope: bool = False, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> list[Any]:
    """reducescatter() of several tensors as one call: all or none are reduced. Returns a list."""
    given = _all_tensors(tensors)
    if not given:
        return []
    if wire_of(compression) != 0:
        raise _native.UnsupportedError("reducescatter has no compression in TensorFlow")
    return call("reducescatter", given, _scoped(name, ignore_name_scope), process_set,
                reduce_op=int(reduce_op(op)), prescale_factor=repr(float(prescale_factor)),
                postscale_factor=repr(float(postscale_factor)))


def reducescatter(tensor: Any, device_dense: str = "", compression: Any = Compression.none,
                  op: ReduceOp | str | None = Average, name: str | None = None,
                  process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Any:
    """This rank's rows of the reduction, cut along the first axis in rank order.

    Of n rows and k ranks the first n % k ranks get one row more. The gradient is Horovod's: the
    allgather of the ranks' gradients times the two factors, and with Sum times the number of ranks.
    """
    result, = grouped_reducescatter([tensor], device_dense, compression, op, name, process_set,
                                    ignore_name_scope, prescale_factor, postscale_factor)
    return result


@tf.RegisterGradient("HvdReducescatter")  # type: ignore[untyped-decorator]
@raising_both
def _gradient_of_reducescatter(node: Any, *grads: Any) -> list[Any]:
    op = _attribute(node, "reduce_op")
    _check_gradient(op, "reducescatter")
    pairing = _pairing(node)
    factor = (float(_attribute(node, "prescale_factor"))
              * float(_attribute(node, "postscale_factor")))
    if op == Sum:
        factor *= numbered(pairing["process_set"]).size() or 1
    scaled = [grad * tf.cast(factor, grad.dtype) for grad in _all_tensors(grads)]
    return call("allgather", scaled, **pairing)


# -- broadcast


@raising_both
def broadcast(tensor: Any, root_rank: int, name: str | None = None,
              ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> Any:
    """The values of rank ``root_rank`` (of the job, also in a process set).

    On other ranks ``tensor`` gives shape and dtype. The gradient is the ranks' average on the root
    and zero elsewhere.
    """
    result, = call("broadcast", _all_tensors([tensor]), _scoped(name, ignore_name_scope),
                   process_set, root_rank=whole_number("root_rank", root_rank))
    return result


def list_of(variables: Any) -> list[Any]:
    """Raises TypeError for a variable, whose rows it would be."""
    if hasattr(variables, "assign"):
        raise TypeError(f"expected variables in a list, got one: {variables!r}")
    return list(variables)


@raising_both
def broadcast_(variables: Sequence[Any], root_rank: int, name: str | None = None,
               process_set: ProcessSet = global_process_set) -> list[Any]:
    """Assigns the values of rank ``root_rank`` to ``variables`` in one call; returns them."""
    given = list_of(variables)
    if given:
        values = call("broadcast", [tf.convert_to_tensor(each) for each in given], name,
                      process_set, root_rank=whole_number("root_rank", root_rank))
        for variable, value in zip(given, values):
            variable.assign(value)
    return given


@tf.RegisterGradient("HvdBroadcast")  # type: ignore[untyped-decorator]
@raising_both
def _gradient_of_broadcast(node: Any, *grads: Any) -> list[Any]:
    averages = call("allreduce", _all_tensors(grads), **_pairing(node), reduce_op=int(Average))
    is_root = _attribute(node, "root_rank") == _native.rank()
    return averages if is_root else [tf.zeros_like(average) for average in averages]


# -- alltoall


@raising_both
def alltoall(tensor: Any, splits: Any = None, name: str | None = None,
             ignore_name_scope: bool = False,
             process_set: ProcessSet = global_process_set) -> Any:
    """Row i of the part for rank r goes to rank r; what all ranks sent here, in rank order.

    ``splits``: rows for each rank of the set, a tensor or a sequence; None: equal parts. Then only
    the result is returned, else a pair (result, rows received from each rank), int32 as Horovod's.
    The gradient goes back the same way.
    """
    given = tf.zeros([0], tf.int64) if splits is None else tf.convert_to_tensor(splits)
    if not given.dtype.is_integer:
        raise _native.InvalidArgumentError(
            f"alltoall: splits of dtype {given.dtype.name}; expected a whole number for each rank")
    result, received = call("alltoall", [tf.convert_to_tensor(tensor), tf.cast(given, tf.int64)],
                            _scoped(name, ignore_name_scope), process_set)
    return result if splits is None else (result, tf.cast(received, tf.int32))


@tf.RegisterGradient("HvdAlltoall")  # type: ignore[untyped-decorator]
@raising_both
def _gradient_of_alltoall(node: Any, grad: Any, _: Any) -> list[Any]:
    back, _rows = call("alltoall", [grad, node.outputs[1]], **_pairing(node))
    return [back, None]


# -- barrier and join


@raising_both
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it; for eager code. While a graph of tf.compat.v1
    is made, this waits at once."""
    if tf.executing_eagerly() or tf.inside_function():
        call("barrier", [], None, process_set)
    else:
        _native.barrier(process_set=process_set)


@raising_both
def join(process_set: ProcessSet = global_process_set) -> int:
    """This rank has no more data; returns the rank that joined last, when all have. For eager code.

    Until then it takes part in what the others submit, with zeros. While a graph of tf.compat.v1 is
    made, this waits at once.
    """
    if not (tf.executing_eagerly() or tf.inside_function()):
        return int(_native.join(process_set=process_set))
    result, = call("join", [], None, process_set)
    return int(result)


for _each in ("HvdBarrier", "HvdJoin"):
    tf.no_gradient(_each)
