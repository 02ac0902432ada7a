"""What a long job may not do: grow."""

import re

from ranks import Ranks

STEPS = 10000
WARM_STEPS = 1000
GROWTH_LIMIT_KIB = 1024

TRAINING = f"""
import gc
from horovod_cpp import nn

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
    output = Ranks(tmp_path).check(TRAINING, timeout=600)
    rows = re.findall(r"resident KiB every \d+ steps:([ \d]+)", output)
    assert len(rows) == 2, output
    for row in rows:
        print("resident KiB:", row)
        _, warm, *later = map(int, row.split())
        assert max(later) - warm <= GROWTH_LIMIT_KIB, output
