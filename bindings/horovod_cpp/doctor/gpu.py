"""NVIDIA's GPUs, the driver and NCCL; none of them is needed for training on CPUs."""

import ctypes
import pathlib
import sysconfig

from horovod_cpp.doctor.finding import Finding, ok, problem, warning
from horovod_cpp.doctor.software import check_build


def checks() -> list[Finding]:
    nodes = sorted(path.name for path in pathlib.Path("/dev").glob("nvidia[0-9]*"))
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return _without_driver(nodes, error)
    code = driver.cuInit(0)
    if code != 0:
        return [warning("driver", f"libcuda.so.1 is here, but cuInit fails: {_text(driver, code)}",
                        "nvidia-smi shows what is wrong with the driver; in a container: "
                        "docker run --gpus all")]
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    found = [ok("driver", f"CUDA {_driver_version(driver)}"),
             *(ok(f"GPU {number}", _device(driver, number)) for number in range(count.value)),
             _nccl()]
    if not count.value:
        return [*found, ok("GPUs", "none is visible"), _backend_without_gpu()]
    return [*found, _backend()]


def _without_driver(nodes: list[str], error: OSError) -> list[Finding]:
    if nodes:
        return [warning("driver", f"/dev has {', '.join(nodes)}, but {error}",
                        "install NVIDIA's driver; in a container: docker run --gpus all")]
    return [ok("GPUs", "none, and no driver"), _backend_without_gpu()]


def _text(driver: ctypes.CDLL, code: int) -> str:
    text = ctypes.c_char_p()
    driver.cuGetErrorString(code, ctypes.byref(text))
    return f"{(text.value or b'unknown').decode()} ({code})"


def _dotted(number: int, *divisors: int) -> str:
    parts = []
    for divisor in divisors:
        parts.append(str(number // divisor))
        number %= divisor
    return ".".join(parts)


def _driver_version(driver: ctypes.CDLL) -> str:
    number = ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(number))
    return _dotted(number.value // 10, 100, 1)


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
        return ok("NCCL", f"{_dotted(number.value, 10000, 100, 1)}, {place}")
    return warning("NCCL", "libnccl.so.2 is not found",
                   "for GPU tensors: pip install nvidia-nccl-cu13 (or -cu12), or NVIDIA's package "
                   "libnccl2")


_NO_ANSWER = (False, "unknown, because hvdrun does not run")
_NOT_BUILT = "this build moves no GPU tensors: it was made without CUDA"


def _was_not_built(text: str) -> bool:
    return "is not installed next to" in text


def _backend_without_gpu() -> Finding:
    """Nothing is wrong then; but what this build could do belongs into the picture."""
    _, parts = check_build()
    _, text = parts.get("nccl", _NO_ANSWER)
    return ok("backend", _NOT_BUILT if _was_not_built(text) else text)


def _backend() -> Finding:
    _, parts = check_build()
    usable, text = parts.get("nccl", _NO_ANSWER)
    if usable:
        return ok("backend", text)
    if _was_not_built(text):
        return warning("backend", _NOT_BUILT,
                       "where the CUDA toolkit and NCCL are: CMAKE_ARGS=-DHVD_CUDA=ON pip install .")
    if parts.get("cuda", _NO_ANSWER)[0]:
        return warning("backend", f"no NCCL: {text}",
                       "install the NCCL that is named, or do without: HVD_GPU_OPERATIONS=ipc on one "
                       "host, else host")
    return problem("backend", text, "install what is missing; hvdrun --check-build asks again")
