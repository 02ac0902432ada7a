"""Copies of modules: copy.deepcopy() and pickle, so that modules travel through hvd.run().

A native layer is made again with the arguments it was made with, a model of the zoo with those of
its function; then values, modes and attributes are put back. Hooks and gradients stay behind.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from horovod_cpp import _native
from horovod_cpp._native import Module, ModuleDict, ModuleList, Sequential, Tensor
from horovod_cpp.native_names import Origin, native_classes, remember_arguments

_P = ParamSpec("_P")
_Made = TypeVar("_Made", bound=Module)
# Classes that travel by value, those of scripts and notebooks, name their metaclass, which has to be
# found on the other side.
pybind11_type = type(Module)
setattr(pybind11_type, "__module__", __name__)

_WRAPPERS = (_native.DistributedDataParallel, _native.DataParallel)


def _keep_origin(module: Module, origin: Origin) -> None:
    cls, args, kwargs = origin
    if issubclass(cls, (Sequential, ModuleList, ModuleDict)):
        args = ()  # what they hold may change
    if type(module) is cls:
        _native._set_origin(module, (cls, args, kwargs))
    else:  # a class of Python's, whose instances live as long as C++ holds them
        module.__dict__["_origin"] = (cls, args, kwargs)


def remembering(make: Callable[_P, _Made]) -> Callable[_P, _Made]:
    """A function that makes native models, and also keeps its arguments."""

    @functools.wraps(make)
    def factory(*args: _P.args, **kwargs: _P.kwargs) -> _Made:
        model = make(*args, **kwargs)
        _native._set_origin(model, (make.__name__, args, {**kwargs, "init_weights": False}))
        return model

    return factory


def _origin_of(module: Module) -> Any:
    return module.__dict__.get("_origin") or _native._origin_of(module)


def _current_arguments(module: Module) -> tuple[Any, ...] | None:
    """Of a container what it holds now."""
    if isinstance(module, Sequential):
        return tuple(module)
    if isinstance(module, ModuleList):
        return (list(module),)
    if isinstance(module, ModuleDict):
        return (dict(module.items()),)
    return None


def _remade(cls: type[Module], origin: Origin) -> Module:
    """A module as it was when it was made; draws no random number."""
    made_by, args, kwargs = origin
    random = _native.get_rng_state()
    try:
        if isinstance(made_by, str):
            model: Module = remembering(getattr(_native, made_by))(*args, **kwargs)
            return model
        module: Module = cls.__new__(cls)
        made_by.__init__(module, *args, **kwargs)
        return module
    finally:
        _native.set_rng_state(random)


def _replaced(module: Module) -> dict[str, Module]:
    """Modules of Python's that were put into a native one: model.fc = nn.Linear(...)."""
    found: dict[str, Module] = {}
    for path, part in module.named_modules()[1:]:
        inside = any(path.startswith(known + ".") for known in found)
        if not inside and path.split(".")[0] not in module.__dict__ and _origin_of(part):
            found[path] = part
    return found


def _attribute_kind(module: Module, name: str, value: Any, state: dict[str, Tensor]) -> str:
    if isinstance(value, Module) and any(name == known for known, _ in module.named_children()):
        return "part"
    if isinstance(value, Tensor):
        if any(name == known for known, _ in module.named_buffers()):
            return "buffer" if name in state else "transient buffer"
        if name in state:
            return "part"
    return "plain"


def _reduce(module: Module, protocol: Any) -> tuple[Any, ...]:
    if isinstance(module, _WRAPPERS):
        raise TypeError(f"a {type(module).__name__} cannot be copied; copy its .module")
    origin = _origin_of(module)
    if origin is None:
        raise TypeError(f"this {type(module).__name__} cannot be copied alone: it is a part of a "
                        "model that was made as a whole; copy the model")
    made_by, args, kwargs = origin
    current = _current_arguments(module)
    replaced: dict[str, Module] = {}
    held = set(module.__dict__)
    if current is None:
        replaced = _replaced(module)
    else:
        args, kwargs = current, {}
        held |= {name for name, _ in module.named_children()}
    state = module.state_dict()
    native = {name: tensor for name, tensor in state.items()
              if name.split(".")[0] not in held
              and not any(name.startswith(path + ".") for path in replaced)}
    return _remade, (type(module), (made_by, args, kwargs)), {
        "attributes": [(name, _attribute_kind(module, name, value, state), value)
                       for name, value in module.__dict__.items() if name != "_origin"],
        "replaced": replaced,
        "values": native,
        "frozen": [name for name, tensor in module.named_parameters()
                   if not tensor.requires_grad],
        "training": [(path, part.training) for path, part in module.named_modules()],
    }


def _put(module: Module, path: str, value: Any) -> None:
    above, _, name = path.rpartition(".")
    parent = module.get_submodule(above)
    if isinstance(parent, (Sequential, ModuleList)):
        parent[int(name)] = value
    elif isinstance(parent, ModuleDict):
        parent[name] = value
    elif isinstance(value, Tensor) and not hasattr(type(parent), name):
        parent._replace_parameter(name, value)
    else:
        setattr(parent, name, value)


def _convert(module: Module, values: dict[str, Tensor]) -> None:
    """Give the module's own layers the dtypes of their values."""
    wanted = {name.rpartition(".")[0]: tensor.dtype for name, tensor in values.items()
              if tensor.dtype in ("float16", "bfloat16", "float32", "float64")}
    for path, dtype in wanted.items():
        if dtype != "float32":
            module.get_submodule(path).to(dtype)


def _put_parameters(module: Module, values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Put in the parameters themselves: names of one tensor stay that, and an optimizer that was copied
    too has the same ones. Returns the other values."""
    own = {name for name, _ in module.named_parameters()}
    for name in own & values.keys():
        _put(module, name, values[name])
    return {name: tensor for name, tensor in values.items() if name not in own}


def _restore(module: Module, state: dict[str, Any]) -> None:
    for name, kind, value in state["attributes"]:
        if kind in ("buffer", "transient buffer"):
            module.register_buffer(name, value, persistent=kind == "buffer")
        elif kind == "plain":
            module.__dict__[name] = value
        elif isinstance(value, Tensor):
            module.register_parameter(name, value)
        else:
            module.register_module(name, value)
    for path, part in state["replaced"].items():
        _put(module, path, part)
    _convert(module, state["values"])
    module.load_state_dict(_put_parameters(module, state["values"]), strict=False)
    for name in state["frozen"]:
        module.get_parameter(name).requires_grad_(False)
    for path, training in state["training"]:  # parents first
        module.get_submodule(path).train(training)


def enable_copies() -> None:
    """Let Module and its native subclasses be copied and pickled."""
    for cls in native_classes(Module):
        if "__init__" in cls.__dict__ and not issubclass(cls, _WRAPPERS):
            remember_arguments(cls, _keep_origin)
    setattr(Module, "__reduce_ex__", _reduce)
    setattr(Module, "__setstate__", _restore)
