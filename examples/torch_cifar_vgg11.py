#!/usr/bin/env python3
"""Trains PyTorch's VGG-11 with batch normalisation on CIFAR-10, by five methods that compute the
same.

They differ in how the gradients of the ranks meet between backward() and step(). The first four are
plain torch.distributed, with backend "horovod_cpp":

  gather     rank 0 gathers each gradient, averages, and scatters the result
  p2p        each rank sends each gradient to all others (isend, irecv)
  allreduce  one all_reduce a gradient
  ddp        PyTorch's DistributedDataParallel: averaged while backward() runs
  optimizer  hvd.DistributedOptimizer: averaged while backward() runs

  hvdrun -np 2 python examples/torch_cifar_vgg11.py --method ddp --data FOLDER
  torchrun --nproc_per_node 2 examples/torch_cifar_vgg11.py --method optimizer --data FOLDER
  hvdrun -np 2 python examples/torch_cifar_vgg11.py --synthetic --steps 20

Every rank has batch statistics of its own.
"""

import argparse
import csv
import os
import pathlib
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import horovod_cpp.torch as hvd

METHODS = ("gather", "p2p", "allreduce", "ddp", "optimizer")
LAYERS = (1, "pool", 2, "pool", 4, 4, "pool", 8, 8, "pool", 8, 8, "pool")  # in widths
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--method", choices=METHODS, default="ddp", help="one of the five above")
    add("--data", default=os.environ.get("HVD_DATA_DIR", ""),
        help="folder with CIFAR-10's binary files; HVD_DATA_DIR otherwise")
    add("--synthetic", action="store_true", help="use made-up images instead")
    add("--examples", type=int, default=0,
        help="training images to use; 0 = all (1280 made-up ones)")
    add("--epochs", type=int, default=8, help="passes over the training images")
    add("--steps", type=int, default=0, help="end after this many steps; 0 = no limit")
    add("--batch-size", type=int, default=64, help="images per step, over all ranks")
    add("--width", type=int, default=64, help="channels of the first layer; VGG-11 has 64")
    add("--lr", type=float, default=0.01, help="highest learning rate, of one cycle")
    add("--seed", type=int, default=1, help="of parameters, order and augmentation")
    add("--history", default="torch_cifar_vgg11.csv",
        help="where rank 0 writes the losses; empty = nowhere")
    add("--plot", default="torch_cifar_vgg11.png",
        help="where rank 0 draws the curves (needs matplotlib); empty = nowhere")
    options = parser.parse_args()
    for name, least in (("epochs", 1), ("steps", 0), ("batch_size", 1), ("examples", 0),
                        ("width", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)}: "
                         f"must be at least {least}")
    for name in ("history", "plot"):  # better now than after the training
        path = getattr(options, name)
        if path and not pathlib.Path(path).parent.is_dir():
            parser.error(f"--{name} {path}: there is no folder {pathlib.Path(path).parent}")
    return options


def read_cifar(folder, names):
    """(images, labels) of CIFAR-10's binary files: records of a label and 3 x 32 x 32 pixels."""
    for below in ("", "cifar10", "cifar-10-batches-bin"):
        files = [pathlib.Path(folder) / below / f"{name}.bin" for name in names]
        files = [file for file in files if folder and file.exists()]
        if files:
            records = np.concatenate([np.fromfile(file, np.uint8) for file in files])
            records = torch.from_numpy(records).view(-1, 1 + 3 * 32 * 32)
            return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()
    raise hvd.InvalidArgumentError(
        f"no CIFAR-10 in '{folder}': get the binary version, cifar-10-binary.tar.gz, from "
        "www.cs.toronto.edu/~kriz/cifar.html, unpack it and give the folder as --data or in "
        "HVD_DATA_DIR; or try --synthetic")


def made_up(count, seed):
    """Images of ten classes: a colour and a stripe for each, and noise."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=random)
    images = torch.randint(96, (count, 3, 32, 32), generator=random)
    for image, label in zip(images, labels.tolist()):
        image[label % 3] += 80
        image[:, :, 3 * label:3 * label + 3] += 79
    return images.to(torch.uint8), labels


def load(options):
    """(training set, test set), each a pair (images, labels)."""
    if options.synthetic:
        count = options.examples or 1280
        return made_up(count, options.seed), made_up(count // 2, options.seed + 1)
    images, labels = read_cifar(options.data, [f"data_batch_{number}" for number in range(1, 6)])
    count = options.examples or len(images)
    return (images[:count], labels[:count]), read_cifar(options.data, ["test_batch"])


def normalised(images):
    shape = (1, 3, 1, 1)
    return (images / 255 - torch.tensor(MEAN).view(shape)) / torch.tensor(DEVIATION).view(shape)


def augmented(images, random):
    """Cropped and flipped at random."""
    padded = nn.functional.pad(images, (4, 4, 4, 4))
    rows, columns, flips = torch.randint(9, (3, len(images)), generator=random).tolist()
    crops = [image[:, row:row + 32, column:column + 32]
             for image, row, column in zip(padded, rows, columns)]
    return torch.stack([crop.flip(2) if flip > 4 else crop for crop, flip in zip(crops, flips)])


def make_model(width):
    layers, channels = [], 3
    for layer in LAYERS:
        if layer == "pool":
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, layer * width, 3, padding=1),
                   nn.BatchNorm2d(layer * width), nn.ReLU()]
        channels = layer * width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, 10))


def by_gather(gradient):
    """Rank 0 gathers the gradients of all ranks, averages them and scatters the result."""
    size, everyone, averages = dist.get_world_size(), None, None
    if dist.get_rank() == 0:
        everyone = [torch.empty_like(gradient) for _ in range(size)]
    dist.gather(gradient, everyone)
    if dist.get_rank() == 0:
        averages = [torch.stack(everyone).mean(0)] * size
    dist.scatter(gradient, averages)


def by_exchange(gradient):
    """Each rank sends its gradient to all others and adds up what it gets, in rank order."""
    rank, size = dist.get_rank(), dist.get_world_size()
    gradients = [gradient if other == rank else torch.empty_like(gradient) for other in range(size)]
    others = [other for other in range(size) if other != rank]
    transfers = [dist.irecv(gradients[other], other) for other in others]
    transfers += [dist.isend(gradient, other) for other in others]
    for transfer in transfers:
        transfer.wait()
    gradient.copy_(torch.stack(gradients).mean(0))


def by_allreduce(gradient):
    """One all_reduce a gradient."""
    dist.all_reduce(gradient)
    gradient /= dist.get_world_size()


def make_training(method, module, lr):
    """(what is called, the optimizer, what averages a gradient after backward(), if anything)."""
    optimizer = torch.optim.SGD(module.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    if method == "ddp":
        return DistributedDataParallel(module), optimizer, None
    hvd.broadcast_parameters(module.state_dict())
    if method == "optimizer":
        return module, hvd.DistributedOptimizer(optimizer, module.named_parameters()), None
    by_hand = {"gather": by_gather, "p2p": by_exchange, "allreduce": by_allreduce}
    return module, optimizer, by_hand[method]


def progress(steps):
    """A bar on rank 0, where the output is a terminal and tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return range(steps)
    return tqdm(range(steps), leave=False, disable=None if dist.get_rank() == 0 else True)


def part_of(batch):
    """This rank's part: all ranks together see each batch once, in equal parts."""
    return batch.tensor_split(dist.get_world_size())[dist.get_rank()]


def train(options, module, data):
    """Returns the history: a dict per step with epoch, step, lr and the ranks' mean loss."""
    images, labels = data
    model, optimizer, average = make_training(options.method, module, options.lr)
    per_epoch = len(images) // options.batch_size
    total = min(options.epochs * per_epoch, options.steps or sys.maxsize)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, max(total, 2))
    order = torch.Generator().manual_seed(options.seed)  # equal on every rank
    random = torch.Generator().manual_seed(1000 * options.seed + dist.get_rank())
    history = []
    for step in progress(total):
        if step % per_epoch == 0:
            batches = torch.randperm(len(images), generator=order).split(options.batch_size)
        batch = part_of(batches[step % per_epoch])
        optimizer.zero_grad()
        outputs = model(augmented(normalised(images[batch]), random))
        loss = nn.functional.cross_entropy(outputs, labels[batch])
        loss.backward()
        if average is not None:
            for parameter in module.parameters():
                average(parameter.grad)
        history.append({"epoch": step // per_epoch + 1, "step": step + 1,
                        "lr": optimizer.param_groups[0]["lr"], "loss": loss.item()})
        optimizer.step()
        schedule.step()
    losses = torch.tensor([row["loss"] for row in history], dtype=torch.float64)
    dist.all_reduce(losses, dist.ReduceOp.AVG)
    return [{**row, "loss": loss} for row, loss in zip(history, losses.tolist())]


@torch.no_grad()
def test_accuracy(module, data):
    """Every rank tests its share, with statistics of its own."""
    images, labels = (part_of(part) for part in data)
    module.eval()
    hits = sum((module(normalised(some)).argmax(1) == right).sum().item()
               for some, right in zip(images.split(64), labels.split(64)))
    counts = torch.tensor([hits, len(images)])
    dist.all_reduce(counts)
    return counts[0].item() / counts[1].item()


def save(options, history):
    if options.history:
        with open(options.history, "w", newline="") as out:
            writer = csv.DictWriter(out, history[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(history)
        print(f"wrote {options.history}")
    if options.plot:
        import matplotlib

        matplotlib.use("Agg")  # a file, no window
        from horovod_cpp import plot

        panels = plot.history(history, metrics=["loss", "lr"], x="step",
                              title=f"VGG-11, {options.method}, {dist.get_world_size()} ranks")
        panels[0].figure.savefig(options.plot)
        print(f"drew {options.plot}")


def main():
    options = parse()
    dist.init_process_group("horovod_cpp", init_method="hvd://")
    if options.batch_size % dist.get_world_size() != 0:
        raise hvd.InvalidArgumentError(f"--batch-size {options.batch_size} does not divide by "
                                       f"{dist.get_world_size()} ranks")
    train_set, test_set = load(options)
    if len(train_set[0]) < options.batch_size:
        raise hvd.InvalidArgumentError(f"--batch-size {options.batch_size} is more than the "
                                       f"{len(train_set[0])} training images")
    torch.manual_seed(options.seed)
    module = make_model(options.width)
    history = train(options, module, train_set)
    accuracy = test_accuracy(module, test_set)
    if dist.get_rank() == 0:
        print(f"{options.method}: loss {history[-1]['loss']:.4f} after {len(history)} steps, "
              f"test accuracy {accuracy:.4f}", flush=True)
        save(options, history)
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except hvd.InvalidArgumentError as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error}")
