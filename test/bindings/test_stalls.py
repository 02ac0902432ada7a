"""Four ways to make the other ranks wait, and what the report says about each."""

import re

from order import ORDER

STALL = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "4"}


def reports(ranks, source, np=3, environment=None):
    """Runs the program; its ranks may fail. Returns its output on few lines."""
    program = ranks.folder / "program.py"
    program.write_text("import os, signal, sys, time\nimport numpy as np\nimport horovod_cpp as hvd\n"
                       "hvd.init()\nrank, size = hvd.rank(), hvd.size()\n" + source)
    done = ranks.launch([program], np, environment={**STALL, **(environment or {})}, timeout=60)
    return done.returncode, done.stdout


def stall_reports(text):
    """Each with the lines about ranks that belong to it, without the launcher's "[0] "."""
    lines = re.sub(r"^\[\d+\] ", "", text, flags=re.M)
    return re.findall(r"^.*stalled(?: for|, giving up).*(?:\n  .*)*", lines, flags=re.M)


def test_work_on_rank_0_only_is_a_slow_rank_and_its_line_is_named(ranks):
    # Ranks 1 and 2 stay where they are until two reports have named the place.
    code, text = reports(ranks, """
def evaluate():
    while not os.access("told", os.F_OK): time.sleep(0.01)  # line 8
named = []
def report(text):
    named.extend([text] if named or "program.py:8" in text else [])
    if len(named) == 2:
        open("told", "w").close()
hvd.on_stall(report)
hvd.allreduce(np.ones(2), hvd.Sum, name="step")
begin = time.monotonic()
if rank != 0:
    evaluate()
hvd.allreduce(np.ones(2), hvd.Sum, name="metric")
if rank == 0:
    print("rank 0 waited", time.monotonic() - begin)
""", environment={"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "60"})
    assert code == 0, text
    stalled = stall_reports(text)
    named = [report for report in stalled if "program.py:8 in evaluate" in report]
    assert named and "ranks 1 and 2 are late" in named[0], text
    assert re.search(r"\n  rank 0 +waiting in 'metric' \(allreduce\) for ranks 1 and 2 +"
                     r"at program.py:\d+ in <module> +\(submission \d+\)\n", named[0]), text
    assert re.search(r"\n  ranks 1 and 2 +busy outside the engine; last submitted 'step' "
                     r"\(allreduce\) +at program\.py:8 in evaluate", named[0]), text
    again = stalled[stalled.index(named[0]) + 1]
    assert "ranks 1 and 2 are late (no rank has moved since the last report)" in again, text
    waited = float(re.search(r"rank 0 waited ([\d.]+)", text).group(1))
    assert len(stalled) <= waited, text  # once a second, not once a tensor and rank


def test_ranks_that_use_other_names_went_a_different_way(ranks):
    code, text = reports(ranks, ORDER + """
try:
    hvd.allreduce(np.ones(2), hvd.Sum, name="left" if rank == 0 else "right")
except hvd.StalledError as error:
    print("error:", error)
    pathlib.Path(f"error{rank}").touch()
    wait_for("error0", "error1", "error2")
    sys.exit(3)
""", environment={"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "7"})
    assert code != 0, text
    assert [report for report in stall_reports(text) if "ranks went different ways" in report
            and report.count("'left' (allreduce)") == report.count("'right' (allreduce)") == 1], text
    assert len(re.findall(r"\[\d\] error: stalled, giving up", text)) == 3, text


def test_a_rank_that_exits_early_is_named_on_the_others(ranks):
    code, text = reports(ranks, ORDER + """
if rank == 1:
    sys.exit(0)
try:
    hvd.allreduce(np.ones(2), hvd.Sum, name="step")
except hvd.AbortedError as error:
    print("error:", error)
    pathlib.Path(f"error{rank}").touch()
    wait_for("error0", "error2")
    sys.exit(3)
""", environment={"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "60"})
    assert code != 0, text
    # Who came to its call after rank 1 had left is told that it was not submitted.
    left = (r"\] error: ('step' \(allreduce\) was not submitted: )?rank 1 left the job after \d+ "
            r"submissions? \(it ended, or called shutdown\(\)\)(?(1)| while rank [02] waits for 'step' "
            r"\(allreduce\), submission \d+, at program.py:\d+ in <module>)\. Different numbers of "
            r"batches\? See hvd\.join\(\), and JoinCallback for Keras\.")
    assert len(re.findall(left, text)) == 2, text


def test_a_stopped_rank_does_not_answer(ranks):
    code, text = reports(ranks, ORDER + """
pids = hvd.allgather_object(os.getpid())
if rank == 1:
    if os.fork() == 0:  # wakes it up when the others are done, so that the job can end
        try:
            wait_for("error0", "error2")
        finally:
            os.kill(pids[1], signal.SIGCONT)
            os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)
else:
    wait_until_stopped(pids[1])
try:
    hvd.allreduce(np.ones(2), hvd.Sum, name="step")
except hvd.HorovodInternalError as error:
    print(f"error {rank} after {type(error).__name__}:", error, flush=True)
    pathlib.Path(f"error{rank}").touch()
    wait_for("error0", "error2")
    sys.exit(3)
""", environment={"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "7"})
    assert code != 0, text
    assert [report for report in stall_reports(text) if "rank 1 does not answer" in report], text
    for rank in (0, 2):
        assert re.search(rf"error {rank} after StalledError: .*rank 1 does not answer", text), text
