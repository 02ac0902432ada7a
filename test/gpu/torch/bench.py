"""What horovod_cpp.torch costs on a GPU at one rank, beside plain PyTorch and its own NCCL backend.

    HVD_GPU_OPERATIONS=nccl python3 test/gpu/torch/bench.py

Prints one JSON object a line. Both sides take turns; times are medians, ratios medians of the
ratios of neighbours.
"""

import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from resnet50 import resnet50

import horovod_cpp.torch as hvd

LATENCY_ROUNDS = 200
GRADIENT_ROUNDS = 50
STEPS = 40
WARM_UP = 10
BATCH = 64
TARGET = 0.01  # of a step: the most that DistributedOptimizer may cost at one rank


def seconds_of(work):
    """Until the GPU has done it."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def pairs_of(ours, theirs, rounds, warm_up=WARM_UP):
    """Seconds of each, in pairs whose order changes."""
    pairs = []
    for number in range(warm_up + rounds):
        if number % 2:
            pair = seconds_of(ours), seconds_of(theirs)
        else:
            pair = tuple(reversed((seconds_of(theirs), seconds_of(ours))))
        if number >= warm_up:
            pairs.append(pair)
    return pairs


def report(name, pairs, unit, **more):
    scale = {"us": 1e6, "ms": 1e3}[unit]
    row = {"name": name, unit: round(statistics.median(ours for ours, _ in pairs) * scale, 2),
           f"torch_{unit}": round(statistics.median(theirs for _, theirs in pairs) * scale, 2),
           "ratio": round(statistics.median(ours / theirs for ours, theirs in pairs), 4), **more}
    print(json.dumps(row), flush=True)
    return row


def bench_latency():
    for count in (1, 256, 16384, 262144, 16777216):
        x = torch.ones(count, device="cuda")
        report("blocking allreduce_, 1 rank", pairs_of(
            lambda: hvd.allreduce_(x, op=hvd.Sum, name="latency"), lambda: dist.all_reduce(x),
            LATENCY_ROUNDS), "us", bytes=4 * count)


def bench_gradients(model):
    gradients = [torch.ones_like(parameter) for parameter in model.parameters()]
    flat = torch.ones(sum(gradient.numel() for gradient in gradients), device="cuda")
    report("ResNet-50's gradients, grouped_allreduce_, beside one tensor of their size", pairs_of(
        lambda: hvd.grouped_allreduce_(gradients, op=hvd.Sum, name="gradients"),
        lambda: dist.all_reduce(flat), GRADIENT_ROUNDS), "us", tensors=len(gradients),
        bytes=4 * flat.numel())


def step_of(model, optimizer, images, labels):
    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def bench_overhead():
    images = torch.randn(BATCH, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (BATCH,), device="cuda")
    steps = []
    for wrap in (True, False):
        torch.manual_seed(0)
        model = resnet50().cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        if wrap:
            optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
            hvd.broadcast_parameters(model.state_dict(), 0)
            hvd.broadcast_optimizer_state(optimizer, 0)
        steps.append(step_of(model, optimizer, images, labels))
    pairs = pairs_of(*steps, STEPS)
    overhead = statistics.median(ours / theirs for ours, theirs in pairs) - 1
    report(f"step of ResNet-50, batch {BATCH}, DistributedOptimizer at 1 rank", pairs, "ms",
           overhead=round(overhead, 4), target=f"below {TARGET}", met=overhead < TARGET)


def main():
    torch.cuda.set_device(0)
    hvd.init()
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", init_method=f"file://{os.path.join(folder, 'store')}",
                                rank=0, world_size=1)
        model = resnet50().cuda()
        counts = len(list(model.parameters())), sum(each.numel() for each in model.parameters())
        assert counts == (161, 25557032), counts
        print(json.dumps({"GPU": torch.cuda.get_device_name(0), "torch": torch.__version__,
                          "nccl": ".".join(map(str, torch.cuda.nccl.version()))}))
        bench_latency()
        bench_gradients(model)
        del model
        bench_overhead()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
