"""PyTorch's memory as the engine's tensors and back. Nothing is copied unless it says so.

Addresses rather than DLPack: that knows no bool in PyTorch 1.13, and costs more than a small
allreduce takes.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from horovod_cpp import _native
from horovod_cpp._native import Tensor
from horovod_cpp.torch import gpu

_NAMES: dict[torch.dtype, str] = {
    getattr(torch, name): name
    for name in ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16",
                 "float32", "float64", "bool", "complex64", "complex128")
    if hasattr(torch, name)
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def name_of(dtype: torch.dtype) -> str:
    """As the engine calls it."""
    return _NAMES[dtype]


@contextlib.contextmanager
def about(name: str) -> Iterator[None]:
    """The subject of an error, which comes first in it."""
    try:
        yield
    except Exception as error:
        error.args = (f"{name}: {error}",)
        raise


def check(tensor: Any) -> None:
    """Raises unless it is something that the engine can reduce where it lies or as a dense copy."""
    if type(tensor) is torch.Tensor and tensor.device.type == "cpu" and (
            tensor.layout is torch.strided and tensor.dtype in _NAMES):
        return  # as most are: the rest of the checks take longer than a small call does
    check_kind(tensor)
    if gpu.is_gpus(tensor):
        _native._expect_served(tensor.device.index, "a tensor")


def check_kind(tensor: Any) -> None:
    """check() except whether this job serves the GPU on which the tensor may lie."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise TypeError(f"a tensor of layout {tensor.layout} is not dense; use "
                        "sparse_allreduce_async() or tensor.to_dense()")
    if tensor.dtype not in _NAMES:
        raise TypeError(f"a tensor of dtype {tensor.dtype} cannot be communicated")
    check_values(tensor)
    if tensor.device.type not in ("cpu", "cuda"):
        raise _native.UnsupportedError(
            f"a tensor on {tensor.device}: collectives take those of the CPU and of CUDA devices; "
            "use tensor.cpu()")


def check_values(tensor: torch.Tensor) -> None:
    """Raises if it has no values: where a model was described only, and not made yet."""
    if torch.nn.parameter.is_lazy(tensor):
        raise _native.InvalidArgumentError(
            "a parameter of a lazy module that has no shape yet; run one forward first")
    if tensor.is_meta:
        raise _native.UnsupportedError(
            f"a tensor of shape {list(tensor.shape)} on the meta device, which has no values; give "
            "the model memory first, with to_empty(device=...)")


def has_gradient(tensor: torch.Tensor) -> bool:
    """Whether it may have one."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def check_output(tensor: Any) -> None:
    """check(), for what a call overwrites, also by way of a dense copy.

    Raises:
        InvalidArgumentError: elements share memory, as after expand().
    """
    check(tensor)
    if tensor.numel() > 0 and any(
            extent > 1 and stride == 0 for extent, stride in zip(tensor.shape, tensor.stride())):
        raise _native.InvalidArgumentError(
            f"a tensor of shape {list(tensor.shape)} whose elements share memory (strides "
            f"{list(tensor.stride())}, as after expand()) cannot be overwritten; use "
            "tensor.contiguous()")


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy if it is not contiguous or its memory has other values (conj())."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor.contiguous()


def fills_its_memory(tensor: torch.Tensor) -> bool:
    """Whether its elements lie one after the other, in the order of its axes or another one."""
    expected = 1
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape)):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


def wrap(tensor: torch.Tensor) -> Tensor:
    """The Tensor over the memory of a dense one that was checked.

    It is owned by an alias, which stays where it is when ``tensor.data = ...`` or ``set_()`` gives
    the tensor other memory.
    """
    place: tuple[int, int] | tuple[()] = ()
    if gpu.is_gpus(tensor):
        place = tensor.device.index, gpu.current_stream(tensor.device)
    return _native._wrap_memory(tensor.data_ptr(), tensor.shape, _NAMES[tensor.dtype],
                                tensor.detach(), *place)


def source(tensor: torch.Tensor) -> Tensor:
    """What a call reads: the tensor's memory, or that of a dense copy."""
    check(tensor)
    return wrap(dense(tensor))


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A dense one, outside PyTorch's graph."""
    copy = tensor.detach().resolve_conj().resolve_neg()
    return copy.clone(memory_format=torch.contiguous_format)


def target(tensor: torch.Tensor) -> Tensor:
    """What a call overwrites: the tensor's own memory."""
    check(tensor)
    if tensor.is_conj() or tensor.is_neg():
        raise _native.InvalidArgumentError(
            f"an in-place call on a tensor of shape {list(tensor.shape)} whose memory has the "
            "conjugates or negatives of its values: use tensor.resolve_conj() or resolve_neg()")
    if not tensor.is_contiguous():
        raise _native.InvalidArgumentError(
            f"an in-place call needs contiguous memory; this tensor of shape "
            f"{list(tensor.shape)} and strides {list(tensor.stride())} has none")
    return wrap(tensor)


def check_disjoint(tensors: Sequence[torch.Tensor]) -> None:
    """Raises InvalidArgumentError if two of them share memory."""
    ranges = sorted((start, start + tensor.numel() * tensor.element_size(), place)
                    for place, tensor in enumerate(tensors)
                    if tensor.numel() > 0 for start in [tensor.data_ptr()])
    for (_, end, one), (start, _, two) in zip(ranges, ranges[1:]):
        if start < end:
            raise _native.InvalidArgumentError(
                f"an in-place call over tensors {min(one, two)} and {max(one, two)}, which share "
                "memory; give it each part once, or use the call that returns new tensors")


def result(tensor: Tensor) -> torch.Tensor:
    """What a call returned; on a GPU in memory of PyTorch's own, since its record_stream() knows no
    other."""
    return shared(tensor) if tensor.device == "cpu" else shared(tensor).clone()


def shared(tensor: Tensor) -> torch.Tensor:
    """A torch.Tensor over the memory of the engine's."""
    if tensor.device != "cpu":
        return gpu.adopted(tensor)
    dtype = _DTYPES[tensor.dtype]
    if tensor.numel() == 0:
        return torch.empty(tensor.shape, dtype=dtype)
    return torch.frombuffer(_native._memory_of(tensor), dtype=dtype).view(tensor.shape)


def written(tensor: torch.Tensor) -> None:
    """Tells autograd that the memory changes, as an in-place function of PyTorch would."""
    if tensor.is_inference():
        return
    if hasattr(torch.autograd.graph, "increment_version"):
        torch.autograd.graph.increment_version(tensor)
    else:
        tensor.detach().view(-1)[:0].zero_()
