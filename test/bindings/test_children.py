"""Processes that ranks start: they inherit what a launcher left for the rank alone."""

import time

import pytest
from ranks import hvdrun

# Every way of starting ranks: hvdrun without mpirun and by it, and mpirun alone. What ranks inherit by
# the first and the last, they do by the second, too.
LAUNCHERS = pytest.mark.parametrize("how", [
    pytest.param({"flags": ["--gloo"]}, id="hvdrun --gloo"),
    pytest.param({"flags": ["--mpi"]}, id="hvdrun --mpi", marks=pytest.mark.full),
    pytest.param({"launcher": "mpirun"}, id="mpirun")])

# Ranks go on afterwards: their children did not harm the job.
CHILDREN = """
import os, subprocess, sys, textwrap
def child(source, **variables):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env={**os.environ, **variables})
def still_one_job():
    assert (hvd.allreduce(np.ones(3), hvd.Sum) == size).all()
    print("one job", flush=True)
"""


@LAUNCHERS
@pytest.mark.parametrize("who", [pytest.param("rank 1", marks=pytest.mark.full), "all ranks"])
def test_init_in_a_child_of_a_rank_fails_at_once(ranks, how, who):
    begun = time.monotonic()
    output = ranks.check(CHILDREN + f"""
if rank == 1 or {who == "all ranks"}:
    done = child("import horovod_cpp as hvd; hvd.init()")
    assert done.returncode == 1, done.stdout
    says = f"InvalidArgumentError: this process was started by rank {{rank}} (pid {{os.getpid()}})"
    assert says in done.stdout, done.stdout
still_one_job()
""", **how)
    assert output.count("one job") == 2, output
    assert time.monotonic() - begun < 30


@LAUNCHERS
def test_a_child_of_a_rank_may_have_a_world_of_its_own(ranks, how):
    output = ranks.check(CHILDREN + """
done = child('''
    import horovod_cpp as hvd
    hvd.init()
    assert hvd.size() == 1 and hvd.allreduce(hvd.ones(1)).tolist() == [1.0], hvd.size()
    print("alone")''', HVD_WORLD="self")
assert (done.returncode, done.stdout) == (0, "alone\\n"), done.stdout
still_one_job()
""", **how)
    assert output.count("one job") == 2, output


def test_a_rank_stays_one_in_the_program_that_it_becomes(ranks):
    """Where MPI is not used: that starts once in a process, whatever it becomes."""
    output = ranks.check(CHILDREN + """
if len(sys.argv) == 1:
    hvd.barrier()
    hvd.shutdown()
    os.execv(sys.executable, [sys.executable, sys.argv[0], "again"])
still_one_job()
""", flags=["--gloo"])
    assert output.count("one job") == 2, output


@LAUNCHERS
def test_collectives_of_a_forked_child_are_refused(ranks, how):
    output = ranks.check(CHILDREN + """
process = os.fork()
if process == 0:
    try:
        hvd.allreduce(np.ones(1))
    except hvd.AbortedError as error:
        assert "forked" in str(error)
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
still_one_job()
""", **how)
    assert output.count("one job") == 2, output


@LAUNCHERS
@pytest.mark.parametrize("inner", [pytest.param("--mpi", marks=pytest.mark.full), "--gloo"])
def test_hvdrun_in_a_rank_starts_a_job_of_its_own(ranks, how, inner):
    (ranks.folder / "inner.py").write_text("""
import numpy as np, horovod_cpp as hvd
hvd.init()
print("inner", hvd.rank(), hvd.allreduce(np.ones(1), hvd.Sum), flush=True)
""")
    output = ranks.check(CHILDREN + f"""
if rank == 1:
    done = subprocess.run([{hvdrun()!r}, {inner!r}, "-np", "2", sys.executable, "inner.py"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    assert "inner 0 [2.]" in done.stdout and "inner 1 [2.]" in done.stdout, done.stdout
still_one_job()
""", **how)
    assert output.count("one job") == 2, output


@LAUNCHERS
def test_workers_that_import_a_script_which_is_no_module_end_quickly(ranks, how):
    """What spawned DataLoader workers do: multiprocessing imports the main script again."""
    (ranks.folder / "program.py").write_text("""
import multiprocessing, sys
import horovod_cpp as hvd
hvd.init()
worker = multiprocessing.get_context("spawn").Process(target=print, args=("worked",))
worker.start()
worker.join()
print("worker", worker.exitcode, float(hvd.allreduce(hvd.ones(1), hvd.Sum)[0]), flush=True)
""")
    begun = time.monotonic()
    done = ranks.launch(["program.py"], 2, **how)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("worker 1 2.0") == 2, done.stdout
    assert 'if __name__ == "__main__"' in done.stdout, done.stdout
    assert time.monotonic() - begun < 30


def test_a_cluster_starts_in_a_child_that_has_a_world_of_its_own(ranks):
    output = ranks.check(CHILDREN + """
done = child('''
    import horovod_cpp as hvd
    def work():
        hvd.init()
        return hvd.size()
    print(hvd.run(work, np=2))''', HVD_WORLD="self")
assert (done.returncode, done.stdout) == (0, "[2, 2]\\n"), done.stdout
still_one_job()
""", flags=["--gloo"], environment={"OMP_NUM_THREADS": "1"})
    assert output.count("one job") == 2, output
