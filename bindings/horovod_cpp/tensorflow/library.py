"""TensorFlow's operations for collectives, and the engine behind them."""

import collections
import ctypes
import functools
import pathlib
import re
import weakref
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps

from horovod_cpp import _native, call_site
from horovod_cpp._native import ProcessSet
from horovod_cpp.front_end import without_numbers

_OLDEST = (2, 13)
# The order of the others among all that has effects is the program's.
_INDEPENDENT = ("HvdAllreduce", "HvdAllgather", "HvdBroadcast", "HvdReducescatter", "HvdAlltoall",
                "HvdQuery")
_QUERIES = ("rank", "size", "local_rank", "local_size", "process_set_included")  # of TableQuery
_FIRST_QUERY = 100


def _load() -> Any:
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if version < _OLDEST:
        raise ImportError(f"horovod_cpp.tensorflow needs TensorFlow 2.13 or newer; this is "
                          f"{tf.__version__}, whose C API has no asynchronous operations")
    path = str(pathlib.Path(__file__).with_name("_ops.so"))
    operations = tf.load_op_library(path)
    call_site.skip_generated(operations.__name__)
    library = ctypes.CDLL(path)
    library.hvd_tensorflow_error.restype = ctypes.c_char_p
    if error := library.hvd_tensorflow_error().decode():
        raise ImportError(f"horovod_cpp.tensorflow does not work with TensorFlow {tf.__version__}: "
                          f"{error}")
    library.hvd_tensorflow_connect.restype = ctypes.c_bool
    if not library.hvd_tensorflow_connect(ctypes.c_void_p(_native._collective_table())):
        raise ImportError(f"{path} is of another version of horovod_cpp; install the package again")
    # Operations with effects run one after the other, in the program's order; those named here
    # overlap, and are run as well if nothing uses the result: on other ranks something may. Where
    # TensorFlow has renamed the list they still give the same results, but in turn.
    name = "MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS"
    if hasattr(auto_control_deps, name):
        setattr(auto_control_deps, name,
                frozenset((*getattr(auto_control_deps, name), *_INDEPENDENT)))
    return operations


_operations = _load()


def call(kind: str, tensors: list[Any], name: str | None, process_set: ProcessSet | int,
         **attributes: Any) -> list[Any]:
    """Calls the operation HvdKind; its results. ``name``: of the call; in a graph also of the node.

    Raises:
        UnsupportedError: while a function is traced for XLA, which cannot contain it; in nested loops
            of tf.compat.v1's control flow.
    """
    number = process_set if isinstance(process_set, int) else number_of(process_set)
    inputs = {"tensor": tensors[0], "splits": tensors[1]} if kind == "alltoall" else {
        "tensors": tensors}
    if kind in ("barrier", "join"):
        inputs = {}
    operation = functools.partial(getattr(_operations, f"hvd_{kind}"), **inputs, **attributes,
                                  process_set=number)
    if tf.executing_eagerly():
        return as_list(operation(tensor_name=name or ""))
    _refuse_xla(kind)
    _refuse_nested_loops(kind)
    node = _node_name(kind, name)
    with tf.compat.v1.name_scope(None):
        results = as_list(operation(tensor_name=_name_in_graph(name), name=node))
    for result, shape in zip(results, _shapes(kind, tensors)):
        result.set_shape(shape)
    return results


def as_list(results: Any) -> list[Any]:
    """TensorFlow unpacks lists of one element."""
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _shapes(kind: str, tensors: list[Any]) -> list[Any]:
    """Those of the results, as far as they do not depend on other ranks."""
    if kind == "join":
        return [[]]
    if kind in ("allreduce", "broadcast"):
        return [each.shape for each in tensors]
    return [tf.TensorShape([None]).concatenate(each.shape[1:]) for each in tensors]


def ask(query: str, process_set: int = 0, name: str | None = None) -> Any:
    """The operation that returns one of _QUERIES when it runs: an int32 scalar."""
    answer = _operations.hvd_query(kind=_FIRST_QUERY + _QUERIES.index(query), process_set=process_set,
                                   name=name or query)
    answer.set_shape([])
    return answer


def number_of(process_set: ProcessSet) -> int:
    """Under which the job has registered it.

    Raises:
        InvalidArgumentError: it has not.
        TypeError: it is something else.
    """
    if not isinstance(process_set, ProcessSet):
        raise TypeError("process_set must be a ProcessSet, which add_process_set() makes of ranks, got "
                        f"{process_set!r}")
    number = process_set.process_set_id
    if number is None:
        raise _native.InvalidArgumentError(
            f"{process_set} is not registered: see hvd.add_process_set() and init(process_sets=...)")
    return int(number)


def scope_of_graph() -> str:
    """The scope of what is added to the graph now, which is the same on all ranks."""
    return without_numbers(tf.compat.v1.get_default_graph().get_name_scope())


def _node_name(kind: str, name: str | None) -> str:
    """By which nodes of graphs pair their calls across ranks. TensorFlow numbers those of one name in
    the order in which they are made; names of inputs may differ by rank, as captured tensors' do."""
    if name:
        return f"{kind}.{re.sub('[^A-Za-z0-9_.]', '_', name)}"
    scope = scope_of_graph()
    return f"{scope}/{kind}" if scope else kind


_names: weakref.WeakKeyDictionary[Any, collections.Counter[str]] = weakref.WeakKeyDictionary()


def _name_in_graph(name: str | None) -> str:
    """By which a call with a name pairs. Several of one name, as two layers of one class have, may be in
    flight together, and are numbered as nodes are."""
    if not name:
        return ""
    names = _names.setdefault(tf.compat.v1.get_default_graph(), collections.Counter())
    names[name] += 1
    return name if names[name] == 1 else f"{name}.call{names[name]}"


def _refuse_nested_loops(kind: str) -> None:
    """Those of v2 are functions; in a frame of v1 an operation learns of the innermost iteration alone,
    and iterations of the outer loop run beside each other."""
    from tensorflow.python.ops import control_flow_util

    context = tf.compat.v1.get_default_graph()._get_control_flow_context()
    loop = control_flow_util.GetContainingWhileContext(context)
    if loop and control_flow_util.GetContainingWhileContext(loop.outer_context):
        raise _native.UnsupportedError(
            f"{kind}: nested loops of tf.compat.v1's control flow cannot contain collectives; call "
            "tf.compat.v1.enable_control_flow_v2() before the graph is made")


def _refuse_xla(kind: str) -> None:
    from tensorflow.python.ops import control_flow_util

    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        raise _native.UnsupportedError(
            f"{kind}: XLA cannot compile collectives; trace this function without it: "
            "tf.function(jit_compile=False), or model.compile(jit_compile=False)")
