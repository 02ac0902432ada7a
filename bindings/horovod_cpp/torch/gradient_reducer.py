"""PyTorch's hooks on the reducer of C++, which decides when gradients are reduced."""

import weakref
from typing import Any

import torch
from torch.utils.hooks import unserializable_hook

from horovod_cpp import _native
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch.entries import Entry
from horovod_cpp.torch.gradients import Gradients
from horovod_cpp.torch.named_parameters import refuse


class GradientReducer:
    """Tells ``native``, which is used directly, of the gradients of ``entries``. One thread.

    From the start of a reduction to its end the gradient stays where it is and must not be touched;
    another backward pass waits for it.
    """

    def __init__(self, entries: list[Entry], groups: Any, options: Any) -> None:
        self._entries = entries
        self._gradients = Gradients(entries, options)
        self.native = _native._GradientReducer(
            self._gradients, options.native, process_set=options.process_set,
            num_groups=groups if isinstance(groups, int) else 0,
            groups=[] if isinstance(groups, int) else _numbered(entries, groups))
        self._nodes: list[Any] = []  # keeps the hooks of AccumulateGrad nodes alive
        self._hooks: list[Any] = []
        weakref.finalize(self, _remove, self._hooks)
        for index in range(len(entries)):
            self._hook(index)

    def add(self, entries: list[Entry]) -> None:
        """Parameters that come later; on all ranks, between two steps."""
        first = len(self._entries)
        self._entries += entries
        self.native.parameters_added()
        for index in range(first, len(self._entries)):
            self._hook(index)

    def describe(self, optimizer: torch.optim.Optimizer) -> None:
        """Whose options the ranks compare."""
        self._gradients.optimizer = weakref.ref(optimizer)

    def parameter(self, index: int) -> torch.Tensor:
        return self._entries[index].parameter

    def _hook(self, index: int) -> None:
        """Also of a frozen parameter, which may thaw."""
        parameter, native = self._entries[index].parameter, weakref.ref(self.native)

        @unserializable_hook  # type: ignore[untyped-decorator]  # torch may be missing
        @short_traceback
        def before(_: Any) -> None:
            if (reducer := native()) is not None:
                reducer.before_gradient(index)

        @unserializable_hook  # type: ignore[untyped-decorator]  # torch may be missing
        @short_traceback
        def after(*_: Any) -> None:
            if (reducer := native()) is not None:
                reducer.on_gradient(index)

        needed_gradient = parameter.requires_grad
        parameter.requires_grad_(True)
        self._hooks.append(parameter.register_hook(before))
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            self._hooks.append(parameter.register_post_accumulate_grad_hook(after))
        else:
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            self._hooks.append(node.register_hook(after))
            self._nodes.append(node)
        parameter.requires_grad_(needed_gradient)


def _numbered(entries: list[Entry], groups: Any) -> list[list[int]]:
    """Lists of parameters as numbers of entries."""
    numbers = {id(entry.parameter): number for number, entry in enumerate(entries)}
    for place, group in enumerate(groups):
        for parameter in group:
            if id(parameter) not in numbers:
                refuse(f"groups[{place}] has a tensor of shape {list(parameter.shape)} that is not "
                       "a parameter of the optimizer")
    return [[numbers[id(parameter)] for parameter in group] for group in groups]


def _remove(hooks: list[Any]) -> None:
    for hook in hooks:
        hook.remove()
