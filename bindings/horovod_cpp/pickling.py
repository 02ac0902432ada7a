"""Pickles of functions that keep their file name and source, for tracebacks on other ranks, and of
compressions."""

import copyreg
import io
import linecache
import sys
import types
from collections import ChainMap
from collections.abc import Callable
from typing import Any

import cloudpickle

from horovod_cpp._native import Compression


def dumps(obj: object, take: Callable[[object], int | None] | None = None) -> bytes:
    """``obj`` pickled by cloudpickle: functions and classes of scripts and notebook cells travel too,
    also from processes that multiprocessing spawned, which know the main script as __mp_main__.

    ``pickle.loads`` restores it in a process that can import this package. ``take``: the Pickler's
    ``persistent_id``, for what travels apart.
    """
    script = sys.modules.get("__mp_main__")
    if script is not None:
        cloudpickle.register_pickle_by_value(script)  # as cloudpickle does with __main__
    with io.BytesIO() as file:
        pickler = _Pickler(file)
        if take is not None:
            pickler.persistent_id = take
        pickler.dump(obj)
        return file.getvalue()


def _reduce_code(code: types.CodeType) -> tuple[Callable[..., types.CodeType], tuple[Any, ...]]:
    """Like cloudpickle's, but keeps the file name, which that replaces with <dynamic-code> since 3.1.3."""
    make, arguments = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return _make_code, (make, arguments, code.co_filename, _lines_without_a_file(code.co_filename))


def _lines_without_a_file(filename: str) -> list[str] | None:
    """The source of a notebook cell, which is only in linecache, as an entry without a time of change.
    All functions of a cell have one list, which is pickled once."""
    entry = linecache.cache.get(filename, ())
    return entry[2] if len(entry) == 4 and entry[1] is None else None


def _make_code(make: Callable[..., types.CodeType], arguments: tuple[Any, ...], filename: str,
               lines: list[str] | None) -> types.CodeType:
    if lines is not None:
        linecache.cache.setdefault(filename, (sum(map(len, lines)), None, lines, filename))
    return make(*arguments).replace(co_filename=filename)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # mypy does not see cloudpickle
    dispatch_table = ChainMap({types.CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)


def compression_named(name: str) -> Compression:
    """Of its ``name``: "int8", "powersgd(2)"."""
    kind, _, rank = name.rstrip(")").partition("(")
    compression: Any = getattr(Compression, kind)
    made: Compression = compression(int(rank)) if rank else compression
    return made


copyreg.pickle(Compression, lambda compression: (compression_named, (compression.name,)))
