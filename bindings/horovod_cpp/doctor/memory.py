"""Shared memory, through which the ranks of one machine talk."""

import mmap
import os

from horovod_cpp.doctor.finding import Finding, ok, problem, warning

_FOLDER = "/dev/shm"
_SEGMENT = 4 << 20  # bytes; what 2 ranks share is about as large
_SMALL = 64 << 20  # bytes; what Docker gives a container
_CONTAINER = ("docker run --shm-size=1g (or --ipc=host); in Kubernetes an emptyDir of medium Memory "
              "at /dev/shm; as root: mount -o remount,size=1g /dev/shm")


def checks() -> list[Finding]:
    return [_segment(), _folder()]


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


def _folder() -> Finding:
    """horovod_cpp does without it; the workers of PyTorch's data loaders do not."""
    try:
        system = os.statvfs(_FOLDER)
    except OSError as error:
        return warning("size", f"{_FOLDER}: {error.strerror}; workers of PyTorch's data loaders "
                       "need it (horovod_cpp does not)", _CONTAINER)
    size, free = system.f_blocks * system.f_frsize, system.f_bavail * system.f_frsize
    text = f"{_FOLDER} has {_mib(size)}, {_mib(free)} free"
    if size <= _SMALL:
        return warning("size", f"{text}: often too little for the workers of PyTorch's data loaders "
                       "(horovod_cpp does not use it)", _CONTAINER)
    if free < _SMALL:
        return warning("size", text, f"remove what programs left behind: ls -l {_FOLDER}")
    return ok("size", text)
