"""Tracebacks that end where the user's program called this package."""

import functools
import pathlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from horovod_cpp import _native, call_site

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_FOLDER = str(pathlib.Path(__file__).parent)


def short_traceback(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorates a public function: the traceback of an error that this package raises shows the
    user's line and this one, and with HOROVOD_LOG_LEVEL=debug all frames between.

    Errors of the user's own functions, which this package may call, and of PyTorch's keep theirs.
    """
    def edge(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if not _is_ours(error) or _shows_everything():
                raise
            raise error.with_traceback(None)  # HOROVOD_LOG_LEVEL=debug shows where from

    edge.__code__ = edge.__code__.replace(co_name=function.__name__)  # what the traceback calls it
    return functools.wraps(function)(edge)


def _is_ours(error: Exception) -> bool:
    """Whether it was raised here, and no code of the user's is on the way."""
    entry, last = error.__traceback__, ""
    while entry is not None:
        frame = entry.tb_frame
        last = frame.f_code.co_filename
        generated = str(frame.f_globals.get("__name__")).startswith("horovod_cpp.")  # by dataclasses
        if not generated and not call_site.is_library(last):
            return False
        entry = entry.tb_next
    return last.startswith(_FOLDER)


def _shows_everything() -> bool:
    try:
        level = next(row["value"] for row in _native.config() if row["name"] == "HOROVOD_LOG_LEVEL")
    except _native.Error:  # a malformed variable; what failed says more than that
        return False
    return level in ("trace", "debug")
