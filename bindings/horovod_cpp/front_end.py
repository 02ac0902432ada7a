"""What the front ends of other frameworks share."""

import builtins
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from horovod_cpp import _native
from horovod_cpp._native import *
from horovod_cpp.built import *
from horovod_cpp.cluster.run import run
from horovod_cpp.native_names import keep_listed
from horovod_cpp.objects import allgather_made, allgather_object, broadcast_object
from horovod_cpp.process_sets import add_process_set
from horovod_cpp.process_sets import init as _init
from horovod_cpp.rank_zero import rank_zero_section

# Of all of them, under Horovod's names.
__all__ = [
    "AbortedError", "Adasum", "Average", "BitAnd", "BitOr", "Error", "HorovodInternalError",
    "InternalError", "InvalidArgumentError", "Max", "Min", "MismatchError", "PeerLostError",
    "ProcessSet", "Product", "ReduceOp", "StalledError", "Sum", "UnsupportedError",
    "add_process_set", "allgather_object", "broadcast_object", "ccl_built", "config",
    "cross_rank", "cross_size", "cuda_built", "ddl_built", "dump_flight_recorder",
    "global_process_set", "gloo_built", "gloo_enabled", "init", "is_homogeneous",
    "is_initialized", "local_rank", "local_size", "metrics", "metrics_text", "mpi_built",
    "mpi_enabled", "mpi_threads_supported", "nccl_built", "on_stall", "process_set_ids", "rank",
    "rank_zero_section", "remove_process_set", "rocm_built", "run", "shutdown", "size",
    "start_timeline", "stop_timeline", "summary",
]
keep_listed(globals())


def init(comm: None = None,
         process_sets: Iterable[ProcessSet | Sequence[int]] | None = None) -> None:
    """Find the other ranks of this job and connect to them; collective. See ``horovod_cpp.init``.

    Args:
        comm: Horovod's, for MPI; only None, the whole job. For some of the ranks, use process sets.
        process_sets: ProcessSet objects or lists of ranks to register at once.

    Raises:
        UnsupportedError: ``comm`` is something else.
    """
    if comm is not None:
        raise _native.UnsupportedError(
            "init(comm=...) is not supported: all ranks that were started make "
            "the job. For some of them, init(process_sets=[[0, 2], [1, 3]])")
    _init(process_sets)


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


def variables_of_layers(layers: Any, caller: str) -> list[Any]:
    """The variables of ``caller``'s local layers: a layer of Keras, several, or None.

    Raises:
        InvalidArgumentError: one is not a layer, or is not built.
    """
    given = [layers] if hasattr(layers, "trainable_variables") else layers or ()
    variables = []
    for layer in given:
        if not hasattr(layer, "trainable_variables") or not hasattr(layer, "built"):
            raise _native.InvalidArgumentError(
                f"{caller}: local_layers has a {type(layer).__name__}, which is not a Keras layer")
        if not layer.built:
            raise _native.InvalidArgumentError(
                f"{caller}: the local layer {layer.name!r} is not built, so it has no variables yet; "
                "call model.build() before")
        variables += layer.variables
    return variables


def check_groups(groups: Any) -> None:
    """Raises unless it is a number of groups, lists of variables, or None."""
    are_lists = isinstance(groups, (list, tuple)) and builtins.all(
        isinstance(group, (list, tuple)) and builtins.all(hasattr(each, "shape") for each in group)
        for group in groups)
    if isinstance(groups, bool) or not (are_lists or isinstance(groups, (int, type(None)))):
        raise TypeError("groups must be a number of groups, lists of variables or None, got "
                        f"{groups!r}")
    if isinstance(groups, int) and groups < 0:
        raise _native.InvalidArgumentError(f"groups={groups}: expected a number from 0 on")


def check_same_start(what: str, names: Sequence[str], values: Sequence[_native.Tensor] | None,
                     process_set: ProcessSet) -> None:
    """Collective. Raises MismatchError on every rank where the ranks' lists of names differ. Where all
    know the values, and these differ, the first rank warns, unless HVD_CHECK_PARAMETERS is 0."""
    (one, (mine, known)), *others = allgather_made(lambda: (names, values is not None), what,
                                                   f"{what}.setup", process_set).items()
    for rank, (theirs, also_known) in others:
        known = known and also_known
        for here, there in itertools.zip_longest(mine, theirs):
            if here != there:
                here, there = (f"'{name}'" if name else "nothing" for name in (here, there))
                raise _native.MismatchError(f"{what}: the ranks differ: {here} on rank {one}, {there} "
                                            f"on rank {rank}")
    if values is not None and known:
        _native._compare_values(what, list(zip(names, values)), process_set)


def without_numbers(path: str) -> str:
    """A name of Keras' layers without the numbers that it adds, which differ on a rank that has
    made more models."""
    return re.sub("_[0-9]+(?=[/_]|$)", "", path)


def name_of_gradient(name: str | None) -> str | None:
    """Pairs the collective of a backward pass, as ``name`` does that of the forward pass."""
    return f"{name}.gradient" if name else None
