"""What a long job may not do: grow."""

import pathlib
import re
import subprocess
import sys


STEPS = 10000
WARM_STEPS = 1000
GROWTH_LIMIT_KIB = 1024

TRAINING = f"""
import gc
import numpy as np
import horovod_cpp as hvd
from horovod_cpp import nn

hvd.init()
hvd.manual_seed(1)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = hvd.DistributedOptimizer(
    hvd.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
random = np.random.default_rng(hvd.rank())
images = hvd.tensor(random.standard_normal((8, 16), dtype=np.float32))
labels = hvd.tensor(random.integers(0, 4, 8))

def resident_kib():
    gc.collect()
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1])

seen = []
for step in range({STEPS} + 1):
    if step % {WARM_STEPS} == 0:
        seen.append(resident_kib())
    optimizer.zero_grad()
    loss = hvd.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
print("resident KiB every {WARM_STEPS} steps:", *seen, flush=True)
hvd.shutdown()
"""


def test_ten_thousand_steps_of_training_keep_memory_flat(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(TRAINING)
    hvdrun = pathlib.Path(sys.executable).with_name("hvdrun")
    done = subprocess.run([hvdrun, "-np", "2", sys.executable, program], text=True, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    rows = re.findall(r"resident KiB every \d+ steps:([ \d]+)", done.stdout)
    assert len(rows) == 2, done.stdout
    for row in rows:
        print("resident KiB:", row)
        _, warm, *later = map(int, row.split())
        assert max(later) - warm <= GROWTH_LIMIT_KIB, done.stdout
