"""NVIDIA's GPUs, the driver and NCCL; none of them is needed for training on CPUs."""

import ctypes
import pathlib
import sysconfig
from collections.abc import Iterator

from horovod_cpp.doctor.bounded import Finding, ok, problem, warning
from horovod_cpp.doctor.software import part_of_build

_NOT_BUILT = "this build moves no GPU tensors: it was made without CUDA"


def checks() -> Iterator[Finding]:
    nodes = sorted(path.name for path in pathlib.Path("/dev").glob("nvidia[0-9]*"))
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        if nodes:
            yield warning("driver", f"/dev has {', '.join(nodes)}, but {error}",
                          "install NVIDIA's driver; in a container: docker run --gpus all")
        else:
            yield ok("GPUs", "none, and no driver")
            yield _backend_without_gpu()
        return
    code = driver.cuInit(0)
    if code != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        yield warning("driver", "libcuda.so.1 is here, but cuInit fails: "
                      f"{(text.value or b'unknown').decode()} ({code})",
                      "nvidia-smi shows what is wrong with the driver; in a container: "
                      "docker run --gpus all")
        return
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    yield ok("driver", f"CUDA {version.value // 1000}.{version.value % 1000 // 10}")
    yield from (ok(f"GPU {number}", _device(driver, number)) for number in range(count.value))
    yield _nccl()
    if count.value:
        yield _backend()
    else:
        yield ok("GPUs", "none is visible")
        yield _backend_without_gpu()


def _device(driver: ctypes.CDLL, number: int) -> str:
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(100)
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    return f"{name.value.decode()}, {memory.value / (1 << 30):.0f} GiB"


def _nccl() -> Finding:
    """The system's library, else that of NVIDIA's Python package."""
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    for place in ("libnccl.so.2", packages / "nvidia/nccl/lib/libnccl.so.2"):
        try:
            library = ctypes.CDLL(str(place))
        except OSError:
            continue
        number = ctypes.c_int()
        library.ncclGetVersion(ctypes.byref(number))
        major, rest = divmod(number.value, 10000)
        return ok("NCCL", f"{major}.{rest // 100}.{rest % 100}, {place}")
    return warning("NCCL", "libnccl.so.2 is not found",
                   "for GPU tensors: pip install nvidia-nccl-cu13 (or -cu12), or NVIDIA's package "
                   "libnccl2")


def _backend_without_gpu() -> Finding:
    """Nothing is wrong then; but what this build could do belongs into the picture."""
    nccl = part_of_build("nccl")
    return ok("backend", nccl.text if nccl.built else _NOT_BUILT)


def _backend() -> Finding:
    nccl = part_of_build("nccl")
    if nccl.usable:
        return ok("backend", nccl.text)
    if not nccl.built:
        return warning("backend", _NOT_BUILT,
                       "where the CUDA toolkit and NCCL are: CMAKE_ARGS=-DHVD_CUDA=ON pip install .")
    if part_of_build("cuda").usable:
        return warning("backend", f"no NCCL: {nccl.text}",
                       "install the NCCL that is named, or do without: HVD_GPU_OPERATIONS=ipc on one "
                       "host, else host")
    return problem("backend", nccl.text, "install what is missing; hvdrun --check-build asks again")
