#!/usr/bin/env python3
"""The peer of model_bench: the same models in PyTorch, the same questions and answers; and over two
ranks, by each way that there is.

    model_torch.py       answers lines "MODEL[/foreach][/channels_last][/bf16] STEPS"
    model_torch.py --ddp        as a rank that trains with DistributedDataParallel over gloo
    model_torch.py --hvd        as a rank that trains with horovod_cpp.torch
    model_torch.py --horovod    the same with Horovod's own; rank 0 reads and answers for all
    model_torch.py --version    versions, and whether PyTorch brought a BLAS (Intel's MKL) along

Ranks answer "MODEL/.../plain STEPS" without the others, and "allreduce/BYTES TIMES".
"""

import json
import resource
import sys

import questions
import torch
import torch.distributed
import torch.nn.functional as F
from torch import nn


def conv_norm_relu(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True)]


def vgg11():
    layers, inputs = [], 3
    for outputs in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        layers += conv_norm_relu(inputs, outputs) if outputs else [nn.MaxPool2d(2)]
        inputs = outputs or inputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
                                   nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
                                    nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.shortcut(x), inplace=True)


def resnet18():
    layers, inputs = conv_norm_relu(3, 64), 64
    for outputs in (64, 128, 256, 512):
        layers += [Residual(inputs, outputs, 1 if inputs == outputs else 2),
                   Residual(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def mlp():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(inplace=True), nn.Linear(256, 256),
                         nn.ReLU(inplace=True), nn.Linear(256, 10))


MODELS = {"vgg11": (vgg11, (32, 3, 32, 32)), "resnet18": (resnet18, (32, 3, 32, 32)),
          "mlp": (mlp, (64, 784))}


def horovod_version():
    try:
        import horovod.torch

        return horovod.__version__
    except ImportError:
        return None


class Alone(questions.Alone):
    """What further ways to train change."""

    def module(self, module, ways):
        return module

    def optimizer(self, optimizer, module):
        return optimizer


class Ddp(Alone):
    def __init__(self):
        torch.distributed.init_process_group("gloo")

    def module(self, module, ways):
        return nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view="foreach" in ways)

    def allreduce(self, tensor):
        torch.distributed.all_reduce(tensor)

    def barrier(self):
        torch.distributed.barrier()


class Hvd(Alone):
    def __init__(self):
        import horovod_cpp.torch as hvd

        self.hvd = hvd
        hvd.init()

    def optimizer(self, optimizer, module):
        self.hvd.broadcast_parameters(module.state_dict(), root_rank=0)
        return self.hvd.DistributedOptimizer(optimizer, named_parameters=module.named_parameters())

    def allreduce(self, tensor):
        self.hvd.allreduce_(tensor, op=self.hvd.Sum, name="allreduce")

    def barrier(self):
        self.hvd.barrier()


class Horovod(Hvd):
    """Its launchers give standard input to rank 0 alone."""

    def __init__(self):
        import horovod.torch as hvd

        self.hvd = hvd
        hvd.init()

    def questions(self):
        while True:
            line = self.hvd.broadcast_object(
                sys.stdin.readline() if self.hvd.rank() == 0 else None, root_rank=0)
            if not line:
                return
            yield line

    def answer(self, values):
        every = self.hvd.allgather_object(values["wall"])
        if self.hvd.rank() == 0:
            super().answer({**values, "wall": [max(walls) for walls in zip(*every)]})


WORLDS = {"--ddp": Ddp, "--hvd": Hvd, "--horovod": Horovod}


def training(world, name, *ways):
    make, shape = MODELS[name]
    model, inputs = make(), torch.randn(shape)
    targets = torch.randint(0, 10, (shape[0],))
    if "channels_last" in ways:
        model = model.to(memory_format=torch.channels_last)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    world = Alone() if "plain" in ways else world
    model = world.module(model, ways)
    optimizer = world.optimizer(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9,
                                                foreach="foreach" in ways), model)

    drop = {"set_to_none": True} if "foreach" in ways else {}  # else as this version does it

    def step():
        optimizer.zero_grad(**drop)
        with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in ways):
            loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def reduction(world, size):
    """A blocking call in place; what is timed begins when all ranks are there."""
    tensor = torch.empty(int(size) // 4)

    def begin():
        tensor.fill_(1.0)
        world.barrier()

    def step():
        world.allreduce(tensor)
        return tensor

    return step, begin


def measured(world, name):
    kind, *ways = name.split("/")
    step, *begin = reduction(world, *ways) if kind == "allreduce" else (training(world, kind, *ways),)

    def measure(times):
        cpu, walls, last = questions.timed(step, times, *begin)
        return {"ms": cpu, "wall": walls, "loss": float(last if isinstance(last, float) else last[0]),
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}

    return measure


def main():
    if sys.argv[1:] == ["--version"]:
        print(json.dumps({"version": torch.__version__, "horovod": horovod_version(),
                          "mkl": torch.backends.mkl.is_available()}))
        return
    torch.set_num_threads(1)
    world = WORLDS[sys.argv[1]]() if sys.argv[1:] else Alone()
    questions.answer_all(world, lambda name: measured(world, name))


if __name__ == "__main__":
    main()
