"""Horovod's names for horovod_cpp; horovod_cpp.compat says how to use them."""

import sys as _sys
from collections.abc import Callable as _Callable
from typing import Any as _Any

from horovod_cpp import __version__ as _version
from horovod_cpp import run as _run

__version__ = f"0.28.1+horovod.cpp.{_version}"  # whose interface it is, and whose work


def run(func: _Callable[..., _Any], args: tuple[_Any, ...] = (), kwargs: dict[str, _Any] | None = None,
        num_proc: int | None = 1, **options: _Any) -> list[_Any]:
    """Horovod's ``horovod.run``: ``horovod_cpp.run`` with its options, on one rank unless
    ``num_proc``, ``np`` or hosts say otherwise."""
    if "np" in options or "hosts" in options or "hostfile" in options:
        num_proc = None if num_proc == 1 else num_proc
    return _run(func, args, kwargs, num_proc=num_proc, **options)


class _Missing:
    """The last finder: for what no other one found."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.startswith("horovod."):
            raise ModuleNotFoundError(
                f"No module named '{name}': horovod_cpp.compat has horovod.torch, "
                "horovod.tensorflow, horovod.keras, horovod.run and what they need, and nothing else of Horovod", name=name)


_sys.meta_path.append(_Missing)
