#!/usr/bin/env python3
"""Writes the type stubs of a built horovod_cpp._native.

    stubs.py PACKAGE      PACKAGE: the folder horovod_cpp with _native and typing.py in it

setup.py runs it for the wheel, so that stubs are never older than what they describe. Signatures
are those of the docstrings that pybind11 writes; the types of what the bindings convert by hand are
those of native/types.h, whose names PACKAGE/typing.py defines.
"""

import ast
import builtins
import enum
import importlib
import inspect
import pathlib
import re
import sys
import textwrap
import types

# What pybind11 writes, and what is shorter, or complete.
REWRITES = [
    (r"typing\.SupportsInt \| typing\.SupportsIndex", "typing.SupportsIndex"),
    (r"typing\.SupportsFloat \| typing\.SupportsIndex", "typing.SupportsFloat"),
    (r"os\.PathLike \| str \| bytes", "str | os.PathLike[str]"),
    (r"numpy\.ndarray\b", "NDArray[typing.Any]"),
    (r"<(\w+\.\w+): [^>]*>", r"\1"),  # the repr of an enum's member
    (r"horovod_cpp\._native\.", ""),
]
UNSAID = {
    "__module__", "__doc__", "__dict__", "__weakref__", "__new__", "__getstate__", "__setstate__",
    "__firstlineno__", "__static_attributes__", "__annotations__", "_pybind11_conduit_v1_",
    "__pybind11_native_enum__", "__pybind11_enum__",
    # Declared, they would let every attribute be assigned.
    "__setattr__", "__delattr__",
}
HEADER = '''\
"""{doc}"""

import builtins
import collections.abc
import enum
import os
import typing

from numpy.typing import NDArray

'''


def load_native(package):
    """_native without the rest of the package, which needs what is being written."""
    name = package.name
    parent = types.ModuleType(name)
    parent.__path__ = [str(package)]
    sys.modules[name] = parent
    return importlib.import_module(name + "._native")


def public_types(package):
    """The names that typing.py offers to signatures: its __all__, with which it ends."""
    _, _, listed = (package / "typing.py").read_text(encoding="utf-8").partition("__all__ = ")
    return ast.literal_eval(listed)


def indented(text):
    return textwrap.indent(text, "    ")


def docstring(text):
    text = inspect.cleandoc(text).replace("\\", "\\\\").replace('"""', r'\"\"\"')
    if text.endswith('"'):
        text += " "
    return f'"""{text}"""' if "\n" not in text else f'"""{text}\n"""'


def rewritten(text):
    for pattern, replacement in REWRITES:
        text = re.sub(pattern, replacement, text)
    return text


def overloads_of(doc):
    """Pairs of a signature, "(a: int) -> int", and its documentation."""
    first, _, rest = doc.partition("\n")
    if "\nOverloaded function.\n" not in doc:
        return [(first[first.index("("):], rest.strip("\n"))]
    found = []
    for part in re.split(r"\n(?=\d+\. \w+\()", rest)[1:]:
        line, _, text = part.partition("\n")
        found.append((line[line.index("("):], text.strip("\n")))
    return found


class Builtins(ast.NodeTransformer):
    """Says builtins.int where a class has a method of its own called int."""

    def __init__(self, hidden):
        self.hidden = hidden

    def visit_Name(self, node):
        if node.id not in self.hidden:
            return node
        return ast.Attribute(ast.Name("builtins", ast.Load()), node.id, ast.Load())


def allow_none(argument, default):
    """Pointers may be None; pybind11 does not say so."""
    text = ast.unparse(argument.annotation) if argument.annotation else "None"
    if isinstance(default, ast.Constant) and default.value is None and "None" not in text \
            and text != "typing.Any":
        argument.annotation = ast.parse(f"{text} | None").body[0].value


def parsed(name, text, is_method, hidden=()):
    """Arguments of one signature of pybind11's, as Python's syntax tree, and the type of its result.
    `hidden`: names that mean something else there."""
    source = f"def f{rewritten(text)}: ..."
    try:
        function = Builtins(hidden).visit(ast.parse(source).body[0])
    except SyntaxError as error:
        raise SystemExit(f"{name}: {source} is not Python ({error}); see native/types.h") from None
    arguments = function.args
    if is_method and arguments.args:
        own = arguments.args[0]
        own.arg = "self"
        if own.annotation is not None and ast.unparse(own.annotation) != "ModuleT":
            own.annotation = None
    for argument, default in (*zip(reversed(arguments.args), reversed(arguments.defaults)),
                              *zip(arguments.kwonlyargs, arguments.kw_defaults)):
        allow_none(argument, default)
    for argument in (arguments.vararg, arguments.kwarg):
        if argument is not None and argument.annotation is None:
            raise SystemExit(f"{name}: {source}: * and ** want py::Args<T> and py::KWArgs<T>")
    unnamed = [a for a in arguments.args if re.fullmatch(r"arg\d+", a.arg)]
    if unnamed and len(unnamed) == len(arguments.args) - is_method:
        arguments.posonlyargs, arguments.args = arguments.args, []
    return arguments, ast.unparse(function.returns)


def function_stub(name, doc, decorator="", is_method=False, hidden=()):
    stubs = []
    every = overloads_of(doc)
    overload = "@typing.overload" if len(every) > 1 else ""
    for number, (text, documentation) in enumerate(every):
        arguments, result = parsed(name, text, is_method, hidden)
        arguments, ignored, at = ast.unparse(arguments), "", ""
        in_place = re.match(r"__i(sub|mul|truediv)__|__iadd__", name) and "ArrayLike" in text
        # += takes fewer types than +, and an array compares with a Tensor too.
        if in_place or (re.match(r"__[lg][te]__", name) and "NDArray" in arguments):
            ignored = "  # type: ignore[misc]"
        elif name in ("__eq__", "__ne__") and result != "bool" and number == 0:
            ignored = "  # type: ignore[override]"  # elements are compared, as NumPy does
            at, ignored = (ignored, "") if overload else ("", ignored)
        stubs.append((f"{overload}{at}\n" if overload else "") + decorator
                     + f"def {name}({arguments}) -> {result}:{ignored}\n"
                     + indented(docstring(documentation) if documentation else "..."))
    return "\n".join(stubs)


def property_stub(name, value, hidden):
    _, result = parsed(name, value.fget.__doc__.strip().splitlines()[0], True, hidden)
    text = f"@property\ndef {name}(self) -> {result}:\n{indented(docstring(value.__doc__ or ''))}"
    if value.fset is not None:
        arguments, _ = parsed(name, value.fset.__doc__.strip().splitlines()[0], True, hidden)
        given = ast.unparse((arguments.posonlyargs + arguments.args)[1].annotation)
        text += f"\n@{name}.setter\ndef {name}(self, value: {given}) -> None: ..."
    return text


def is_function(value):
    return isinstance(value, types.BuiltinFunctionType) or type(value).__name__ in (
        "instancemethod", "pybind11_detail_function_record", "pybind11_builtins.pybind11_function")


def member_stub(name, value, hidden):
    if isinstance(value, staticmethod):
        return function_stub(name, value.__func__.__doc__, "@staticmethod\n", hidden=hidden)
    if isinstance(value, property):
        return property_stub(name, value, hidden)
    if is_function(value):
        return function_stub(name, value.__doc__, is_method=True, hidden=hidden)
    prefix = "builtins." if type(value).__module__ == "builtins" else ""
    return f"{name}: typing.ClassVar[{prefix}{type(value).__name__}]"


def takes_one_tensor(cls):
    """Whether calling a layer is what C++ does with one Tensor."""
    lineage = [base for base in cls.__mro__ if base.__name__ not in ("object", "pybind11_object")]
    if lineage[-1].__name__ != "Module" or cls.__name__ in ("Module", "ModuleList", "ModuleDict"):
        return False
    return not any("forward" in base.__dict__ for base in lineage[:-1])


def members(cls):
    hidden = {name for name in cls.__dict__ if hasattr(builtins, name)}
    for name, value in cls.__dict__.items():
        no_constructor = name == "__init__" and not is_function(value)
        if name in UNSAID or no_constructor or (name == "__hash__" and value is None):
            continue
        if cls.__name__ == "Module" and name == "forward":
            yield "forward: collections.abc.Callable[..., typing.Any]\n" + docstring(
                overloads_of(value.__doc__)[0][1])
        else:
            yield member_stub(name, value, hidden)
    if takes_one_tensor(cls) and "__call__" not in cls.__dict__:
        yield "def __call__(self, input: Tensor) -> Tensor: ..."


def class_stub(name, cls):
    lines = [docstring(cls.__doc__ or "")]
    if issubclass(cls, enum.Enum):
        bases = "enum.IntEnum"
        lines += [f"{member} = {int(value)}" for member, value in cls.__members__.items()]
    elif hasattr(cls, "_fields"):
        bases = "typing.NamedTuple"
        lines += [f"{field}: Tensor" for field in cls._fields]
    else:
        bases = ", ".join(base.__name__ for base in cls.__bases__
                          if base.__name__ not in ("object", "pybind11_object"))
        if not issubclass(cls, BaseException):
            lines += list(members(cls))
    return f"class {name}({bases}):\n".replace("()", "") + indented("\n".join(lines))


def module_stub(module, type_names):
    stubs, submodules = [], []
    names = [name for name in vars(module) if not name.startswith("__")]
    for name in names:
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            submodules.append(name)
        elif isinstance(value, type):
            stubs.append(class_stub(name, value))
        elif is_function(value):
            stubs.append(function_stub(name, value.__doc__))
        else:
            stubs.append(f"{name}: {type(value).__name__}")
    body = "\n\n".join(stubs)
    used = [name for name in type_names if re.search(rf"\b{name}\b", body)]
    text = HEADER.format(doc=module.__doc__)
    if hasattr(module, "__version__"):
        body = "__version__: str\n\n" + body
    if "." in module.__name__.partition("_native")[2]:
        text += "from horovod_cpp._native import Tensor\n"
    if used:
        text += f"from horovod_cpp.typing import {', '.join(used)}\n"
    for name in submodules:
        text += f"from . import {name} as {name}\n"
    return text + "\n" + body + "\n", submodules


def write(module, folder, type_names):
    """The stubs of a module and of those in it."""
    text, submodules = module_stub(module, type_names)
    path = folder / "__init__.pyi" if submodules else folder.with_suffix(".pyi")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    for name in submodules:
        write(getattr(module, name), folder / name, type_names)


def main():
    package = pathlib.Path(sys.argv[1]).resolve()
    write(load_native(package), package / "_native", public_types(package))


if __name__ == "__main__":
    main()
