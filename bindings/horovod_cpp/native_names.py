"""The classes and names of C++: which of them a module of this package has, and with which arguments
their instances are made."""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from horovod_cpp import _native

_Base = TypeVar("_Base")
#: The class whose __init__ ran, and its arguments: a copy is made again with them.
Origin: TypeAlias = tuple[Any, tuple[Any, ...], dict[str, Any]]


def native_classes(*bases: type[_Base]) -> list[type[_Base]]:
    """The classes of C++ that are or derive from one of these."""
    return [cls for cls in vars(_native).values() if isinstance(cls, type) and issubclass(cls, bases)]


def remember_arguments(cls: type, keep: Callable[[Any, Origin], None]) -> None:
    """From now on instances of ``cls``, and of what derives from it, are told the arguments of its
    __init__: ``keep(instance, origin)``."""
    plain: Callable[..., None] = cls.__init__  # type: ignore[misc]

    @functools.wraps(plain)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        keep(self, (cls, args, kwargs))

    setattr(cls, "__init__", __init__)


def keep_listed(module: dict[str, Any], *others: str) -> None:
    """Takes out of a module's ``globals()`` what ``from horovod_cpp._native import *`` brought, except
    what its ``__all__`` lists and ``others``: a name of C++ is written down once."""
    for name in vars(_native).keys() - {*module["__all__"], *others}:
        if not name.startswith("_"):
            module.pop(name, None)
