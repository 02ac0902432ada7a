"""What test_random_faults.py starts on each rank: collectives, transfers, process sets and an optimizer's
arena at once, until the file `finish` is there or the engine raises. A file of each rank says what
came of it; then it leaves as any program does, by sys.exit.

    fault_job.py FOLDER SEED [POWER]    floats of one sum a step, once it runs, as a power of two; else three are drawn
"""

import json
import os
import pathlib
import random
import sys
import time

import numpy as np

import horovod_cpp as hvd
from horovod_cpp import nn

RUNS = 3  # after so many steps a rank says that it runs


def write(path, value):
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value))
    part.rename(path)


def train(folder, seed, power):
    """All ranks draw the same numbers, so that they make the same calls."""
    draw = random.Random(seed)
    rank, size = hvd.rank(), hvd.size()
    hvd.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = hvd.DistributedOptimizer(hvd.optim.SGD(model.parameters(), lr=0.01),
                                         model.named_parameters())
    images, labels = hvd.tensor(np.ones((8, 64), np.float32)), hvd.tensor(np.arange(8))
    step = 0
    while True:
        optimizer.zero_grad()
        hvd.cross_entropy(model(images), labels).backward()
        after, before = (rank + 1) % size, (rank - 1) % size
        rows = draw.choice([1, 100, 100000])
        transfers = [hvd.isend(np.full(rows, rank, np.float32), after),
                     hvd.irecv(np.zeros(rows, np.float32), before)]
        powers = [power] if power and step >= RUNS else [draw.randrange(20) for _ in range(3)]
        sums = [hvd.allreduce_async(np.ones(1 << each, np.float32), hvd.Sum, name=f"sum{i}")
                for i, each in enumerate(powers)]
        if draw.random() < 0.1:
            members = sorted(draw.sample(range(size), draw.randrange(1, size + 1)))
            process_set = hvd.add_process_set(members)
            if process_set.included():
                hvd.allreduce(np.ones(1000), name="of_set", process_set=process_set)
            hvd.remove_process_set(process_set)
        optimizer.step()
        for handle in sums:
            assert (hvd.synchronize(handle) == size).all()
        hvd.allgather(np.ones((draw.randrange(1, 7) + rank, 3)), name="rows")
        hvd.synchronize(transfers[0])
        assert (hvd.synchronize(transfers[1]) == before).all()
        step += 1
        if step == RUNS:
            write(folder / f"running{rank}", os.getpid())
        finish = np.array([rank == 0 and (folder / "finish").exists()], np.int32)
        if hvd.allreduce(finish, hvd.Max, name="finish")[0]:
            return step


def main():
    folder, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    write(folder / f"pid{os.environ.get('RANK') or os.environ['OMPI_COMM_WORLD_RANK']}", os.getpid())
    hvd.init()
    rank = hvd.rank()
    try:
        steps = train(folder, seed, int(sys.argv[3]) if len(sys.argv) > 3 else None)
    except hvd.Error as error:
        write(folder / f"told{rank}", {"type": type(error).__name__, "text": str(error), "at": time.monotonic()})
        sys.exit(4)
    write(folder / f"finished{rank}", steps)


main()
