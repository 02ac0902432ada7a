"""What the collectives of torch.distributed are given: tensors in lists."""

import torch

from horovod_cpp import _native
from horovod_cpp.torch import memory


def as_row(tensor):
    """As one row, so that ranks that disagree on the number of elements get a MismatchError."""
    memory.check(tensor)
    return memory.source(tensor.detach().reshape(1, -1))


def as_rows(tensors, what):
    """One row each; they must be of one size."""
    sizes = {tensor.numel() for tensor in tensors}
    if len(sizes) != 1:
        raise _native.InvalidArgumentError(f"{what} of different sizes: "
                                           f"{[list(tensor.shape) for tensor in tensors]}")
    return memory.source(torch.stack([tensor.detach().reshape(-1) for tensor in tensors]))


def check_count(tensors, count, what):
    if len(tensors) != count:
        raise _native.InvalidArgumentError(f"{what}: {len(tensors)} tensors for {count} ranks")


def only(tensors, call):
    if len(tensors) != 1:
        raise _native.UnsupportedError(f"{call}: {len(tensors)} tensors; this backend takes one")
    return tensors[0]


def copy_rows(rows, outputs):
    """The rows of one result to tensors of the same number of elements."""
    for row, output in zip(rows, outputs):
        output.detach().copy_(row.view(output.shape))


def check_output(output, numel, what):
    if output.numel() != numel:
        raise _native.InvalidArgumentError(
            f"{what}: the output of shape {list(output.shape)} has {output.numel()} elements; "
            f"expected {numel}")


class InPlace:
    """Tensors that a call overwrites, by way of dense copies where they are not contiguous."""

    def __init__(self, tensors):
        self._tensors = list(tensors)
        for tensor in self._tensors:
            memory.check(tensor)
        self._dense = [tensor.detach().contiguous() for tensor in self._tensors]
        self.native = [memory.target(tensor) for tensor in self._dense]

    def finish(self, _):
        for tensor, dense in zip(self._tensors, self._dense):
            if dense.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(dense)
        return self._tensors
