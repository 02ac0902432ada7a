"""A library of arrays on a GPU that is the host: the module beside the package runs CUDA's functions
over host memory (test/gpu/logic/host_cuda.cc) and writes down what was put on which stream."""

import contextlib
import ctypes
import os
import pathlib

import numpy as np
from foreign_arrays import Foreign, Plain

import horovod_cpp as hvd

_DTYPES = {(0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8",
           (2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (6, 8): "bool"}
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

module = ctypes.CDLL(str(pathlib.Path(hvd.__file__).parent / "libhvd_nccl.so"))
module.hvd_test_stream_log.restype = ctypes.c_char_p
module.hvd_test_make_stream.restype = ctypes.c_uint64
module.hvd_test_order.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
_is_held = False  # whether the device is held back


def own_device():
    """Where this rank communicates."""
    return hvd.local_rank() % int(os.environ["HOST_CUDA_DEVICES"])


class GpuArray(Foreign):
    """float32. Work that makes its values is on a stream of its own."""

    def __init__(self, values, device=None, **fields):
        self.index = own_device() if device is None else device
        super().__init__(values, **{"device": 2, "device_id": self.index, **fields})
        self.stream = module.hvd_test_make_stream()
        self.asked = []  # streams

    def __dlpack__(self, *, stream, max_version=None, copy=None):
        self.asked.append(stream)
        module.hvd_test_order(self.stream, stream)
        return self.capsule()

    def __dlpack_device__(self):
        return self.device, self.index


class OldGpuArray(GpuArray):
    """Of a library from before DLPack 1.0."""

    def __init__(self, values, **fields):
        super().__init__(values, versioned=False, **fields)

    def __dlpack__(self, *, stream):
        return super().__dlpack__(stream=stream)


class Received:
    """Another library's array, made here: the tensor's memory."""

    stream = 0  # on which this library works

    def __init__(self, tensor):
        assert tensor.__dlpack_device__() == (2, own_device())
        capsule = tensor.__dlpack__(stream=self.stream or 1)
        given = Plain.from_address(_get_pointer(capsule, b"dltensor")).tensor
        assert (given.device_type, given.device_id) == (2, own_device())
        dtype = np.dtype(_DTYPES[given.code, given.bits])
        shape = tuple(given.shape[axis] for axis in range(given.ndim))
        count = int(np.prod(shape))
        memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(given.data or 0)
        memory.owner = tensor
        self.shared = np.frombuffer(memory, dtype, count).reshape(shape)

    @property
    def values(self):
        wait_for_device()
        return self.shared.copy()

    def tolist(self):
        return self.values.tolist()


def from_dlpack(tensor):
    """What collectives call for results."""
    return Received(tensor)


def stream_log():
    """(what, point, stream) since the last call."""
    lines = module.hvd_test_stream_log().decode().splitlines()
    return [(what, int(point), int(stream)) for what, point, stream in map(str.split, lines)]


@contextlib.contextmanager
def _held(hold):
    global _is_held
    _is_held = True
    hold(1)
    try:
        yield
    finally:
        hold(0)
        _is_held = False


def stalled():
    """What is put on streams is not done before the end."""
    return _held(module.hvd_test_stall)


def results_stalled():
    """Nobody knows before the end that results have arrived on the GPU."""
    return _held(module.hvd_test_stall_results)


def wait_for_device():
    """As whoever reads the GPU's memory on the host, past all that was put on its streams; not while
    that is held back, when there is nothing to read."""
    if not _is_held:
        assert module.cudaSetDevice(own_device()) == 0 and module.cudaDeviceSynchronize() == 0


def waits_past_a_copy(log, stream):
    """Whether the stream was made to wait for a point right behind a copy on another one."""
    behind, last = set(), {}
    for what, point, on in log:
        if what == "record" and last.get(on) == "copy" and on != stream:
            behind.add(point)
        last[on] = what
    return any(what == "wait" and point in behind and on == stream for what, point, on in log)
