"""kill -9 of one of four ranks in the middle of training ends the job soon, and names the rank.

Run by test/run.sh with HVD_BUILD (the build folder), HVD_DIGITS (a folder from write_digits.py) and
the installed Python package.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["HVD_BUILD"])
DIGITS = os.environ["HVD_DIGITS"]
VICTIM = 2
RANKS = 4
DEADLINE_S = 30

OPTIONS = ["--data", DIGITS, "--epochs", "100000"]
PROGRAMS = {
    "cpp": [str(BUILD / "examples" / "train_digits"), *OPTIONS],
    "python": [sys.executable, str(ROOT / "examples" / "train_digits.py"), *OPTIONS],
}
MPIRUN = ["mpirun", "-np", str(RANKS), "--oversubscribe", "--bind-to", "none"]
LAUNCHERS = {
    "mpirun": MPIRUN,
    # The launcher leaves the survivors alone: our own code has to notice. This mpirun ends with 0
    # whatever its processes end with, and loses some of their last output, so each leaves both in a
    # file.
    "mpirun-enable-recovery": [*MPIRUN, "--enable-recovery", "bash", "-c",
                               'said=$HVD_TEST_SAID.$OMPI_COMM_WORLD_RANK\n'
                               '"$@" 2>"$said"; echo "exit code $?" >>"$said"', "bash"],
    "hvdrun": [str(BUILD / "runner" / "hvdrun"), "-np", str(RANKS)],
    "hvdrun-without-mpi": [str(BUILD / "runner" / "hvdrun"), "-np", str(RANKS), "--gloo"],
}


def ranks_of(program):
    """{rank: pid} of the running processes whose command line is `program`."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if [part.decode() for part in command] != program:
            continue
        for variable in variables:
            if variable.startswith((b"OMPI_COMM_WORLD_RANK=", b"HOROVOD_RANK=")):
                found[int(variable.split(b"=")[1])] = int(entry.name)
    return found


def is_of_another_job(name):
    """Of one that runs just now: "hvd-PID-..."."""
    return os.path.exists(f"/proc/{name.split('-')[1]}")


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    pytest.fail(f"not within {seconds} s: {what}")


@pytest.mark.parametrize("launcher, language", [
    *((launcher, "python") for launcher in LAUNCHERS), ("hvdrun-without-mpi", "cpp"),
    *(pytest.param(launcher, "cpp", marks=pytest.mark.full) for launcher in LAUNCHERS if launcher != "hvdrun-without-mpi")])
def test_the_job_ends_soon_and_names_the_killed_rank(launcher, language, tmp_path):
    assert shutil.which("mpirun"), "Open MPI is not installed"
    program = [*PROGRAMS[language], "--checkpoint", str(tmp_path / "digits.safetensors"),
               "--log-json", str(tmp_path / "losses.json")]
    shm_before = set(os.listdir("/dev/shm"))
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       PYTHONUNBUFFERED="1", HVD_TEST_SAID=str(tmp_path / "said"))
    output_path = tmp_path / "output"
    with open(output_path, "wb") as output:
        job = subprocess.Popen([*LAUNCHERS[launcher], *program], stdout=output,
                               stderr=subprocess.STDOUT, env=environment, start_new_session=True)
    try:
        wait_until(lambda: len(ranks_of(program)) == RANKS, 60, "four ranks run")
        # In the middle of training: rank 0 has shown losses.
        wait_until(lambda: b"loss" in output_path.read_bytes(), 60, "training started")
        os.kill(ranks_of(program)[VICTIM], signal.SIGKILL)
        killed = time.monotonic()
        code = job.wait(timeout=2 * DEADLINE_S)
        took = time.monotonic() - killed
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
    text = output_path.read_text(errors="replace")
    assert took < DEADLINE_S, text
    if launcher != "mpirun-enable-recovery":
        assert code != 0, text
        assert re.search(rf"\brank {VICTIM}\b", text), text
    else:
        for survivor in set(range(RANKS)) - {VICTIM}:
            said = (tmp_path / f"said.{survivor}").read_text(errors="replace")
            assert re.search(rf"\brank {VICTIM}\b", said), (survivor, said, text)
            assert re.search(r"^exit code [1-9]", said, re.MULTILINE), (survivor, said, text)
    wait_until(lambda: not ranks_of(program), DEADLINE_S, "no process of the job is left")
    left = {name for name in set(os.listdir("/dev/shm")) - shm_before if "hvd" in name}
    assert not {name for name in left if not is_of_another_job(name)}, left
