"""How the processes of ranks are started on this machine. Always a new process, never a fork."""

import os
import subprocess
import sys
from collections.abc import Mapping

# Of an MPI or a rank that started this process: ranks would take its variables for their own.
_FOREIGN = ("OMPI_", "PMIX_", "PMI_", "MPI_LOCAL", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_",
            "HOROVOD_CROSS_", "HVD_RANK_PROCESS", "HVD_RENDEZVOUS", "HVD_WORLD", "HVD_JOB_ID",
            "HVDRUN_")

# Through them a worker finds its caller; it forgets them at once.
ADDRESS, KEY, CALLER = "HVD_WORKER_ADDRESS", "HVD_WORKER_KEY", "HVD_WORKER_CALLER"

# Whatever a rank starts inherits it, in whatever session, and is killed with the rank.
MARK = "HVD_RANK_MARK"

# Not -m: the namespace of a worker is its __main__, and has nothing of ours in it.
WORKER = ("-P", "-c", "from horovod_cpp.cluster.worker import main; main()")


def environment_outside_jobs() -> dict[str, str]:
    """This process's variables without those that its place in a job gave it."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith(_FOREIGN) or name.startswith("OMPI_ALLOW_")}


def start_rank(rank: int, size: int, listener_address: str, key: bytes,
               rendezvous: Mapping[str, str], env: Mapping[str, str] | None,
               executable: str | None, mark: str) -> "subprocess.Popen[bytes]":
    """A process with pipes for its output. It leads a process group of its own."""
    environment = environment_outside_jobs()
    environment.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // size)))
    environment.update(env or {})
    environment.update({
        "HOROVOD_RANK": str(rank), "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": str(rank), "HOROVOD_LOCAL_SIZE": str(size),
        "HOROVOD_CROSS_RANK": "0", "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_CONTROLLER": "gloo", **rendezvous,
        ADDRESS: listener_address, KEY: key.hex(), CALLER: str(os.getpid()), MARK: mark})
    return subprocess.Popen(
        [executable or sys.executable, *WORKER], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment, start_new_session=True)
