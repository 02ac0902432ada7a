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
    try:
        system = os.statvfs(_FOLDER)
    except OSError as error:
        return [_instead(f"{_FOLDER}: {error.strerror}")]
    size, free = system.f_blocks * system.f_frsize, system.f_bavail * system.f_frsize
    return [_space(size, free), _segment(free)]


def _mib(count: int) -> str:
    return f"{count / (1 << 20):,.3g} MiB" if count < 10 << 20 else f"{count / (1 << 20):,.0f} MiB"


def _space(size: int, free: int) -> Finding:
    text = f"{_FOLDER} has {_mib(size)}, {_mib(free)} free"
    if size <= _SMALL:
        return warning("size", f"{text}: gradients of larger models do not fit", _CONTAINER)
    if free < _SMALL:
        return warning("size", text, f"remove what programs left behind: ls -l {_FOLDER}")
    return ok("size", text)


def _segment(free: int) -> Finding:
    """Makes, fills and removes a real one, as the ranks would."""
    path = f"{_FOLDER}/hvd-doctor-{os.getpid()}"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        return _instead(f"no file can be made in {_FOLDER} ({error.strerror})")
    os.unlink(path)
    try:
        _use(file)
    except OSError as error:
        return _instead(f"{_mib(_SEGMENT)} do not fit {_FOLDER} ({error.strerror}, "
                        f"{_mib(free)} free)")
    finally:
        os.close(file)
    return ok("segment", f"{_mib(_SEGMENT)} made, written, read and removed")


def _use(file: int) -> None:
    os.posix_fallocate(file, 0, _SEGMENT)
    with mmap.mmap(file, _SEGMENT) as memory:
        memory[:4] = memory[-4:] = b"hvd!"
        if os.pread(file, 4, _SEGMENT - 4) != b"hvd!":
            raise OSError(0, "what was written does not come back")


def _instead(why: str) -> Finding:
    """/dev/shm is of no use: the ranks take anonymous memory, if the kernel has it."""
    try:
        file = os.memfd_create("hvd-doctor")
    except OSError as error:
        return problem("segment", f"{why}, and no memfd either ({error.strerror})", _CONTAINER)
    try:
        _use(file)
    except OSError as error:
        return problem("segment", f"{why}, and no memfd either ({error.strerror})", _CONTAINER)
    finally:
        os.close(file)
    return warning("segment", f"{why}; ranks share a memfd instead", _CONTAINER)
