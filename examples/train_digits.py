#!/usr/bin/env python3
"""Trains a small convolutional network on handwritten digits (or MNIST, or CIFAR-10) over several
ranks, with an optimizer that was wrapped in a few lines.

    hvdrun -np 2 python examples/train_digits.py
"""

import argparse
import json
import pathlib
import sys
import time

import numpy as np
from tqdm import tqdm

import horovod_cpp as hvd
from horovod_cpp import nn


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with IDX files (MNIST's names) or CIFAR-10's "
                        "data_batch_*.bin; without it the digits that scikit-learn ships")
    parser.add_argument("--epochs", type=int, default=15, help="passes over the training set")
    parser.add_argument("--batch-size", type=int, default=32, help="examples per step and rank")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate")
    parser.add_argument("--scale-lr", action="store_true",
                        help="multiply the learning rate by the ranks")
    parser.add_argument("--compression", default="none",
                        choices=["none", "fp16", "bf16", "int8", "powersgd"],
                        help="how gradients travel between ranks")
    parser.add_argument("--seed", type=int, default=1, help="of the parameters and the order")
    parser.add_argument("--checkpoint", default="digits.safetensors",
                        help="where rank 0 saves the parameters; empty = nowhere")
    parser.add_argument("--log-json", help="where rank 0 writes the loss of every step")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs {options.epochs}: must be at least 1")
    for option, path in (("--checkpoint", options.checkpoint), ("--log-json", options.log_json)):
        if path and not pathlib.Path(path).parent.is_dir():  # better now than after the training
            parser.error(f"{option} {path}: there is no folder {pathlib.Path(path).parent}")
    return options


def digits_in_memory():
    from write_digits import split_digits

    def dataset(images, labels):
        return hvd.data.ImageDataset(images[:, None], labels.astype(np.int64))

    parts = split_digits()
    return dataset(*parts["train"]), dataset(*parts["t10k"])


def load(folder):
    """(training set, test set)."""
    if folder is None:
        return digits_in_memory()
    names = {path.name.removesuffix(".gz") for path in pathlib.Path(folder).glob("*")}
    if "test_batch.bin" in names:
        return hvd.data.CIFAR10(folder), hvd.data.CIFAR10(folder, train=False)
    if "train-images-idx3-ubyte" in names:
        return hvd.data.MNIST(folder), hvd.data.MNIST(folder, train=False)
    if "t10k-images-idx3-ubyte" in names:  # a test set alone: nine tenths of it are for training
        whole = hvd.data.MNIST(folder, train=False)
        order = hvd.data.RandomSampler(len(whole), seed=0).indices()
        train = len(whole) * 9 // 10
        return hvd.data.Subset(whole, order[:train]), hvd.data.Subset(whole, order[train:])
    raise hvd.InvalidArgumentError(f"no IDX or CIFAR-10 files in '{folder}'")


def make_model(image):
    channels, height, width = image
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * (height // 4) * (width // 4), 10))


def compression(name):
    return hvd.Compression.powersgd(2) if name == "powersgd" else getattr(hvd.Compression, name)


def mean_over_ranks(values, name):
    """Sums over the values of this rank and then over the ranks."""
    sums = hvd.allreduce(np.array([np.sum(values), len(values)]), hvd.Sum, name=name)
    return sums[0] / sums[1]


@hvd.no_grad()
def test_accuracy(model, test):
    """Every rank tests its share."""
    mine = hvd.data.Subset(test, list(range(hvd.rank(), len(test), hvd.size())))
    hits = [guess == label
            for images, labels in hvd.data.DataLoader(mine, batch_size=256)
            for guess, label in zip(hvd.argmax(model(images), 1).numpy(), labels.numpy())]
    return mean_over_ranks(hits, "test_accuracy")


def parameters_equal_on_all_ranks(model):
    """Compares this rank's bits with those of rank 0, on every rank."""
    equal = all([hvd.bitwise_equal(hvd.broadcast(tensor, 0, name=f"check.{name}"), tensor)
                 for name, tensor in model.state_dict().items()])
    return hvd.allreduce(np.array([equal], np.int32), hvd.Min, name="check.equal")[0] == 1


def train_epoch(model, loader, optimizer, bar):
    """The loss of every step."""
    losses = []
    for images, labels in loader:
        optimizer.zero_grad()
        loss = hvd.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        bar.set_postfix_str(f"loss {losses[-1]:.4f}", refresh=False)
        bar.update()
    return losses


def main():
    options = parse()
    hvd.init()
    train, test = load(options.data)
    hvd.manual_seed(options.seed)
    model = make_model(train[0][0].shape)
    lr = options.lr * (hvd.size() if options.scale_lr else 1)

    optimizer = hvd.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(),
                                         compression=compression(options.compression))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    sampler = hvd.data.DistributedSampler(len(train), hvd.size(), hvd.rank(), seed=options.seed)
    loader = hvd.data.DataLoader(train, options.batch_size, sampler=sampler, drop_last=True)
    if len(loader) == 0:
        raise hvd.InvalidArgumentError(f"--batch-size {options.batch_size} is more than a rank's "
                                       f"share of {len(sampler)} examples")
    losses = []
    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)
        start = time.perf_counter()
        # None: no bar where the output is no terminal.
        with tqdm(total=len(loader), desc=f"epoch {epoch:2}", leave=False,
                  disable=None if hvd.rank() == 0 else True) as bar:
            epoch_losses = train_epoch(model, loader, optimizer, bar)
        seconds = time.perf_counter() - start
        samples = len(loader) * options.batch_size * hvd.size()
        accuracy = test_accuracy(model, test)
        mean_loss = mean_over_ranks(epoch_losses, "loss")
        if hvd.rank() == 0:
            print(f"epoch {epoch:2}: loss {mean_loss:.4f}, test accuracy {accuracy:.4f}, "
                  f"{samples / seconds:.0f} samples/s", flush=True)
        losses += epoch_losses

    losses = hvd.allreduce(np.array(losses), name="losses")
    if hvd.rank() == 0 and options.log_json:
        pathlib.Path(options.log_json).write_text(json.dumps(losses.tolist()) + "\n")
    if hvd.rank() == 0 and options.checkpoint:
        hvd.save(options.checkpoint, model.state_dict())
        print(f"saved {options.checkpoint}")
    if not parameters_equal_on_all_ranks(model):
        raise hvd.InternalError("parameters differ between ranks")
    if hvd.rank() == 0:
        print(f"parameters equal on all ranks\ntest accuracy {accuracy:.4f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    try:
        main()
    except hvd.InvalidArgumentError as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error}")
