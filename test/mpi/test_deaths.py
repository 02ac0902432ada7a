"""Five kinds of death of one of four ranks. The launcher leaves the survivors alone, so that our
own code has to notice; each survivor writes down what it was told."""

import json
import os
import subprocess
import sys
import time

import pytest

RANKS = 4
VICTIM = 2
DEATHS = ["sigkill", "exit", "exception", "abort", "sigstop"]
SHORT_STALLS = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "7"}

PROGRAM = """
import ctypes, json, os, signal, sys, time
import numpy as np
import horovod_cpp as hvd

folder, death, victim = sys.argv[1], sys.argv[2], int(sys.argv[3])
hvd.init()
rank = hvd.rank()
died_at = os.path.join(folder, "died")

def die():
    with open(died_at, "w") as file:
        file.write(repr(time.monotonic()))  # one clock for all processes
    if death == "sigkill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif death == "exit":
        sys.exit(3)
    elif death == "exception":
        raise RuntimeError("planted")
    elif death == "abort":
        ctypes.CDLL(None).abort()
    elif death == "sigstop":
        os.kill(os.getpid(), signal.SIGSTOP)

try:
    for step in range(1000000):
        hvd.allreduce(np.ones(1000, np.float32), name="gradient")
        if rank == victim and step == 50:
            die()
except hvd.HorovodInternalError as error:
    if rank != victim:
        with open(os.path.join(folder, f"survivor{rank}.json"), "w") as file:
            json.dump({"error": type(error).__name__, "text": str(error), "at": time.monotonic()}, file)
    os._exit(4)
"""


@pytest.mark.parametrize("victim, death", [
    *((VICTIM, death) for death in DEATHS), (0, "sigkill"),
    *(pytest.param(0, death, marks=pytest.mark.full) for death in DEATHS if death != "sigkill")])
def test_every_survivor_learns_which_rank_is_gone(death, victim, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       **(SHORT_STALLS if death == "sigstop" else {}))
    output = tmp_path / "output"
    with open(output, "wb") as file:
        job = subprocess.Popen(
            ["mpirun", "-np", str(RANKS), "--oversubscribe", "--bind-to", "none",
             "--enable-recovery", sys.executable, str(program), str(tmp_path), death, str(victim)],
            stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
    survivors = [rank for rank in range(RANKS) if rank != victim]
    try:
        told = {rank: wait_for(tmp_path / f"survivor{rank}.json", 40, output) for rank in survivors}
    finally:
        subprocess.run(["pkill", "-KILL", "-f", str(program)], check=False)
        job.wait(timeout=30)
    died = float((tmp_path / "died").read_text())
    for rank, record in told.items():
        assert f"rank {victim}" in record["text"], record
        limit = 25 if death == "sigstop" else 20
        assert record["at"] - died < limit, (rank, record, died)
        if death == "sigstop":
            assert record["error"] == "StalledError", record
        else:
            assert record["error"] in ("PeerLostError", "AbortedError"), record


def wait_for(path, seconds, output):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            return json.loads(path.read_text())
        except (OSError, json.JSONDecodeError):
            time.sleep(0.05)
    pytest.fail(f"no {path.name} within {seconds} s: {output.read_text(errors='replace')}")
