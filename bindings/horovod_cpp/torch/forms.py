"""The forms of a collective: of one tensor or several, in place or not, that wait or return a Handle,
inside PyTorch's graph or outside.

``call`` is the engine's name for it; beginning with "grouped_" it takes and gives lists.
"""

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

import torch

from horovod_cpp import _native
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import gpu, memory
from horovod_cpp.torch.handle import Handle

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Run: TypeAlias = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]
_Gradients: TypeAlias = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor | None]]
_KEEP_SHAPES = ("allreduce", "broadcast")


def form(declared: Callable[_Arguments, tuple[Any, ...]], name: str,
         make: Callable[..., _Result], text: str) -> Callable[_Arguments, _Result]:
    """A public function ``name`` with the arguments of ``declared``, which makes of them those of
    ``make``: the call, its tensors and what else the engine takes."""
    own: Any = types.FunctionType(*(getattr(declared, f"__{part}__") for part in (
        "code", "globals", "name", "defaults")))
    own.__name__ = own.__qualname__ = name  # what Python says of wrong arguments names it
    own.__doc__, own.__module__ = text, declared.__module__
    own.__annotations__ = {**declared.__annotations__, "return": make.__annotations__["return"]}

    @short_traceback
    @functools.wraps(own)
    def public(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        return make(*own(*args, **kwargs))

    return public


def _listed(call: str, value: Any) -> list[Any]:
    return list(value) if call.startswith("grouped_") else [value]


def _unlisted(call: str, values: list[Any]) -> Any:
    return values if call.startswith("grouped_") else values[0]


def _prepared(call: str, tensors: list[torch.Tensor]
              ) -> tuple[str, Any, Callable[[Any], list[torch.Tensor]]]:
    """How the engine's function ends, what it takes, and what makes results of what it gives.

    On a GPU results of known shapes are memory of PyTorch's allocator: the call is in place over
    copies.
    """
    for tensor in tensors:
        memory.check(tensor)
    if not call.endswith(_KEEP_SHAPES) or not any(map(gpu.is_gpus, tensors)):
        inputs = [memory.wrap(memory.dense(tensor)) for tensor in tensors]
        return "", _unlisted(call, inputs), lambda given: memory.results(_listed(call, given))
    copies = [memory.copy_of(tensor) for tensor in tensors]

    def finish(_: Any) -> list[torch.Tensor]:
        for copy in copies:
            gpu.handed_over(copy)
        return copies

    return "_", _unlisted(call, [memory.wrap(copy) for copy in copies]), finish


def run(call: str, tensors: Iterable[torch.Tensor], *arguments: Any) -> list[torch.Tensor]:
    """Waits for new tensors."""
    suffix, inputs, finish = _prepared(call, list(tensors))
    return finish(getattr(_native, f"{call}{suffix}")(inputs, *arguments))


def start(call: str, tensors: Any, *arguments: Any) -> Handle:
    """run() that returns a Handle."""
    suffix, inputs, finish = _prepared(call, _listed(call, tensors))
    return Handle(getattr(_native, f"{call}_async{suffix}")(inputs, *arguments),
                  lambda given: _unlisted(call, finish(given)))


def start_in_place(call: str, tensors: Any, *arguments: Any) -> Handle:
    """Overwrites the tensors; the Handle gives them.

    Raises:
        InvalidArgumentError: two of them share memory: either result would be lost.
    """
    targets = _listed(call, tensors)
    native = [memory.target(tensor) for tensor in targets]
    addresses = [tensor.data_ptr() for tensor in targets]
    memory.check_disjoint(targets)

    def finish(_: Any) -> Any:
        for place, (tensor, address) in enumerate(zip(targets, addresses)):
            if tensor.data_ptr() != address:
                raise _native.InvalidArgumentError(
                    f"tensor {place} of an in-place call, of shape {list(tensor.shape)}, was given "
                    "other memory while the call was in flight (by .data =, set_() or resize_()), "
                    "so the result is lost; call synchronize() first")
        return _unlisted(call, targets)

    handle = getattr(_native, f"{call}_async_")(_unlisted(call, native), *arguments)
    for tensor in targets:
        memory.written(tensor)
    return Handle(handle, finish)


def in_place(call: str, tensor: torch.Tensor, *arguments: Any) -> torch.Tensor:
    """start_in_place() that waits."""
    result: torch.Tensor = start_in_place(call, tensor, *arguments).synchronize()
    return result


def all_in_place(call: str, tensors: Iterable[torch.Tensor], *arguments: Any) -> list[torch.Tensor]:
    """in_place() of several."""
    return list(start_in_place(call, tensors, *arguments).synchronize())


class _Recorded(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    @staticmethod
    def forward(ctx: Any, run: _Run, gradients: _Gradients,
                *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.gradients = gradients
        return tuple(run(tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (None, None, *ctx.gradients(gradients))


def recorded(run: _Run, gradients: _Gradients, tensors: Iterable[torch.Tensor]
             ) -> list[torch.Tensor]:
    """``run(tensors)``, a list of results, as one node of PyTorch's graph.

    ``gradients`` gets those of the results and returns those of the tensors. The node exists only
    where one of the tensors needs it.
    """
    tensors = list(tensors)
    if torch.is_grad_enabled() and any(
            getattr(tensor, "requires_grad", False) for tensor in tensors):
        return list(_Recorded.apply(run, gradients, *tensors))
    return run(tensors)


def name_of_gradient(name: str | None) -> str | None:
    """Pairs the collective of a backward pass, as ``name`` does that of the forward pass."""
    return None if name is None else f"{name}.gradient"
