#!/usr/bin/env python3
"""PyTorch's own DistributedDataParallel over horovod_cpp: a plain DDP script with another backend.

    hvdrun -np 2 python examples/torch_ddp.py
    torchrun --nproc_per_node 2 examples/torch_ddp.py
    torchrun --nproc_per_node 2 examples/torch_ddp.py --backend gloo      # to compare

What it takes of horovod_cpp is the import and the two words of init_process_group().
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import horovod_cpp.torch  # noqa: F401, brings the backend and hvd://

CLASSES, FEATURES = 10, 64


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--backend", choices=["horovod_cpp", "gloo"], default="horovod_cpp",
        help="what carries the gradients; gloo needs torchrun")
    add("--epochs", type=int, default=5, help="passes over the examples")
    add("--examples", type=int, default=2560, help="how many to make up")
    add("--batch-size", type=int, default=32, help="examples per step and rank")
    add("--hidden", type=int, default=256, help="width of the two hidden layers")
    add("--lr", type=float, default=0.05, help="for one rank; multiplied by their number")
    add("--seed", type=int, default=1, help="of parameters and order")
    options = parser.parse_args()
    for name in ("epochs", "examples", "batch_size", "hidden"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)}: must be at least 1")
    return options


def made_up(count):
    """A cloud of points for each class, equal on every rank."""
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (count,), generator=random)
    centres = torch.randn(CLASSES, FEATURES, generator=random)
    return TensorDataset(centres[labels] + torch.randn(count, FEATURES, generator=random), labels)


def train(options, model, data):
    """Prints the mean loss over all ranks after each epoch."""
    sampler = DistributedSampler(data, seed=options.seed)
    loader = DataLoader(data, batch_size=options.batch_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr * dist.get_world_size())
    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)
        total, start = torch.zeros(()), time.perf_counter()
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()  # gradients are averaged meanwhile
            optimizer.step()
            total += loss.detach()
        step = (time.perf_counter() - start) / len(loader)
        mean = total / len(loader)
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {mean.item():.6f}, {step * 1e3:.2f} ms/step", flush=True)


def main():
    options = parse()
    ours = options.backend == "horovod_cpp"
    dist.init_process_group(options.backend, init_method="hvd://" if ours else "env://")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    model = nn.Sequential(nn.Linear(FEATURES, options.hidden), nn.ReLU(),
                          nn.Linear(options.hidden, options.hidden), nn.ReLU(),
                          nn.Linear(options.hidden, CLASSES))
    train(options, DistributedDataParallel(model), made_up(options.examples))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
