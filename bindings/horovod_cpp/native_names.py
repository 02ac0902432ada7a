"""What of the names of C++ a module of this package has."""

from typing import Any, TypeVar

from horovod_cpp import _native

_Base = TypeVar("_Base")


def native_classes(*bases: type[_Base]) -> list[type[_Base]]:
    """The classes of C++ that are or derive from one of these."""
    return [cls for cls in vars(_native).values() if isinstance(cls, type) and issubclass(cls, bases)]


def keep_listed(module: dict[str, Any], *others: str) -> None:
    """Takes out of a module's ``globals()`` what ``from horovod_cpp._native import *`` brought, except
    what its ``__all__`` lists and ``others``: a name of C++ is written down once."""
    for name in vars(_native).keys() - {*module["__all__"], *others}:
        if not name.startswith("_"):
            module.pop(name, None)
