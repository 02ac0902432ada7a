"""MPI: optional on one machine, needed by jobs of several."""

import os
import shutil

from horovod_cpp.doctor.bounded import capture, rank_program
from horovod_cpp.doctor.finding import Finding, ok, problem, warning
from horovod_cpp.doctor.software import check_build, path_fix

_NOT_NEEDED = "jobs on one machine run without it"
_INSTALL = "for several machines: apt-get install openmpi-bin"

_RANK = """
import horovod_cpp as hvd, numpy as np
hvd.init()
total = hvd.allreduce(np.array([hvd.rank() + 1]), hvd.Sum)
assert hvd.mpi_enabled() and hvd.size() == 2 and total.tolist() == [3], (hvd.size(), total)
if hvd.rank() == 0:
    print("threads", hvd.mpi_threads_supported())
"""


def checks() -> list[Finding]:
    _, parts = check_build()
    usable, text = parts.get("mpi", (False, "unknown, because hvdrun does not run"))
    if not usable:
        text = text.partition(";")[0]  # what it advises is ours to say
    mpirun = shutil.which("mpirun")
    version = _version_of(mpirun) if mpirun else None
    found = [_library(usable, text, mpirun)]
    if usable or mpirun:
        found += [_launcher(mpirun, version), *_root(mpirun, version)]
    if usable and version and _is_open_mpi(version):
        found.append(_job())
    return found


def _version_of(mpirun: str) -> str | None:
    output = capture([mpirun, "--version"], 10)
    if output.code != 0:
        return None
    return next((line.strip() for line in output.text.splitlines() if line.strip()), "unknown")


def _is_open_mpi(version: str) -> bool:
    return "Open MPI" in version or "OpenRTE" in version or "PRRTE" in version


def _library(usable: bool, text: str, mpirun: str | None) -> Finding:
    if usable:
        return ok("library", text)
    if "is not installed next to" in text:
        return warning("library", f"this build has no MPI module; {_NOT_NEEDED}",
                       "install the wheel, or build where libopenmpi-dev is installed")
    if mpirun is None:
        return warning("library", f"{text}; {_NOT_NEEDED}", _INSTALL)
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(mpirun)))
    return warning("library", f"{text}, though there is {mpirun}",
                   f"if that is Open MPI: export LD_LIBRARY_PATH={prefix}/lib; if it is another "
                   "MPI: build from source where its mpicxx is in PATH (the wheel is for Open MPI)")


def _launcher(mpirun: str | None, version: str | None) -> Finding:
    if mpirun is None:
        return warning("mpirun", f"not in PATH; {_NOT_NEEDED}", _INSTALL)
    if version is None:
        return problem("mpirun", f"{mpirun} --version fails",
                       "reinstall it, or start jobs with hvdrun --gloo, which does without")
    if not _is_open_mpi(version):
        return warning("mpirun", f"{mpirun} is not Open MPI: {version}",
                       "put Open MPI's first in PATH, or start jobs with hvdrun --gloo; for this "
                       "MPI build horovod_cpp from source and use mpirun itself")
    return ok("mpirun", f"{version}, {mpirun}")


def _root(mpirun: str | None, version: str | None) -> list[Finding]:
    if os.geteuid() != 0 or mpirun is None or not version or not _is_open_mpi(version):
        return []
    names = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    if all(os.environ.get(name) == "1" for name in names):
        return [ok("root", "mpirun is allowed to run as root")]
    return [warning("root", "mpirun by itself refuses to run as root (hvdrun tells it to)",
                    "export " + " ".join(f"{name}=1" for name in names))]


def _job() -> Finding:
    # By name, as users call it: a full path would mean --prefix to Open MPI.
    output = capture(["mpirun", "-np", "2", "--oversubscribe", *rank_program(_RANK)], 30,
                     {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    if output.code != 0:
        return problem("2 ranks by mpirun", output.why(), path_fix() or
                       "mpirun -np 2 true shows whether MPI works at all; hvdrun --gloo does "
                       "without it on one machine")
    if "threads True" in output.text:
        return ok("2 ranks by mpirun", "an allreduce is right; MPI_THREAD_MULTIPLE")
    return warning("2 ranks by mpirun", "an allreduce is right; less than MPI_THREAD_MULTIPLE",
                   "calls of yours to MPI beside horovod_cpp's are not safe; use an MPI that was "
                   "built with threads")
