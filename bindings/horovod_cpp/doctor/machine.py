"""Shared memory, cores, threads, limits and GPUs, as this process may use them."""

import ctypes
import mmap
import os
import pathlib
import resource
import sysconfig
from collections.abc import Iterator

from horovod_cpp.doctor.bounded import Finding, ok, problem, warning
from horovod_cpp.doctor.software import part_of_build

_SHM = "/dev/shm"
_SEGMENT = 4 << 20  # bytes; what 2 ranks share is about as large
_SMALL = 64 << 20  # bytes; what Docker gives a container
_CONTAINER = ("docker run --shm-size=1g (or --ipc=host); in Kubernetes an emptyDir of medium Memory "
              "at /dev/shm; as root: mount -o remount,size=1g /dev/shm")

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_FILES = 1024  # three per rank and some more, on the machine where hvdrun runs
_PINNED = 64 << 20  # bytes
_NOT_BUILT = "this build moves no GPU tensors: it was made without CUDA"


def memory_checks() -> Iterator[Finding]:
    """Memory through which the ranks of one machine talk."""
    yield _segment()
    yield _shm()


def _mib(count: int) -> str:
    return f"{count / (1 << 20):,.3g} MiB" if count < 10 << 20 else f"{count / (1 << 20):,.0f} MiB"


def _segment() -> Finding:
    """Makes, fills and drops a real one, as the ranks would: anonymous, not in /dev/shm."""
    try:
        file = os.memfd_create("hvd-doctor")
    except OSError as error:
        return problem("segment", f"the system makes no anonymous memory (memfd_create: "
                       f"{error.strerror}); ranks of one machine cannot share any",
                       "allow memfd_create in the container's seccomp profile")
    try:
        _use(file)
    except OSError as error:
        return problem("segment", f"{_mib(_SEGMENT)} of anonymous memory (memfd): {error.strerror}",
                       "give the container or the job more memory")
    finally:
        os.close(file)
    return ok("segment", f"{_mib(_SEGMENT)} made, written and read")


def _use(file: int) -> None:
    os.posix_fallocate(file, 0, _SEGMENT)
    with mmap.mmap(file, _SEGMENT) as memory:
        memory[:4] = memory[-4:] = b"hvd!"
        if os.pread(file, 4, _SEGMENT - 4) != b"hvd!":
            raise OSError(0, "what was written does not come back")


def _shm() -> Finding:
    """horovod_cpp does without it; the workers of PyTorch's data loaders do not."""
    try:
        system = os.statvfs(_SHM)
    except OSError as error:
        return warning("size", f"{_SHM}: {error.strerror}; workers of PyTorch's data loaders "
                       "need it (horovod_cpp does not)", _CONTAINER)
    size, free = system.f_blocks * system.f_frsize, system.f_bavail * system.f_frsize
    text = f"{_SHM} has {_mib(size)}, {_mib(free)} free"
    if size <= _SMALL:
        return warning("size", f"{text}: often too little for the workers of PyTorch's data loaders "
                       "(horovod_cpp does not use it)", _CONTAINER)
    if free < _SMALL:
        return warning("size", text, f"remove what programs left behind: ls -l {_SHM}")
    return ok("size", text)


def thread_checks() -> Iterator[Finding]:
    usable, total = len(os.sched_getaffinity(0)), os.cpu_count() or 0
    left_out = f" of {total}: the affinity of this process leaves out the rest"
    yield ok("cores", f"{usable}{left_out if usable < total else ''}")
    yield _share(usable, _quota())
    given = [name for name in _THREADS if name in os.environ]
    for name in given:
        text = os.environ[name]
        if all(part.strip().isdecimal() and int(part) > 0 for part in text.split(",")):
            yield ok(name, text)
        else:
            yield warning(name, f"'{text}' is not a number of threads", f"export {name}=1, or unset "
                          "it")
    if not given:
        share = f"{usable} threads" if usable > 1 else "1 thread"
        yield ok("OMP_NUM_THREADS", f"not set: NumPy and torch take up to {share} on each rank; "
                 "cores divided by ranks is a good value")


def _quota(groups: pathlib.Path = pathlib.Path("/proc/self/cgroup"),
           root: pathlib.Path = pathlib.Path("/sys/fs/cgroup")) -> float | None:
    """Cores' worth of time that control groups allow; None without a limit."""
    quotas = []
    for line in groups.read_text().splitlines() if groups.exists() else ():
        _, controllers, path = line.split(":", 2)
        folder = root / controllers / path.strip("/") if controllers else root / path.strip("/")
        if controllers not in ("", "cpu", "cpu,cpuacct"):
            continue
        while folder == root or root in folder.parents:
            quotas.append(_quota_of(folder))
            folder = folder.parent
    return min((each for each in quotas if each is not None), default=None)


def _quota_of(folder: pathlib.Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            limit, period = (folder / "cpu.max").read_text().split()
        else:
            limit = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(limit) / int(period) if int(limit) > 0 else None
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _share(usable: int, quota: float | None) -> Finding:
    if quota is None or quota >= usable:
        return ok("share", "no limit below that by control groups")
    whole = max(1, int(quota))
    return warning("share", f"control groups allow {quota:g} cores, though {usable} are visible: "
                   f"{usable} threads would be stopped again and again",
                   f"at most {whole} ranks, and OMP_NUM_THREADS={whole} divided by the ranks; or a "
                   "larger limit (docker run --cpus)")


def limit_checks() -> Iterator[Finding]:
    yield _open_files()
    yield _locked()
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    table = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    yield ok("memory", f"{table['MemAvailable'] / (1 << 20):.1f} GiB of "
             f"{table['MemTotal'] / (1 << 20):.1f} GiB available")
    yield _pidfd()


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_count(soft)}, at most {_count(hard)} (ulimit -n)"
    if 0 <= soft < _FILES:
        return warning("open files", f"{text}: jobs of some hundred ranks and DataLoader workers "
                       "need more", f"ulimit -n {_count(hard)}")
    return ok("open files", text)


def _locked() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    kib = _count(soft if soft < 0 else soft // 1024)
    if 0 <= soft < _PINNED and pathlib.Path("/sys/class/infiniband").exists():
        return warning("locked memory", f"{kib} KiB (ulimit -l): too little for InfiniBand",
                       "ulimit -l unlimited, or docker run --ulimit memlock=-1")
    return ok("locked memory", f"{kib}{'' if soft < 0 else ' KiB'} (ulimit -l); only InfiniBand "
              "needs it")


def _count(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


def _pidfd() -> Finding:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return warning("pidfd", f"not here ({error.strerror}): that a rank died is seen a quarter of "
                       "a second later", "Linux 5.3 or newer; in a container a newer seccomp profile")
    return ok("pidfd", "here: ranks see at once when another one dies")


def gpu_checks() -> Iterator[Finding]:
    """NVIDIA's GPUs, the driver and NCCL; none of them is needed for training on CPUs."""
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
    """Nothing is wrong then; but what this build could do belongs in the report."""
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
