"""The parameters of an optimizer under their names."""

import gc
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import torch

from horovod_cpp import _native
from horovod_cpp.torch import memory


def refuse(text: str) -> NoReturn:
    raise _native.InvalidArgumentError(f"DistributedOptimizer: {text}")


def refuse_data_parallel() -> NoReturn:
    refuse("the model is wrapped in DistributedDataParallel, which averages gradients already; take "
           "the plain optimizer, or a model without that wrapper")


def has_gradient(parameter: torch.Tensor) -> bool:
    """Whether it may have one."""
    return bool(parameter.is_floating_point() or parameter.is_complex())


def in_data_parallel(parameter: torch.Tensor) -> bool:
    """Whether PyTorch's DistributedDataParallel has it, which averages gradients by itself."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return False
    wrapper = torch.nn.parallel.DistributedDataParallel
    return any(parameter is each for module in gc.get_objects()
               if issubclass(type(module), wrapper) for each in module.parameters())


def parameters_of(optimizer: torch.optim.Optimizer, named_parameters: Any,
                  alone: bool) -> list[tuple[str, torch.Tensor]]:
    """(name, parameter) for each of the optimizer that may have a gradient, in its order."""
    check = memory.check_kind if alone else memory.check
    names = None if named_parameters is None else _names(named_parameters)
    found = []
    for number, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            name = f"allreduce.noname.{number}.{place}"
            if names is not None:
                if id(parameter) not in names:
                    refuse(f"parameter {place} of group {number}, of shape "
                           f"{list(parameter.shape)}, is not in named_parameters; name all of the "
                           "optimizer's parameters")
                name = names[id(parameter)]
            if has_gradient(parameter):
                with memory.about(f"DistributedOptimizer: '{name}'"):
                    check(parameter)
                found.append((name, parameter))
    # Its names begin with "module."; the model inside may be trained without it.
    if found and all(name.startswith("module.") for name, _ in found) and in_data_parallel(
            found[0][1]):
        refuse_data_parallel()
    return found


def _names(named_parameters: Any) -> dict[int, str]:
    """By id()."""
    if isinstance(named_parameters, Mapping):
        named_parameters = named_parameters.items()
    is_list = isinstance(named_parameters, Iterable) and not isinstance(
        named_parameters, torch.nn.Module)
    pairs: list[Any] = list(named_parameters) if is_list else [None]
    if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
               for pair in pairs):
        refuse("named_parameters must be pairs (name, parameter), such as model.named_parameters(),"
               f" not a {type(named_parameters).__name__}")
    if not pairs:
        refuse("named_parameters is empty; pass model.named_parameters(), or None to number the "
               "parameters")
    names: dict[int, str] = {}
    seen = set()
    for name, parameter in pairs:
        if name in seen:
            refuse(f"named_parameters has the name '{name}' twice")
        seen.add(name)
        names.setdefault(id(parameter), name)
    return names
