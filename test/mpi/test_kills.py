"""kill -9 of a rank at fifty random moments: the others report it, and nothing is left behind."""

import json
import os
import random
import signal
import time

from ranks import Ranks

KILLS = 50
RANKS = 3
LIMIT_S = 20

PROGRAM = """
import json, os, sys, time
from horovod_cpp import nn

folder = sys.argv[1]
hvd.manual_seed(1)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = hvd.DistributedOptimizer(
    hvd.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
images, labels = hvd.tensor(np.ones((8, 64), np.float32)), hvd.tensor(np.arange(8))
def write(name, value):
    with open(os.path.join(folder, name + ".part"), "w") as file:
        json.dump(value, file)
    os.rename(file.name, os.path.join(folder, name))
write(f"pid{rank}", os.getpid())
try:
    for step in range(1000000):
        optimizer.zero_grad()
        hvd.cross_entropy(model(images), labels).backward()
        optimizer.step()
        hvd.allreduce(np.ones(1 << (step % 20), np.float32), hvd.Sum, name="sum")
        hvd.allgather(np.ones((step % 7 + rank, 3)), name="rows")
except hvd.HorovodInternalError as error:
    write(f"told{rank}", {"text": str(error), "at": time.monotonic()})
    os._exit(4)
"""


def wait_for(path, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists():
            return json.loads(path.read_text())
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s: {what}")


def kill_one(folder):
    program = folder / "program.py"
    program.write_text("import numpy as np\nimport horovod_cpp as hvd\nhvd.init()\n"
                       "rank = hvd.rank()\n" + PROGRAM)
    job = Ranks(folder).start([program, folder], RANKS, "mpirun", flags=["--enable-recovery"])
    try:
        pids = [wait_for(folder / f"pid{rank}", 60, f"rank {rank} runs") for rank in range(RANKS)]
        time.sleep(random.uniform(0, 0.5))
        victim = random.randrange(RANKS)
        os.kill(pids[victim], signal.SIGKILL)
        died = time.monotonic()
        for rank in set(range(RANKS)) - {victim}:
            told = wait_for(folder / f"told{rank}", 30, f"rank {rank} noticed rank {victim}")
            assert f"rank {victim}" in told["text"], told
            assert told["at"] - died < LIMIT_S, (rank, told, died)
        job.communicate(timeout=30)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)


def test_a_kill_at_any_moment_is_reported_and_leaves_no_memory(tmp_path):
    before = set(os.listdir("/dev/shm"))
    for kill in range(KILLS):
        folder = tmp_path / str(kill)
        folder.mkdir()
        kill_one(folder)
        left = [name for name in set(os.listdir("/dev/shm")) - before if "hvd" in name]
        assert not left, (kill, left)
