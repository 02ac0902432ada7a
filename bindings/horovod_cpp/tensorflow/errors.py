"""Errors of eager collectives of TensorFlow: each is one of horovod_cpp's and one of tf.errors.

Inside a tf.function they are TensorFlow's alone, with the same text in them; where a new job may
overcome the error, the text has "HorovodInternalError".
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import tensorflow as tf

from horovod_cpp import _native

_Arguments = ParamSpec("_Arguments")
_Given = TypeVar("_Given")


class InvalidArgumentError(tf.errors.InvalidArgumentError, _native.InvalidArgumentError):  # type: ignore[misc]
    """A mistake on this rank."""


class MismatchError(tf.errors.FailedPreconditionError, _native.MismatchError):  # type: ignore[misc]
    """Ranks disagree; on every rank, and the job goes on."""


class StalledError(tf.errors.DeadlineExceededError, _native.StalledError):  # type: ignore[misc]
    """A rank was silent for too long."""


class PeerLostError(tf.errors.AbortedError, _native.PeerLostError):  # type: ignore[misc]
    """A rank is gone."""


class AbortedError(tf.errors.CancelledError, _native.AbortedError):  # type: ignore[misc]
    """The job ended."""


class UnsupportedError(tf.errors.UnimplementedError, _native.UnsupportedError):  # type: ignore[misc]
    """This build or this job cannot do that."""


class InternalError(tf.errors.InternalError, _native.InternalError):  # type: ignore[misc]
    """A bug in horovod_cpp."""


_CLASSES = (InvalidArgumentError, MismatchError, StalledError, PeerLostError, AbortedError,
            UnsupportedError, InternalError)


def raising_both(function: Callable[_Arguments, _Given]) -> Callable[_Arguments, _Given]:
    """``function``, with errors of either family raised as the classes above."""

    @functools.wraps(function)
    def raising(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Given:
        try:
            return function(*args, **kwargs)
        except (_native.Error, tf.errors.OpError) as error:
            for each in _CLASSES:
                if isinstance(error, each.__bases__) and not isinstance(error, each):
                    raise _both(each, error) from None
            raise

    return raising


def _both(made: Any, error: Any) -> Exception:
    # TensorFlow says around a text where the operation is: "{{function_node ...}} text [Op:HvdJoin]".
    text = getattr(error, "message", None) or str(error)
    text = text.rpartition(" [Op:")[0] or text
    if text.startswith("{{"):
        text = text.partition("}} ")[2]
    both: Exception = made(getattr(error, "node_def", None), getattr(error, "op", None), text)
    return both
