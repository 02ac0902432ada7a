"""The line at which this program is, for reports of stalls on other ranks."""

import pathlib
import sys
import threading

_libraries: tuple[str, ...] = (str(pathlib.Path(__file__).parent),)


def skip(folder: str | pathlib.Path) -> None:
    """Functions of this library are no place that tells a user anything."""
    global _libraries
    _libraries += (str(folder),)


def where() -> str:
    """The innermost line of the main thread outside of libraries: "train.py:12 in evaluate"."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code.co_filename.startswith(_libraries):
        frame = frame.f_back
    if frame is None:
        return ""
    name = pathlib.Path(frame.f_code.co_filename).name
    return f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
