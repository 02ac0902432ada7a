"""What engine_bench measures, from Python: horovod_cpp on NumPy arrays, torch's gloo, Horovod.

    mpirun -np 2 python test/bench/engine_python.py PEER SECONDS PORT

PEER is hvd, gloo or horovod; SECONDS bounds the time of each case; PORT is free on this machine (gloo
meets there). Prints the lines that engine_bench prints.
"""

import json
import os
import sys
import time

import numpy as np

BLOCKING = [1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26]
WARM_UPS = 3
MOST_RUNS = 2000


def convolution(inputs, outputs, side, bias=False):
    """A convolution's weight, and the batch normalisation behind it."""
    return [inputs * outputs * side * side] + [outputs] * (3 if bias else 2)


def resnet50():
    """Elements of each gradient in the order of backward; as in gradient_sets.cc."""
    sizes, inputs = convolution(3, 64, 7), 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width, outputs = 64 << stage, 256 << stage
        for block in range(blocks):
            sizes += convolution(inputs, width, 1) + convolution(width, width, 3)
            sizes += convolution(width, outputs, 1)
            sizes += convolution(inputs, outputs, 1) if block == 0 else []
            inputs = outputs
    return (sizes + [2048 * 1000, 1000])[::-1]


def vgg11():
    sizes, inputs = [], 3
    for outputs in (64, 128, 256, 256, 512, 512, 512, 512):
        sizes += convolution(inputs, outputs, 3, bias=True)
        inputs = outputs
    return (sizes + [512 * 10, 10])[::-1]


SETS = {"ResNet-50": resnet50(), "VGG-11": vgg11(), "1,000 x 1,024": [1024] * 1000}


class Hvd:
    way = "hvd python"

    def __init__(self, port):
        import horovod_cpp as hvd

        self.hvd = hvd
        hvd.init()
        self.rank, self.size, self.version = hvd.rank(), hvd.size(), hvd.__version__

    def tensors(self, sizes):
        return [np.zeros(size, np.float32) for size in sizes]

    def fill(self, tensor, value):
        tensor[:] = value

    def agrees(self, tensor, value):
        return bool((tensor == value).all())

    def reduce(self, tensors):
        hvd = self.hvd
        if len(tensors) == 1:
            hvd.allreduce_(tensors[0], op=hvd.Sum, name="one")
            return
        handles = [
            hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"gradient.{i}")
            for i, tensor in enumerate(tensors)
        ]
        for handle in handles:
            hvd.synchronize(handle)

    def slowest(self, seconds):
        return self.hvd.allreduce(np.asarray(seconds), op=self.hvd.Max, name="slowest")

    def barrier(self):
        self.hvd.barrier()


class Torch:
    """Common to the peers whose tensors are torch's."""

    def tensors(self, sizes):
        return [self.torch.zeros(size) for size in sizes]

    def fill(self, tensor, value):
        tensor.fill_(value)

    def agrees(self, tensor, value):
        return bool((tensor == value).all())


class Gloo(Torch):
    way = "gloo"

    def __init__(self, port):
        import torch
        import torch.distributed

        self.torch, self.dist = torch, torch.distributed
        self.rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
        self.size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
        self.version = f"torch {torch.__version__}"
        self.dist.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=self.rank, world_size=self.size
        )

    def reduce(self, tensors):
        if len(tensors) == 1:
            self.dist.all_reduce(tensors[0])
            return
        for work in [self.dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()

    def slowest(self, seconds):
        all_seconds = self.torch.tensor(seconds)
        self.dist.all_reduce(all_seconds, op=self.dist.ReduceOp.MAX)
        return all_seconds.numpy()

    def barrier(self):
        self.dist.barrier()


class Horovod(Torch):
    way = "horovod"

    def __init__(self, port):
        import torch

        import horovod
        import horovod.torch as hvd

        self.torch, self.hvd = torch, hvd
        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()
        self.version = f"Horovod {horovod.__version__}, torch {torch.__version__}"

    def reduce(self, tensors):
        handles = [
            self.hvd.allreduce_async_(tensor, op=self.hvd.Sum, name=f"gradient.{i}")
            for i, tensor in enumerate(tensors)
        ]
        for handle in handles:
            self.hvd.synchronize(handle)

    def slowest(self, seconds):
        everyone = self.hvd.allgather(self.torch.tensor([seconds]), name="seconds")
        return everyone.max(dim=0).values.numpy()

    def barrier(self):
        self.hvd.allreduce(self.torch.zeros(1), name="barrier")


PEERS = {"hvd": Hvd, "gloo": Gloo, "horovod": Horovod}


def run_once(peer, tensors, turn):
    """Seconds of one reduction; every element was written before it and is checked after it."""
    for tensor in tensors:
        peer.fill(tensor, peer.rank + 1 + turn % 4)
    peer.barrier()
    begin = time.perf_counter()
    peer.reduce(tensors)
    seconds = time.perf_counter() - begin
    expected = peer.size * (peer.size + 1) // 2 + peer.size * (turn % 4)
    if not all(peer.agrees(tensor, expected) for tensor in tensors):
        sys.exit(f"rank {peer.rank}: a wrong sum")
    return seconds


def measure(peer, section, case, sizes, limit):
    tensors = peer.tensors(sizes)
    warm_up = min(run_once(peer, tensors, turn) for turn in range(WARM_UPS))
    slowest = float(peer.slowest([warm_up])[0])  # how often is decided alike on all ranks
    runs = max(5, min(MOST_RUNS, int(limit / (2 * slowest))))
    seconds = peer.slowest([run_once(peer, tensors, turn) for turn in range(runs)])
    if peer.rank != 0:
        return
    result = {
        "section": section, "case": case, "way": peer.way, "ranks": peer.size,
        "bytes": 4 * sum(sizes), "tensors": len(sizes), "runs": runs,
        "median_us": 1e6 * float(np.quantile(seconds, 0.5)),
        "p90_us": 1e6 * float(np.quantile(seconds, 0.9)),
    }
    print(json.dumps(result), flush=True)


def main():
    name, limit, port = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    peer = PEERS[name](port)
    if peer.rank == 0:
        print(json.dumps({name: peer.version}), flush=True)
    for size in BLOCKING:
        measure(peer, "blocking", str(size), [size // 4], limit)
    for case, sizes in SETS.items():
        measure(peer, "sets", case, sizes, limit)


if __name__ == "__main__":
    main()
