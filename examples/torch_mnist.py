#!/usr/bin/env python3
"""Trains PyTorch's usual small network for MNIST over several ranks: the script that Horovod's users
know, with another import.

    hvdrun -np 2 python examples/torch_mnist.py
"""

import argparse
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import horovod_cpp.torch as hvd  # import horovod.torch as hvd


class Net(nn.Module):
    def __init__(self, extent, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 3, padding=1)
        self.conv2 = nn.Conv2d(10, 20, 3, padding=1)
        self.conv2_drop = nn.Dropout2d(0.1)
        self.fc1 = nn.Linear(20 * (extent // 4) ** 2, 50)
        self.fc2 = nn.Linear(50, classes)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        return F.log_softmax(self.fc2(x), dim=1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with MNIST's IDX files, or with their test set alone; "
                        "without it images that are made up")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32, help="examples per step and rank")
    parser.add_argument("--lr", type=float, default=0.05, help="for one rank")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as float16")
    parser.add_argument("--use-adasum", action="store_true")
    parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
    return parser.parse_args()


def made_up(count=1280):
    """Images of 10 classes: a bright square at one of ten places, and noise."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, count)
    images = random.random((count, 1, 8, 8), dtype=np.float32) * 0.5
    for image, label in zip(images, labels):
        row, column = divmod(int(label), 4)
        image[0, 2 * row:2 * row + 2, 2 * column:2 * column + 2] += 1
    return TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))


def read(folder, part):
    """The images and labels of one pair of IDX files."""
    images = np.fromfile(folder / f"{part}-images-idx3-ubyte", dtype=">u1")
    labels = np.fromfile(folder / f"{part}-labels-idx1-ubyte", dtype=">u1")[8:]
    extent = int.from_bytes(images[8:12].tobytes(), "big")
    images = images[16:].reshape(len(labels), 1, extent, extent).astype(np.float32)
    return TensorDataset(torch.from_numpy(images / images.max()),
                         torch.from_numpy(labels.astype(np.int64)))


def load(folder):
    """(training set, test set); without a training set nine tenths of the test set."""
    if folder and (pathlib.Path(folder) / "train-images-idx3-ubyte").exists():
        return read(pathlib.Path(folder), "train"), read(pathlib.Path(folder), "t10k")
    whole = read(pathlib.Path(folder), "t10k") if folder else made_up()
    cut = len(whole) * 9 // 10
    return Subset(whole, range(cut)), Subset(whole, range(cut, len(whole)))


def train(epoch, model, loader, sampler, optimizer):
    model.train()
    sampler.set_epoch(epoch)  # another order
    for batch, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch % 20 == 0 and hvd.rank() == 0:
            print(f"epoch {epoch}: {batch * len(data)}/{len(sampler)}, loss {loss.item():.4f}",
                  flush=True)


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


@torch.no_grad()
def test(model, loader, sampler):
    model.eval()
    loss = accuracy = 0.0
    for data, target in loader:
        output = model(data)
        loss += F.nll_loss(output, target, reduction="sum").item()
        accuracy += (output.argmax(1) == target).float().sum().item()
    loss = metric_average(loss / len(sampler), "avg_loss")
    accuracy = metric_average(accuracy / len(sampler), "avg_accuracy")
    if hvd.rank() == 0:
        print(f"test set: average loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)


def main():
    args = parse()
    hvd.init()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    train_set, test_set = load(args.data)
    train_sampler = DistributedSampler(train_set, num_replicas=hvd.size(), rank=hvd.rank())
    test_sampler = DistributedSampler(test_set, num_replicas=hvd.size(), rank=hvd.rank())
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=train_sampler)
    test_loader = DataLoader(test_set, batch_size=256, sampler=test_sampler)

    model = Net(train_set[0][0].shape[-1])
    scale = 1 if args.use_adasum else hvd.size()  # a batch that many times as large
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * scale, momentum=args.momentum)

    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
        gradient_predivide_factor=args.gradient_predivide_factor)

    for epoch in range(1, args.epochs + 1):
        train(epoch, model, train_loader, train_sampler, optimizer)
        test(model, test_loader, test_sampler)


if __name__ == "__main__":
    main()
