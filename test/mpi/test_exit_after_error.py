"""A rank whose job ended in error leaves without MPI_Finalize, which would wait for a rank that is gone
or hangs, however it learned of the error."""

import json
import os
import subprocess
import sys
import time

import pytest
from processes import is_running, kill

RANKS = 5
VICTIM = 3
LIMIT_S = 60  # MPI_Finalize is given up after 300 s

PROGRAM = """
import json, os, signal, sys, time
import numpy as np
import horovod_cpp as hvd

folder, death, victim = sys.argv[1], sys.argv[2], int(sys.argv[3])
hvd.init()
rank = hvd.rank()
with open(os.path.join(folder, f"pid{rank}.part"), "w") as file:
    file.write(str(os.getpid()))
os.rename(file.name, os.path.join(folder, f"pid{rank}"))
try:
    for step in range(1000000):
        if rank == victim and step == 20:
            os.kill(os.getpid(), getattr(signal, death))
        handles = [hvd.allreduce_async(np.ones(50000, np.float32), name=f"gradient{i}")
                   for i in range(3)]
        for handle in handles:
            hvd.synchronize(handle)
except hvd.HorovodInternalError as error:
    with open(os.path.join(folder, f"told{rank}.part"), "w") as file:
        json.dump({"error": type(error).__name__, "text": str(error)}, file)
    os.rename(file.name, os.path.join(folder, f"told{rank}"))
    sys.exit(5)
"""


def wait_until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"not within {LIMIT_S} s: {what}"
        time.sleep(0.02)


@pytest.mark.parametrize("death, by_mpi", [
    ("SIGKILL", True), ("SIGSTOP", False), pytest.param("SIGKILL", False, marks=pytest.mark.full),
    pytest.param("SIGSTOP", True, marks=pytest.mark.full)])
def test_survivors_leave_soon(death, by_mpi, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       HOROVOD_CPU_OPERATIONS="mpi" if by_mpi else "shm")
    if death == "SIGSTOP":
        environment.update(HOROVOD_STALL_CHECK_TIME_SECONDS="1",
                           HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="3")
    with open(tmp_path / "output", "wb") as output:
        job = subprocess.Popen(
            ["mpirun", "-np", str(RANKS), "--oversubscribe", "--bind-to", "none",
             "--enable-recovery", sys.executable, str(program), str(tmp_path), death, str(VICTIM)],
            stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
    pids = {}
    try:
        wait_until(lambda: all((tmp_path / f"pid{rank}").exists() for rank in range(RANKS)),
                   "all ranks run")
        pids = {rank: int((tmp_path / f"pid{rank}").read_text()) for rank in range(RANKS)}
        for rank in set(range(RANKS)) - {VICTIM}:
            wait_until((tmp_path / f"told{rank}").exists, f"rank {rank} is told")
            told = json.loads((tmp_path / f"told{rank}").read_text())
            assert told["error"] == ("PeerLostError" if death == "SIGKILL" else "StalledError"), told
            assert f"rank {VICTIM}" in told["text"], told
        for rank in set(range(RANKS)) - {VICTIM}:
            wait_until(lambda rank=rank: not is_running(pids[rank]), f"rank {rank} has left")
    finally:
        for pid in pids.values():
            kill(pid)
        job.wait(timeout=LIMIT_S)
