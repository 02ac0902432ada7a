"""Whom hvdrun blames: the rank that ended the job, not those that failed because of it."""

import pytest

UNTIL = """
import os, signal, sys, time
# hvdrun stops the others 3 s after the first failure: on a busy machine, before they have failed.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def step():
    hvd.allreduce(np.ones(3), name="step")
step()
"""

GLOO = pytest.param({"flags": ["--gloo"]}, id="gloo")
MPI = pytest.param({"flags": ["--mpi"]}, id="mpi")
BOTH = pytest.mark.parametrize("start", [GLOO, MPI])
# What mpirun adds is in two tests: an exit code and a signal that it reports.
MPI_IN_FULL = pytest.mark.parametrize("start", [GLOO, pytest.param(*MPI.values, id="mpi", marks=pytest.mark.full)])


def run(ranks, source, start, np=2):
    program = ranks.folder / "program.py"
    program.write_text(ranks.prologue + UNTIL + source)
    return ranks.launch([program], np, **start)


def verdict(done):
    """What hvdrun itself said."""
    return [line for line in done.stdout.splitlines() if line.startswith("hvdrun: ")]


# Its shutdown() at exit lets rank 0 go, which fails while Python still ends on rank 1.
@BOTH
def test_a_rank_that_leaves_by_sys_exit_is_named_with_its_code(ranks, start):
    for _ in range(3):
        done = run(ranks, "if rank == 1: sys.exit(3)\nwhile True: step()\n", start)
        assert done.returncode == 3, done.stdout
        assert "hvdrun: rank 1 of 2 failed first" in done.stdout, done.stdout
        assert verdict(done)[0].endswith("exit code 3"), done.stdout
        assert "hvdrun: after it: rank 0: exit code 1" in done.stdout, done.stdout


@MPI_IN_FULL
def test_however_long_it_takes_to_end(ranks, start):
    done = run(ranks, """
import atexit
if rank == 1:
    atexit._clear()
    hvd.shutdown()
    time.sleep(5)  # longer than those that failed are given if nobody caused it
    sys.exit(3)
while True: step()
""", start)
    assert done.returncode == 3, done.stdout
    assert "hvdrun: rank 1 of 2 failed first" in done.stdout, done.stdout


@MPI_IN_FULL
def test_a_rank_that_ended_early_without_a_failure_is_named(ranks, start):
    done = run(ranks, "if rank == 1: sys.exit(0)\nwhile True: step()\n", start)
    assert done.returncode == 1, done.stdout
    assert "hvdrun: rank 0 of 2 failed first" in done.stdout, done.stdout
    assert [line for line in verdict(done) if "rank 1" in line and "exit code 0" in line], done.stdout


@MPI_IN_FULL
def test_an_exception_comes_before_the_errors_that_it_causes(ranks, start):
    done = run(ranks, "if rank == 2: raise ValueError('lr')\nwhile True: step()\n", start, np=3)
    assert done.returncode == 1, done.stdout
    assert "hvdrun: rank 2 of 3 failed first" in done.stdout, done.stdout


def test_through_a_script_around_the_program(ranks):
    program = ranks.folder / "program.py"
    program.write_text(ranks.prologue + UNTIL + "if rank == 1: sys.exit(3)\nwhile True: step()\n")
    wrapper = ranks.folder / "wrapper.py"
    wrapper.write_text(
        f"import subprocess, sys\nsys.exit(subprocess.call([sys.executable, {str(program)!r}]))\n")
    done = ranks.launch([wrapper], 2, flags=["--gloo"])
    assert done.returncode == 3, done.stdout
    assert "hvdrun: rank 1 of 2 failed first" in done.stdout, done.stdout


@BOTH
def test_where_the_last_operations_are_is_said_once(ranks, start, tmp_path):
    done = run(ranks, "if rank == 1: os.kill(os.getpid(), 9)\nwhile True: step()\n",
               {**start, "environment": {"HVD_FLIGHT_RECORDER_DIR": str(tmp_path / "records")}},
               np=3)
    assert done.returncode == 137, done.stdout
    assert "hvdrun: rank 1 of 3 failed first" in done.stdout, done.stdout
    said = [line for line in done.stdout.splitlines() if "last operations" in line]
    assert len(said) == 1, done.stdout
    folder, = (tmp_path / "records").iterdir()
    assert said[0] == f"hvdrun: the last operations of ranks 0 and 2 are in {folder}", done.stdout
