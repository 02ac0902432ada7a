"""Cores, threads and limits of this process."""

import os
import pathlib
import resource

from horovod_cpp.doctor.finding import Finding, ok, warning

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_FILES = 1024  # three a rank and some more, on the machine where hvdrun runs
_PINNED = 64 << 20  # bytes


def thread_checks() -> list[Finding]:
    usable = len(os.sched_getaffinity(0))
    quota = _quota()
    found = [_cores(usable), _share(usable, quota), *(_threads(name) for name in _THREADS
                                                      if name in os.environ)]
    if not any(name in os.environ for name in _THREADS):
        share = f"{usable} threads" if usable > 1 else "1 thread"
        found.append(ok("OMP_NUM_THREADS", f"not set: NumPy and torch take up to {share} on each rank; "
                        "cores divided by ranks is a good value"))
    return found


def _cores(usable: int) -> Finding:
    total = os.cpu_count() or usable
    if usable < total:
        return ok("cores", f"{usable} of {total}: the affinity of this process leaves out the rest")
    return ok("cores", f"{usable}")


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


def _threads(name: str) -> Finding:
    text = os.environ[name]
    if all(part.strip().isdigit() and int(part) > 0 for part in text.split(",")):
        return ok(name, text)
    return warning(name, f"'{text}' is not a number of threads", f"export {name}=1, or unset it")


def limit_checks() -> list[Finding]:
    return [_open_files(), _locked(), _memory(), _pidfd()]


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


def _memory() -> Finding:
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    table = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return ok("memory", f"{table['MemAvailable'] / (1 << 20):.1f} GiB of "
              f"{table['MemTotal'] / (1 << 20):.1f} GiB available")


def _pidfd() -> Finding:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return warning("pidfd", f"not here ({error.strerror}): that a rank died is seen a quarter of "
                       "a second later", "Linux 5.3 or newer; in a container a newer seccomp profile")
    return ok("pidfd", "here: ranks see at once when another one dies")
