"""What of the Python package is public: what an __all__ leads to."""

import importlib
import types

import horovod_cpp as hvd


def public_modules():
    """The package and every module that an __all__ leads to, by name."""
    found, todo = {}, [hvd]
    while todo:
        module = todo.pop()
        if module.__name__ in found:
            continue
        found[module.__name__] = module
        values = [getattr(module, name) for name in module.__all__]
        todo += [value for value in values if isinstance(value, types.ModuleType)]
    found["horovod_cpp.typing"] = importlib.import_module("horovod_cpp.typing")
    return found


def members_of(cls):
    """Public names of a class that this package defines."""
    for base in cls.__mro__:
        if base.__module__.startswith("horovod_cpp"):
            yield from ((name, value) for name, value in vars(base).items()
                        if not name.startswith("_"))


def public_objects():
    """Pairs of a dotted name and what it names; methods as functions."""
    found = {}
    for module_name, module in public_modules().items():
        found[module_name] = module
        for name in [*module.__all__, *(("sum", "max") if module is hvd else ())]:
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                continue
            found[f"{module_name}.{name}"] = value
            if isinstance(value, type) and value.__module__.startswith("horovod_cpp"):
                for member, inside in members_of(value):
                    found.setdefault(f"{module_name}.{name}.{member}", inside)
    return found
