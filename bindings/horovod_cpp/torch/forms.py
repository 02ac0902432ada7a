"""The forms of a collective: of one tensor or several, in place or not, that wait or return a Handle,
inside PyTorch's graph or outside.

``call`` is the engine's name for it; beginning with "grouped_" it takes and gives lists.
"""

import functools
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

import torch

from horovod_cpp import _native
from horovod_cpp._native import Handle
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import gpu, memory

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Run: TypeAlias = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]
_Gradients: TypeAlias = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor | None]]
_KEEP_SHAPES = ("allreduce", "broadcast")


def eager(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorates what torch.compile() is to leave out of its graphs, which know no memory of ours."""

    @functools.wraps(function)
    def outside(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        # A dict, since the first call may be traced, where variables of closures get lost.
        untraced = _untraced.get(function)
        if untraced is None:
            dynamo = sys.modules.get("torch._dynamo")
            if dynamo is None:  # nothing is compiled, and to import it takes seconds
                return function(*args, **kwargs)
            untraced = _untraced[function] = dynamo.disable(function)
        result: _Result = untraced(*args, **kwargs)
        return result

    return outside


_untraced: dict[Callable[..., Any], Callable[..., Any]] = {}


def form(name: str, result: type[_Result], declared: Callable[_Arguments, Any],
         make: Callable[..., Any], text: str | None) -> Callable[_Arguments, _Result]:
    """A public function ``name`` with the arguments of ``declared``, which makes of them those of
    ``make``: the tensors and what else the engine takes."""
    declared = inspect.unwrap(declared)  # of another form
    own: Any = types.FunctionType(*(getattr(declared, f"__{part}__") for part in (
        "code", "globals", "name", "defaults")))
    own.__name__ = own.__qualname__ = name  # what Python says of wrong arguments names it
    own.__doc__, own.__module__ = text, declared.__module__
    own.__annotations__ = {**declared.__annotations__, "return": result}
    call = name.rstrip("_").removesuffix("_async")

    @short_traceback
    @eager
    @functools.wraps(own)
    def public(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        made: _Result = make(call, *own(*args, **kwargs))
        return made

    return public


def waiting_form(result: type[_Result], make: Callable[..., Any]
                 ) -> Callable[[Callable[_Arguments, Any]], Callable[_Arguments, _Result]]:
    """form() as a decorator, under the function's own name."""
    return lambda declared: form(declared.__name__, result, declared, make, declared.__doc__)


def async_form(call: str, declared: Callable[_Arguments, Any]) -> Callable[_Arguments, Handle]:
    """The one that returns a Handle."""
    return form(f"{call}_async", Handle, declared, start,
                f"{call}() that returns a Handle; outside PyTorch's graph.")


def other_forms(call: str, result: type[_Result], declared: Callable[_Arguments, Any]
                ) -> tuple[Callable[_Arguments, Handle], Callable[_Arguments, Handle],
                           Callable[_Arguments, _Result]]:
    """CALL_async, CALL_async_ and CALL_."""
    one = not call.startswith("grouped_")
    touched = "``tensor``" if one else "no tensor"
    overwritten = ("``tensor``, which must be contiguous, and returns it." if one else
                   "the tensors, and returns them as a list.")
    return (async_form(call, declared),
            form(f"{call}_async_", Handle, declared, start_in_place,
                 f"{call}_() that returns a Handle. Until it ended, {touched} must "
                 f"{'not ' if one else ''}be touched."),
            form(f"{call}_", result, declared, in_place, f"{call}() that overwrites {overwritten}"))


def listed(call: str, value: Any) -> list[Any]:
    """One as a list."""
    return list(value) if call.startswith("grouped_") else [value]


def unlisted(call: str, values: list[Any]) -> Any:
    return values if call.startswith("grouped_") else values[0]


def _prepared(call: str, tensors: Sequence[torch.Tensor]
              ) -> tuple[str, Any, Callable[[Any], list[torch.Tensor]]]:
    """How the engine's function ends, what it takes, and what turns its values into results.

    On a GPU results of known shapes are memory of PyTorch's allocator: the call is in place over
    copies.
    """
    for tensor in tensors:
        memory.check(tensor)
    if not call.endswith(_KEEP_SHAPES) or not any(map(gpu.is_gpus, tensors)):
        inputs = [memory.wrap(memory.dense(tensor)) for tensor in tensors]
        return "", unlisted(call, inputs), lambda given: [
            memory.result(each) for each in listed(call, given)]
    copies = [memory.copy_of(tensor) for tensor in tensors]

    def finish(_: Any) -> list[torch.Tensor]:
        for copy in copies:
            gpu.handed_over(copy)
        return copies

    return "_", unlisted(call, [memory.wrap(copy) for copy in copies]), finish


def run(call: str, tensors: Sequence[torch.Tensor], *arguments: Any) -> list[torch.Tensor]:
    """Waits for new tensors, always a list."""
    suffix, inputs, finish = _prepared(call, tensors)
    return finish(getattr(_native, f"{call}{suffix}")(inputs, *arguments))


def start(call: str, tensors: Any, *arguments: Any) -> Handle:
    """Of new tensors."""
    suffix, inputs, finish = _prepared(call, listed(call, tensors))
    handle: Handle = getattr(_native, f"{call}_async{suffix}")(inputs, *arguments)
    return handle._then(functools.partial(_finish, call, finish), gpu.reading_stream)


@short_traceback
@eager
def _finish(call: str, finish: Callable[[Any], list[torch.Tensor]], given: Any) -> Any:
    return unlisted(call, finish(given))


def in_place(call: str, tensors: Any, *arguments: Any) -> Any:
    """Overwrites the tensors, and waits; returns them."""
    if not call.startswith("grouped_"):
        target = memory.target(tensors)
        memory.written(tensors)
        getattr(_native, f"{call}_")(target, *arguments)
        return tensors
    targets, native = _targets(call, tensors)
    for tensor in targets:
        memory.written(tensor)
    getattr(_native, f"{call}_")(native, *arguments)
    return targets


def start_in_place(call: str, tensors: Any, *arguments: Any) -> Handle:
    """in_place() that returns a Handle."""
    targets, native = _targets(call, tensors)
    addresses = [tensor.data_ptr() for tensor in targets]
    handle: Handle = getattr(_native, f"{call}_async_")(native, *arguments)
    for tensor in targets:
        memory.written(tensor)
    return handle._then(functools.partial(_finish_in_place, call, targets, addresses),
                        gpu.reading_stream)


@short_traceback
@eager
def _finish_in_place(call: str, targets: list[torch.Tensor], addresses: list[int], _: Any) -> Any:
    for place, (tensor, address) in enumerate(zip(targets, addresses)):
        if tensor.data_ptr() != address:
            raise _native.InvalidArgumentError(
                f"tensor {place} of an in-place call, of shape {list(tensor.shape)}, was given "
                "other memory while the call was in flight (by .data =, set_() or resize_()), "
                "so the result is lost; call synchronize() first")
    return unlisted(call, targets)


def _targets(call: str, tensors: Any) -> tuple[list[torch.Tensor], Any]:
    """The tensors, and what the engine takes.

    Raises:
        InvalidArgumentError: two of them share memory: either result would be lost.
    """
    if not call.startswith("grouped_"):
        return [tensors], memory.target(tensors)
    targets = list(tensors)
    native = [memory.target(tensor) for tensor in targets]
    memory.check_disjoint(targets)
    return targets, native


class _Recorded(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    @staticmethod
    def forward(ctx: Any, run: _Run, gradients: _Gradients,
                *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.gradients = gradients
        return tuple(run(tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        made = iter(ctx.gradients([each for each in gradients if memory.has_gradient(each)]))
        return (None, None, *[next(made) if memory.has_gradient(each) else None
                              for each in gradients])


def recorded(call: str, tensors: list[torch.Tensor], run: _Run, gradients: _Gradients) -> Any:
    """What ``run(tensors)`` returns, as one node of PyTorch's graph.

    ``gradients`` gets those of the results that may have some, and returns those of their tensors.
    The node exists only where one of the tensors needs it.
    """
    if torch.is_grad_enabled() and any(
            [getattr(tensor, "requires_grad", False) for tensor in tensors]):
        return unlisted(call, list(_Recorded.apply(run, gradients, *tensors)))
    return unlisted(call, run(tensors))
