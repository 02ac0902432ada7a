"""Variables that begin equal on all ranks."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from horovod_cpp._native import InvalidArgumentError, ProcessSet, global_process_set
from horovod_cpp.tensorflow.collectives import broadcast, broadcast_, list_of

__all__ = ["BroadcastGlobalVariablesHook", "broadcast_global_variables", "broadcast_variables"]


def broadcast_variables(variables: Iterable[Any], root_rank: int,
                        process_set: ProcessSet = global_process_set,
                        inplace: bool = False) -> Any:
    """Give the variables the values of rank ``root_rank``; collective.

    Args:
        variables: of TensorFlow or Keras; the same number, shapes and dtypes on every rank.
        root_rank: of the job, also in a process set.
        process_set: whose ranks call this.
        inplace: Horovod's, accepted without effect.

    Returns:
        In a graph of tf.compat.v1 the operation that does it; otherwise None, when it is done.
    """
    given = list_of(variables)
    if tf.executing_eagerly() or tf.inside_function():
        broadcast_(given, root_rank, None, process_set)
        return None
    return tf.group(*[tf.compat.v1.assign(each, broadcast(each, root_rank, process_set=process_set))
                      for each in given])


def broadcast_global_variables(root_rank: int) -> Any:
    """The operation that gives all global variables of this graph the values of rank ``root_rank``.

    Raises:
        InvalidArgumentError: outside a graph of tf.compat.v1, where no variable is global.
    """
    if tf.executing_eagerly():
        raise InvalidArgumentError(
            "broadcast_global_variables() is for graphs of tf.compat.v1; eagerly, call "
            "broadcast_variables(model.variables, root_rank)")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Gives all ranks the variables of rank ``root_rank`` when a MonitoredTrainingSession begins.

    ``device`` is Horovod's, without effect.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self._root_rank = root_rank
        self._broadcast: Any = None

    def begin(self) -> None:
        """Adds the operation, before the graph is finalized."""
        self._broadcast = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs it, after variables were initialized or restored."""
        session.run(self._broadcast)
