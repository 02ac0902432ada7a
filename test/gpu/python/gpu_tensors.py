"""PyTorch's tensors on a GPU that is the host: their memory is the CPU's, and they say that it is
CUDA's. What PyTorch itself would do with streams is played here; all else is the real code."""

import torch
from gpu_arrays import from_dlpack, module, own_device, wait_for_device

from horovod_cpp.torch import gpu

work_stream = module.hvd_test_make_stream()  # PyTorch's current one
handed_over = []  # of what the caching allocator was told: (tensor, stream)
_raw_grad = torch.Tensor.grad


class GpuTensor(torch.Tensor):
    """What is computed of such tensors is one, at once and on the host: past what is on streams."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        wait_for_device()
        if func is torch.Tensor.cpu:  # a copy that no longer claims to be on a GPU
            with torch._C.DisableTorchFunction():
                return args[0].clone().as_subclass(torch.Tensor)
        return super().__torch_function__(func, types, args, kwargs or {})

    @property
    def device(self):
        return torch.device("cuda", own_device())

    @property
    def grad(self):
        found = _raw_grad.__get__(self)
        if found is not None and not isinstance(found, GpuTensor):
            found = gpu_tensor(found)
            _raw_grad.__set__(self, found)
        return found

    @grad.setter
    def grad(self, gradient):
        _raw_grad.__set__(self, gradient)


def gpu_tensor(tensor):
    """The same memory, on a GPU."""
    return tensor.as_subclass(GpuTensor)


def gpu_module(module_):
    """Moves a module's parameters and buffers, in place."""
    for part in module_.modules():
        for name, parameter in list(part._parameters.items()):
            if parameter is not None:
                part._parameters[name] = torch.nn.Parameter(gpu_tensor(parameter.detach()))
        for name, buffer in list(part._buffers.items()):
            if buffer is not None:
                part._buffers[name] = gpu_tensor(buffer)
    return module_


def _adopted(tensor):
    return gpu_tensor(torch.from_numpy(from_dlpack(tensor).shared))


class _Point:
    waits = 0

    def __init__(self, tensors=()):
        self._on_gpu = any(gpu.is_gpus(tensor) for tensor in tensors)

    def wait(self):
        _Point.waits += self._on_gpu


gpu.current_stream = lambda device: work_stream
gpu.handed_over = lambda tensor: handed_over.append((tensor, gpu.current_stream(tensor.device)))
gpu.adopted = _adopted
gpu.Point = _Point
