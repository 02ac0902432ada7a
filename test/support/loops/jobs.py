"""Runs programs in jobs of ranks: as many as possible in one."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from ranks import hvdrun

RANK = pathlib.Path(__file__).with_name("rank.py")
STALL = 8  # seconds until a program that waits for nobody is over; ranks compute for milliseconds
_ENDING = 60  # seconds for a job beyond that, and one more for each program


def run_job(programs, stall=STALL):
    """What each rank reported of the programs that were begun, in order, and the job's output."""
    with tempfile.TemporaryDirectory(prefix="loops") as folder:
        folder = pathlib.Path(folder)
        (folder / "programs.json").write_text(json.dumps(programs))
        output = _run(folder, programs, stall)
        written = [_lines(folder / f"rank.{rank}") for rank in range(programs[0]["ranks"])]
    begun = max(1, max(map(len, written)))
    missing = {"trace": [], "at": None, "error": "nothing reported", "text": output[-600:],
               "refusal": False, "over": True}
    return [[lines[number] if number < len(lines) else missing for lines in written]
            for number in range(begun)]


def _run(folder, programs, stall):
    environment = {**os.environ, "HOROVOD_STALL_CHECK_TIME_SECONDS": str(stall / 2),
                   "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": str(stall), "OMP_NUM_THREADS": "1"}
    front, ranks = programs[0]["front"], programs[0]["ranks"]
    command = [hvdrun(), "-np", str(ranks), "--gloo", sys.executable, str(RANK), str(folder), front]
    job = subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, start_new_session=True, env=environment)
    try:
        return job.communicate(timeout=_ENDING + stall + len(programs))[0]
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return job.communicate()[0] + "\nthe job did not end"


def _lines(file):
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]


def run_programs(programs, stall=STALL, batch=50):
    """Yields (program, what each rank reported). A job that ended early is started for the rest."""
    left = list(programs)
    while left:
        reports = run_job(left[:batch], stall)
        yield from zip(left, reports)
        left = left[len(reports):]
