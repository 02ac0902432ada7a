"""PyTorch's side of tensors on GPUs: streams, and results that the engine allocated.

A call reads its tensors after what is on PyTorch's current stream when it is submitted, and what
PyTorch puts on the stream that is current in synchronize() finds the results; on the host nothing
waits for the GPU, except the copy of results whose sizes the engine learns late on a stream that
is not the default one, and for submitted sends and receives. The engine keeps what it reads and
writes until the GPU has done so: the caching allocator cannot reuse that memory. It
is told (record_stream) of memory that comes from one stream and is given back on another; results
whose sizes the engine learns late are copied into memory of PyTorch's.
"""

from collections.abc import Iterable

import torch

from horovod_cpp import _native
from horovod_cpp._native import Tensor


def is_gpus(tensor: torch.Tensor) -> bool:
    """Whether it lies on a CUDA device."""
    return bool(tensor.device.type == "cuda")


def current_stream(device: torch.device) -> int:
    """The handle of the stream in whose order PyTorch uses memory of the device now."""
    return int(torch.cuda.current_stream(device).cuda_stream)


def stream_of(device: torch.device) -> int:
    """current_stream(); 0 for the CPU."""
    return current_stream(device) if device.type == "cuda" else 0


def reading_stream(device: int) -> int:
    """current_stream() by the device's number, which reads what a call returns."""
    return current_stream(torch.device("cuda", device))


def handed_over(tensor: torch.Tensor) -> None:
    """Tells the caching allocator that the current stream uses memory that is not of its own."""
    if is_gpus(tensor):
        tensor.record_stream(torch.cuda.current_stream(tensor.device))


def adopted(tensor: Tensor) -> torch.Tensor:
    """A torch.Tensor over the memory of the engine's, which lies on a GPU."""
    result: torch.Tensor = torch.utils.dlpack.from_dlpack(tensor)
    return result


def own_devices() -> list[torch.device]:
    """The CUDA device on which this rank communicates, if there is one that PyTorch can use."""
    device = _native._own_cuda_device()  # asked first: PyTorch may start CUDA to answer
    if device is None or not torch.cuda.is_available():
        return []
    return [torch.device("cuda", device)]


class Point:
    """Past what this thread has put on the current streams of the tensors' GPUs so far."""

    def __init__(self, tensors: Iterable[torch.Tensor] = ()) -> None:
        devices = {tensor.device for tensor in tensors if is_gpus(tensor)}
        self._events = [(device, torch.cuda.current_stream(device).record_event())
                        for device in devices]

    def wait(self) -> None:
        """What is put on this thread's current streams from now on runs past it."""
        for device, event in self._events:
            torch.cuda.current_stream(device).wait_event(event)
