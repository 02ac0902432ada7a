"""Signals are for the program's own threads."""

import os
import signal
import subprocess
import sys

import cloudpickle

import horovod_cpp as hvd

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks cannot import this file

SAVES_BEFORE_IT_ENDS = """
import os, signal, time
import numpy as np
before = set(os.listdir("/proc/self/task"))
import horovod_cpp as hvd
hvd.init()
hvd.barrier()
loader = iter(hvd.data.DataLoader([(np.ones(1), 1)] * 200, batch_size=2, num_workers=2))
next(loader)

def blocks_sigterm(task):
    with open(f"/proc/self/task/{task}/status") as file:
        mask = next(line.split()[1] for line in file if line.startswith("SigBlk"))
    return bool(int(mask, 16) >> signal.SIGTERM - 1 & 1)

ours = set(os.listdir("/proc/self/task")) - before  # they live as long as the process
print(len(ours), "threads", flush=True)
assert not [task for task in ours if not blocks_sigterm(task)]
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("ready", os.getpid(), flush=True)
while signal.SIGTERM not in signal.sigpending():
    time.sleep(0.01)  # a step of a training
print("saved", flush=True)
"""


def test_a_program_that_looks_for_sigterm_once_a_step_is_not_killed_by_it(ranks):
    folder = ranks.folder
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1",  # NumPy's are not ours
                   "HVD_RENDEZVOUS": f"file://{folder}/meeting", "HOROVOD_SIZE": "2",
                   "HOROVOD_TIMELINE": str(folder / "timeline.json")}
    started = [subprocess.Popen([sys.executable, "-c", SAVES_BEFORE_IT_ENDS], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**environment, "HOROVOD_RANK": str(rank)}) for rank in range(2)]
    try:
        heads = [[each.stdout.readline(), each.stdout.readline()] for each in started]
        for each, head in zip(started, heads):
            assert head[1].startswith("ready"), "".join(head) + each.communicate(timeout=60)[0]
            assert int(head[0].split()[0]) >= 4, head
        for each in started:
            each.send_signal(signal.SIGTERM)
        for each in started:
            output, _ = each.communicate(timeout=60)
            assert each.returncode == 0 and "saved" in output, (each.returncode, output)
    finally:
        for each in started:
            each.kill()


def threads_that_take_sigterm():
    """All but the program's own, which is the main thread here."""
    hvd.init()
    hvd.barrier()
    found = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/status") as file:
                fields = dict(line.split(":", 1) for line in file)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        blocked = int(fields["SigBlk"], 16) >> signal.SIGTERM - 1 & 1
        if not blocked and int(task) != os.getpid():
            found.append(fields["Name"].strip())
    return found


def test_no_thread_of_a_rank_of_hvd_run_takes_signals(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # NumPy's are not ours
    assert hvd.run(threads_that_take_sigterm, np=2) == [[], []]
