#!/usr/bin/env python3
"""The peer of model_bench: the same models in PyTorch, the same questions and answers.

    model_torch.py       answers lines "MODEL[/foreach][/channels_last][/bf16] STEPS"
    model_torch.py --ddp RANK PORT    as one of two that train with DistributedDataParallel over gloo
    model_torch.py --version          its version, and whether it brought a BLAS (Intel's MKL) along
"""

import json
import resource
import sys
import time

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


def training(name, *ways):
    make, shape = MODELS[name]
    model, inputs = make(), torch.randn(shape)
    targets = torch.randint(0, 10, (shape[0],))
    if "channels_last" in ways:
        model = model.to(memory_format=torch.channels_last)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    if torch.distributed.is_initialized():
        model = nn.parallel.DistributedDataParallel(model,
                                                    gradient_as_bucket_view="foreach" in ways)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9,
                                foreach="foreach" in ways)

    drop = {"set_to_none": True} if "foreach" in ways else {}  # else as this version does it

    def step():
        optimizer.zero_grad(**drop)
        with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in ways):
            loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main():
    if sys.argv[1:] == ["--version"]:
        print(json.dumps({"version": torch.__version__, "mkl": torch.backends.mkl.is_available()}))
        return
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--ddp"]:
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{sys.argv[3]}",
                                             rank=int(sys.argv[2]), world_size=2)
    running = {}
    for line in sys.stdin:
        name, steps = line.split()
        step = running.get(name) or running.setdefault(name, training(*name.split("/")))
        times, walls, loss = [], [], None
        for _ in range(int(steps)):
            begin, wall_begin = time.process_time(), time.perf_counter()
            loss = step()
            walls.append((time.perf_counter() - wall_begin) * 1e3)
            times.append((time.process_time() - begin) * 1e3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"ms": times, "wall": walls, "loss": loss, "peak": peak}), flush=True)


if __name__ == "__main__":
    main()
