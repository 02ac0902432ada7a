"""MPI, which is optional, and real jobs of two ranks."""

import os
import shutil
from collections.abc import Iterator

from horovod_cpp.cluster.relay import find_hvdrun
from horovod_cpp.doctor.bounded import Finding, capture, ok, problem, rank_program, warning
from horovod_cpp.doctor.software import REINSTALL, part_of_build, path_fix

_NOT_NEEDED = "jobs run without it"
_INSTALL = "for programs that call MPI: apt-get install openmpi-bin"
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

_RANK = """
import time
import numpy as np, horovod_cpp as hvd
hvd.init()
for size in (1, 1 << 20):
    mine = np.arange(size, dtype=np.float32) + hvd.rank()
    took = []
    for _ in range(4 + 11):  # the first ones map memory and wake threads
        begin = time.perf_counter()
        total = hvd.allreduce(mine, hvd.Sum, name=f"doctor{size}")
        took.append(time.perf_counter() - begin)
        assert (total == 2 * np.arange(size, dtype=np.float32) + 1).all(), total
if hvd.rank() == 0:
    print(f"rank 0 says: {hvd.size()} ranks, {'with' if hvd.mpi_enabled() else 'without'} MPI, "
          f"4 MiB in {np.median(took[4:]) * 1e3:.1f} ms (median of 11)")
    print("threads", hvd.mpi_enabled() and hvd.mpi_threads_supported())
"""


def mpi_checks() -> Iterator[Finding]:
    usable = part_of_build("mpi").usable
    mpirun = shutil.which("mpirun")
    version = _version_of(mpirun) if mpirun else None
    is_open_mpi = any(name in (version or "") for name in ("Open MPI", "OpenRTE", "PRRTE"))
    yield _library(mpirun)
    if usable or mpirun:
        yield _launcher(mpirun, version, is_open_mpi)
    if is_open_mpi and os.geteuid() == 0:
        yield _root()
    if is_open_mpi and usable:
        yield _job_of_mpi()


def _version_of(mpirun: str) -> str | None:
    output = capture([mpirun, "--version"], 10)
    if output.code != 0:
        return None
    return next((line.strip() for line in output.text.splitlines() if line.strip()), "unknown")


def _library(mpirun: str | None) -> Finding:
    part = part_of_build("mpi")
    if part.usable:
        return ok("library", part.text)
    if not part.built:
        return warning("library", f"this build has no MPI module; {_NOT_NEEDED}",
                       "install the wheel, or build where libopenmpi-dev is installed")
    text = part.text.partition(";")[0]  # what it advises is ours to say
    if mpirun is None:
        return warning("library", f"{text}; {_NOT_NEEDED}", _INSTALL)
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(mpirun)))
    return warning("library", f"{text}, though there is {mpirun}",
                   f"if that is Open MPI: export LD_LIBRARY_PATH={prefix}/lib; if it is another "
                   "MPI: build from source where its mpicxx is in PATH (the wheel is for Open MPI)")


def _launcher(mpirun: str | None, version: str | None, is_open_mpi: bool) -> Finding:
    if mpirun is None:
        return warning("mpirun", f"not in PATH; {_NOT_NEEDED}", _INSTALL)
    if version is None:
        return problem("mpirun", f"{mpirun} --version fails",
                       "reinstall it, or start jobs with hvdrun --gloo, which does without")
    if not is_open_mpi:
        return warning("mpirun", f"{mpirun} is not Open MPI: {version}",
                       "put Open MPI's first in PATH, or start jobs with hvdrun --gloo; for this "
                       "MPI build horovod_cpp from source and use mpirun itself")
    return ok("mpirun", f"{version}, {mpirun}")


def _root() -> Finding:
    if _AS_ROOT.items() <= os.environ.items():
        return ok("root", "mpirun is allowed to run as root")
    return warning("root", "mpirun by itself refuses to run as root (hvdrun tells it to)",
                   "export " + " ".join(f"{name}=1" for name in _AS_ROOT))


def _job_of_mpi() -> Finding:
    # By name, as users call it: a full path would mean --prefix to Open MPI.
    output = capture(["mpirun", "-np", "2", "--oversubscribe", *rank_program(_RANK)], 30,
                     _AS_ROOT)
    if output.code != 0 or "2 ranks, with MPI" not in output.text:
        met = output.code == 0 and "2 ranks, without MPI" in output.text
        why = "the ranks met without MPI" if met else output.why()
        return problem("2 ranks by mpirun", why, path_fix() or
                       "mpirun -np 2 true shows whether MPI works at all; hvdrun --gloo does "
                       "without it")
    if "threads True" in output.text:
        return ok("2 ranks by mpirun", "an allreduce is right; MPI_THREAD_MULTIPLE")
    return warning("2 ranks by mpirun", "an allreduce is right; less than MPI_THREAD_MULTIPLE",
                   "calls of yours to MPI beside horovod_cpp's are not safe; use an MPI that was "
                   "built with threads")


def job_checks() -> Iterator[Finding]:
    """What all other checks are about."""
    hvdrun = find_hvdrun()
    if hvdrun is None:
        yield problem("2 ranks by hvdrun", "there is no hvdrun", REINSTALL)
        return
    output = capture([hvdrun, "-np", "2", "-H", "localhost:2", "--start-timeout", "20",
                      *rank_program(_RANK)], 40)
    said = output.text.partition("rank 0 says: ")
    if output.code == 0 and said[1]:
        yield ok("2 ranks by hvdrun", f"the sums are right: {said[2].splitlines()[0]}")
    else:
        yield problem("2 ranks by hvdrun", output.why(), path_fix() or
                      "fix what is reported above; then: hvdrun -np 2 python -c 'import "
                      "horovod_cpp as hvd; hvd.init()'")
