"""Four ways to make the other ranks wait, and what the report says about each."""

import re

STALL = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "4"}


def reports(ranks, source, np=3, environment=None):
    """Runs the program; its ranks may fail. Returns its output on few lines."""
    program = ranks.folder / "program.py"
    program.write_text("import os, signal, sys, time\nimport numpy as np\nimport horovod_cpp as hvd\n"
                       "hvd.init()\nrank, size = hvd.rank(), hvd.size()\n" + source)
    done = ranks.launch([program], np, environment={**STALL, **(environment or {})}, timeout=60)
    return done.returncode, done.stdout


def test_work_on_rank_0_only_is_a_slow_rank_and_its_line_is_named(ranks):
    code, text = reports(ranks, """
def evaluate():
    time.sleep(3)  # line 8
hvd.allreduce(np.ones(2), hvd.Sum, name="step")
if rank != 0:
    evaluate()
hvd.allreduce(np.ones(2), hvd.Sum, name="metric")
""")
    assert code == 0, text
    stalled = [line for line in text.splitlines() if "stalled" in line]
    assert stalled, text
    assert '"allreduce.metric"' in stalled[0] and "1 of 3 ranks" in stalled[0], text
    for rank in (1, 2):
        assert re.search(rf"rank {rank} \(slow[^)]*allreduce\.step[^)]*program\.py:8", stalled[0]), text
    assert len(stalled) <= 4, text  # once a second, not once a tensor and rank


def test_ranks_that_use_other_names_went_a_different_way(ranks):
    code, text = reports(ranks, """
try:
    hvd.allreduce(np.ones(2), hvd.Sum, name="left" if rank == 0 else "right")
except hvd.StalledError as error:
    print("error:", error)
    sys.exit(3)
""")
    assert code != 0, text
    stalled = next(line for line in text.splitlines() if "stalled" in line)
    assert "went a different way" in stalled and "allreduce.left" in stalled, text
    assert "allreduce.right" in stalled, text
    assert len(re.findall(r"\[\d\] error: stalled, giving up", text)) == 3, text


def test_a_rank_that_exits_early_is_named_on_the_others(ranks):
    code, text = reports(ranks, """
if rank == 1:
    sys.exit(0)
try:
    hvd.allreduce(np.ones(2), hvd.Sum, name="step")
except hvd.AbortedError as error:
    print("error:", error)
    sys.exit(3)
""")
    assert code != 0, text
    assert len(re.findall(r"\[\d\] error: .*rank 1 left", text)) == 2, text


def test_a_stopped_rank_does_not_answer(ranks):
    code, text = reports(ranks, """
hvd.allreduce(np.ones(2), hvd.Sum, name="warm")
if rank == 1:
    if os.fork() == 0:  # wakes it up when the others are done, so that the job can end
        time.sleep(8)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    hvd.allreduce(np.ones(2), hvd.Sum, name="step")
except hvd.HorovodInternalError as error:
    print(f"error {rank} after {type(error).__name__}:", error)
    sys.exit(3)
""")
    assert code != 0, text
    stalled = next(line for line in text.splitlines() if "stalled" in line)
    assert re.search(r"rank 1 \(does not answer", stalled), text
    for rank in (0, 2):
        assert re.search(rf"error {rank} after StalledError: .*rank 1", text), text
