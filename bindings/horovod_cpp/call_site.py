"""The line at which this program is, for reports of stalls on other ranks."""

import pathlib
import sys
import threading
import warnings

_libraries: tuple[str, ...] = (str(pathlib.Path(__file__).parent),)
_generated: set[str] = set()  # names of modules that have no file


def skip(folder: str | pathlib.Path) -> None:
    """Functions of this library tell a user nothing about the place."""
    global _libraries
    _libraries += (str(folder),)


def skip_generated(module: str) -> None:
    """The same of a module that was made without a file."""
    _generated.add(module)


def is_library(file_name: str) -> bool:
    """Whether code of this file is the libraries' and not the user's."""
    return file_name.startswith(_libraries)


def warn(text: str) -> None:
    """A UserWarning at the user's line."""
    level, frame = 1, sys._getframe()
    while is_library(frame.f_code.co_filename) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def where() -> str:
    """The innermost line of the main thread outside libraries: "train.py:12 in evaluate"."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and (is_library(frame.f_code.co_filename)
                                 or frame.f_globals.get("__name__") in _generated):
        frame = frame.f_back
    if frame is None:
        return ""
    name = pathlib.Path(frame.f_code.co_filename).name
    return f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
