#!/usr/bin/env python3
"""Trains VGG-11 with batch normalisation on CIFAR-10, by six methods that compute the same.

They differ in how the gradients of the ranks meet between backward() and step(), from what one
would write with send and receive to what one should use:

  gather     rank 0 gathers each gradient, averages, and scatters the result
  p2p        each rank sends each gradient to all others (isend, irecv)
  allreduce  one allreduce a gradient
  ddp        DistributedDataParallel: averaged while backward() runs, any optimizer
  optimizer  DistributedOptimizer: averaged while backward() runs, any model
  dp         DataParallel: one process, a thread for each of --replicas

  hvdrun -np 4 python examples/cifar_vgg11.py --method ddp --data FOLDER
  python examples/cifar_vgg11.py --method dp --replicas 4 --data FOLDER
  hvdrun -np 2 python examples/cifar_vgg11.py --synthetic --steps 20

Every rank has batch statistics of its own (unless --sync-bn), so the accuracy that is printed is
the mean of what the ranks reach, each on its share of the test images.
"""

import argparse
import csv
import json
import os
import pathlib
import sys
import time

import numpy as np
from cifar_methods import METHODS, make_training
from tqdm import tqdm

import horovod_cpp as hvd
from horovod_cpp.data import transforms

MEAN, DEVIATION = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]
COLUMNS = ("epoch", "step", "lr", "loss", "test_accuracy")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--method", choices=METHODS, default="optimizer", help="one of the six above")
    add("--data", default=os.environ.get("HVD_DATA_DIR", ""),
        help="folder with CIFAR-10's binary files; HVD_DATA_DIR otherwise")
    add("--synthetic", action="store_true", help="use made-up images instead")
    add("--examples", type=int, default=0,
        help="training images to use; 0 = all (1280 made-up ones)")
    add("--replicas", type=int, default=2, help="threads of method dp")
    add("--epochs", type=int, default=8, help="passes over the training images")
    add("--steps", type=int, default=0, help="end after this many steps; 0 = no limit")
    add("--batch-size", type=int, default=64, help="images per step, over all ranks or replicas")
    add("--lr", type=float,
        help="(highest) learning rate; default 0.1, with --synthetic 0.01 for its few steps")
    add("--schedule", choices=["one-cycle", "constant"], default="one-cycle",
        help="of the learning rate: up to --lr and down again over the whole run, or constant")
    add("--sync-bn", action="store_true",
        help="SyncBatchNorm: normalise over the batches of all ranks")
    add("--workers", type=int, default=1, help="threads that load images")
    add("--seed", type=int, default=1, help="of parameters, order and augmentation")
    add("--history", default="cifar_vgg11.csv",
        help="where rank 0 writes the losses (.csv or .json); empty = nowhere")
    add("--plot", default="cifar_vgg11.png",
        help="where rank 0 draws the curves (needs matplotlib); empty = nowhere")
    add("--checkpoint", default="",
        help="where rank 0 saves the model, a .safetensors file; empty = nowhere")
    add("--save-per-rank", action="store_true",
        help="every rank saves its model, as <checkpoint>.rank<r>: see compare_models.py")
    options = parser.parse_args()
    if options.lr is None:
        options.lr = 0.01 if options.synthetic else 0.1
    for name, least in (("epochs", 1), ("steps", 0), ("batch_size", 1), ("replicas", 1),
                        ("examples", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)}: "
                         f"must be at least {least}")
    if options.method == "dp" and options.sync_bn:
        parser.error("--sync-bn is for methods of several ranks, dp has threads of one")
    if options.save_per_rank and not options.checkpoint:
        parser.error("--save-per-rank needs --checkpoint")
    if options.history and pathlib.Path(options.history).suffix not in (".csv", ".json"):
        parser.error(f"--history {options.history}: must end in .csv or .json")
    for name in ("history", "plot", "checkpoint"):  # better now than after the training
        path = getattr(options, name)
        if path and not pathlib.Path(path).parent.is_dir():
            parser.error(f"--{name} {path}: there is no folder {pathlib.Path(path).parent}")
    return options


def find_cifar(folder):
    """The files in ``folder`` or in a sub-folder of one of the usual names."""
    for below in ("", "cifar10", "cifar-10-batches-bin"):
        at = pathlib.Path(folder) / below
        if folder and (at / "test_batch.bin").exists():
            return str(at)
    raise hvd.InvalidArgumentError(
        f"no CIFAR-10 in '{folder}': get the binary version, cifar-10-binary.tar.gz, from "
        "www.cs.toronto.edu/~kriz/cifar.html, unpack it and give the folder with "
        "data_batch_1.bin ... data_batch_5.bin and test_batch.bin as --data or in HVD_DATA_DIR; "
        "or try --synthetic")


def made_up(count, seed):
    """Images of ten classes: a colour and a stripe for each, and noise."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    images = random.integers(0, 96, (count, 3, 32, 32), np.uint8)
    for image, label in zip(images, labels):
        image[label % 3] += 80
        image[:, :, 3 * label:3 * label + 3] += 79
    return hvd.data.ImageDataset(images, labels, dtype="uint8")


def load(options):
    """(training set, test set); images are cropped and flipped at random for training."""
    if options.synthetic:
        count = options.examples or 1280
        train, test = made_up(count, options.seed), made_up(count // 2, options.seed + 1)
    else:
        folder = find_cifar(options.data)
        train, test = (hvd.data.CIFAR10(folder, train=part, dtype="uint8")
                       for part in (True, False))
        if options.examples:
            train = hvd.data.Subset(train, list(range(min(options.examples, len(train)))))
    as_input = [transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]
    augment = [transforms.RandomCrop(32, 4), transforms.RandomHorizontalFlip()]
    return (hvd.data.TransformDataset(train, transforms.Compose(augment + as_input)),
            hvd.data.TransformDataset(test, transforms.Compose(as_input)))


class PartOfBatches:
    """This rank's rows of every batch: all ranks together see each batch once, in equal parts."""

    def __init__(self, sampler, batch_size):
        self.sampler, self.batch_size = sampler, batch_size

    def __len__(self):
        return len(self.sampler) // self.batch_size

    def __iter__(self):
        part = self.batch_size // hvd.size()
        order = self.sampler.indices()
        for batch in range(len(self)):
            first = batch * self.batch_size + hvd.rank() * part
            yield order[first:first + part]


@hvd.no_grad()
def test_accuracy(model, test):
    """Every rank tests its share."""
    mine = hvd.data.Subset(test, list(range(hvd.rank(), len(test), hvd.size())))
    model.eval()
    hits = np.zeros(2)
    for images, labels in hvd.data.DataLoader(mine, batch_size=64):
        guesses = hvd.argmax(model(images), 1).numpy()
        hits += (guesses == labels.numpy()).sum(), len(guesses)
    model.train()
    hits = hvd.allreduce(hits, hvd.Sum, name="test_accuracy")
    return hits[0] / hits[1]


class Trainer:
    """Trains, and has the history: a list of dicts with the keys of COLUMNS."""

    def __init__(self, options, train, test):
        parts = options.replicas if options.method == "dp" else hvd.size()
        if options.batch_size % parts != 0:
            raise hvd.InvalidArgumentError(
                f"--batch-size {options.batch_size} does not divide by {parts} ranks or replicas")
        self.options, self.test = options, test
        hvd.manual_seed(options.seed)
        self.module = hvd.models.vgg11_bn(num_classes=10, cifar_head=True)
        if options.sync_bn:
            hvd.SyncBatchNorm.convert_sync_batchnorm(self.module)
        self.model, self.optimizer, self.average = make_training(
            options.method, self.module, options.lr, options.replicas)
        self.sampler = hvd.data.RandomSampler(len(train), seed=options.seed)
        self.batches = PartOfBatches(self.sampler, options.batch_size)
        if len(self.batches) == 0:
            raise hvd.InvalidArgumentError(f"--batch-size {options.batch_size} is more than the "
                                           f"{len(train)} training images")
        self.loader = hvd.data.DataLoader(train, batch_sampler=self.batches, seed=options.seed,
                                          num_workers=options.workers)
        self.total = options.epochs * len(self.batches)
        if options.steps:
            self.total = min(self.total, options.steps)
        self.schedule = None
        if options.schedule == "one-cycle":
            self.schedule = hvd.optim.lr_scheduler.OneCycleLR(
                self.optimizer, max_lr=options.lr, total_steps=max(self.total, 2))
        self.history = []

    def run(self):
        epoch = 0
        while len(self.history) < self.total:
            epoch += 1
            self.sampler.set_epoch(epoch)
            before, start = len(self.history), time.perf_counter()
            self.train_epoch(epoch)
            seconds = time.perf_counter() - start
            rows = self.history[before:]
            losses = hvd.allreduce(np.array([row["loss"] for row in rows]), name="losses")
            for row, loss in zip(rows, losses.tolist()):
                row["loss"] = loss
            rows[-1]["test_accuracy"] = accuracy = test_accuracy(self.module, self.test)
            if hvd.rank() == 0:
                speed = len(rows) * self.options.batch_size / seconds
                print(f"epoch {epoch:2}: loss {losses.mean():.4f}, test accuracy {accuracy:.4f}, "
                      f"{speed:.0f} samples/s", flush=True)

    def train_epoch(self, epoch):
        steps = min(len(self.batches), self.total - len(self.history))
        # None: no bar where the output is no terminal.
        with tqdm(total=steps, desc=f"epoch {epoch:2}", leave=False,
                  disable=None if hvd.rank() == 0 else True) as bar:
            for images, labels in self.loader:
                self.optimizer.zero_grad()
                loss = hvd.cross_entropy(self.model(images), labels)
                loss.backward()
                self.average()
                self.optimizer.step()
                self.history.append({"epoch": epoch, "step": len(self.history) + 1,
                                     "lr": self.optimizer.param_groups[0]["lr"],
                                     "loss": loss.item(), "test_accuracy": None})
                if self.schedule:
                    self.schedule.step()
                bar.set_postfix(loss=f"{loss.item():.4f}")
                bar.update()
                if len(self.history) == self.total:
                    break


def write_history(path, history):
    with open(path, "w", newline="") as out:
        if path.endswith(".json"):
            json.dump(history, out, indent=0)
            return
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)


def plot(path, history, title):
    """Loss, accuracy and learning rate over the steps, each in a panel of its own."""
    import matplotlib

    matplotlib.use("Agg")  # a file, no window
    panels = hvd.plot.history(history, metrics=["loss", "test_accuracy", "lr"], x="step", title=title)
    panels[1].set_ylim(0, 1)
    panels[2].set_ylabel("learning rate")
    panels[0].figure.savefig(path)


def save(options, trainer):
    if hvd.rank() == 0 and options.history:
        write_history(options.history, trainer.history)
        print(f"wrote {options.history}")
    if hvd.rank() == 0 and options.plot:
        plot(options.plot, trainer.history, f"VGG-11, {options.method}, {hvd.size()} ranks")
        print(f"drew {options.plot}")
    path = pathlib.Path(options.checkpoint)
    if options.save_per_rank:
        path = path.with_name(f"{path.stem}.rank{hvd.rank()}{path.suffix}")
    if options.checkpoint and (options.save_per_rank or hvd.rank() == 0):
        hvd.save(str(path), trainer.module.state_dict())
        print(f"saved {path}")


def main():
    options = parse()
    hvd.init()
    if options.method == "dp" and hvd.size() > 1:
        raise hvd.InvalidArgumentError(f"--method dp runs in one process with --replicas threads, "
                                       f"not on {hvd.size()} ranks")
    train, test = load(options)
    trainer = Trainer(options, train, test)
    if hvd.rank() == 0:
        parts = f"{options.replicas} replicas" if options.method == "dp" else f"{hvd.size()} ranks"
        print(f"{options.method}: {len(train)} images, batches of {options.batch_size} on {parts}")
    trainer.run()
    save(options, trainer)
    hvd.shutdown()


if __name__ == "__main__":
    try:
        main()
    except hvd.InvalidArgumentError as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error}")
