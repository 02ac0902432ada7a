"""What the collectives of torch.distributed are given: tensors in lists."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch

from horovod_cpp import _native
from horovod_cpp._native import Tensor
from horovod_cpp.torch import gpu, memory

_Anything = TypeVar("_Anything")


def as_row(tensor: torch.Tensor) -> Tensor:
    """As one row, so that ranks that disagree on the number of elements get a MismatchError."""
    memory.check(tensor)
    return memory.source(tensor.detach().reshape(1, -1))


def as_rows(tensors: Sequence[torch.Tensor], what: str) -> Tensor:
    """One row each; they must be of one size."""
    sizes = {tensor.numel() for tensor in tensors}
    if len(sizes) != 1:
        raise _native.InvalidArgumentError(f"{what} of different sizes: "
                                           f"{[list(tensor.shape) for tensor in tensors]}")
    return memory.source(torch.stack([tensor.detach().reshape(-1) for tensor in tensors]))


def check_count(tensors: Sequence[torch.Tensor], count: int, what: str) -> None:
    if len(tensors) != count:
        raise _native.InvalidArgumentError(f"{what}: {len(tensors)} tensors for {count} ranks")


def only(tensors: Sequence[_Anything], call: str) -> _Anything:
    if len(tensors) != 1:
        raise _native.UnsupportedError(f"{call}: {len(tensors)} tensors; this backend takes one")
    return tensors[0]


def copy_rows(rows: Iterable[torch.Tensor], outputs: Iterable[torch.Tensor]) -> None:
    """The rows of one result to tensors of the same number of elements."""
    for row, output in zip(rows, outputs):
        output.detach().copy_(row.view(output.shape))


def check_numel(tensor: torch.Tensor, numel: int, what: str) -> None:
    if tensor.numel() != numel:
        raise _native.InvalidArgumentError(
            f"{what}: the output of shape {list(tensor.shape)} has {tensor.numel()} elements; "
            f"expected {numel}")


def check_output(output: torch.Tensor, numel: int, what: str) -> None:
    """Something of so many elements that can be overwritten."""
    memory.check_output(output)
    check_numel(output, numel, what)


class InPlace:
    """Tensors that a call overwrites, by way of dense copies where they are not contiguous."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._tensors = list(tensors)
        for tensor in self._tensors:
            memory.check_output(tensor)
        self._dense = [memory.dense(tensor.detach()) for tensor in self._tensors]
        self.native = [memory.target(tensor) for tensor in self._dense]

    def finish(self, _: object) -> list[torch.Tensor]:
        for tensor, dense in zip(self._tensors, self._dense):
            if dense.data_ptr() != tensor.data_ptr():
                gpu.handed_over(dense)
                tensor.detach().copy_(dense)
        return self._tensors
