"""Pickles of functions that keep their file name and source, for tracebacks on other ranks."""

import io
import linecache
import os
import types
from collections import ChainMap
from collections.abc import Callable
from typing import Any

import cloudpickle


def dumps(obj: object) -> bytes:
    """``obj`` pickled by cloudpickle: functions and classes of scripts and notebook cells travel too.

    ``pickle.loads`` restores it in a process that can import this package.
    """
    with io.BytesIO() as file:
        _Pickler(file).dump(obj)
        return file.getvalue()


def _reduce_code(code: types.CodeType) -> tuple[Callable[..., types.CodeType], tuple[Any, ...]]:
    """As cloudpickle has it, but for the file name, which it replaces by <dynamic-code> since 3.1.3."""
    make, arguments = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    # Notebook cells are in linecache alone. All code of a cell has one list, which is pickled once.
    lines = None if os.path.exists(code.co_filename) else linecache.getlines(code.co_filename)
    return _make_code, (make, arguments, code.co_filename, lines or None)


def _make_code(make: Callable[..., types.CodeType], arguments: tuple[Any, ...], filename: str,
               lines: list[str] | None) -> types.CodeType:
    if lines is not None:  # None as its time of change: linecache.checkcache() leaves the entry alone
        linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)
    return make(*arguments).replace(co_filename=filename)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # mypy does not see cloudpickle
    dispatch_table = ChainMap({types.CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)
