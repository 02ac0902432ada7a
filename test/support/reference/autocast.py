#!/usr/bin/env python3
"""Writes autocast.safetensors: what PyTorch computes under torch.autocast in bfloat16.

    autocast.py [--folder FOLDER] [--seed N]        needs torch (written with 1.13) and safetensors

A case holds "<case>/input", "<case>/targets", parameters by their PyTorch names, "<case>/loss" and
the gradients as "<case>/grad_<name>", and "<case>/full/..." the loss and gradients in float32: how
far the two lie apart is what rounding to bfloat16 costs. Parameters and gradients are float32.
"""

import torch
import torch.nn.functional as F
from common import destination
from safetensors.torch import save_file
from torch import nn

path, seed = destination(__file__)
torch.manual_seed(11 + seed)
out = {}


def keep(name, tensor):
    out[name] = tensor.detach().clone().contiguous()


def record(case, model, inputs, targets, loss_of):
    keep(f"{case}/input", inputs)
    keep(f"{case}/targets", targets)
    for name, parameter in model.named_parameters():
        keep(f"{case}/{name}", parameter)
    for prefix, enabled in (("", True), ("full/", False)):
        model.zero_grad(set_to_none=True)
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = loss_of(model(inputs), targets)
        loss.float().backward()
        keep(f"{case}/{prefix}loss", loss.float())
        for name, parameter in model.named_parameters():
            keep(f"{case}/{prefix}grad_{name}", parameter.grad)


class Float32Sums(nn.Conv2d):
    """A convolution that rounds operands and result to bfloat16 and adds up in float32, as oneDNN's."""

    def forward(self, x):
        if not torch.is_autocast_cpu_enabled():
            return super().forward(x)
        with torch.autocast(device_type="cpu", enabled=False):
            rounded = [None if each is None else each.bfloat16().float()
                       for each in (x, self.weight, self.bias)]
            return self._conv_forward(*rounded).bfloat16()


# PyTorch calls oneDNN on processors with AVX-512. On others it adds up in bfloat16, and its gradients
# are up to 3e-2 away from those in float32 instead of 1e-2.
Conv2d = nn.Conv2d if "capability usage: AVX512" in torch.__config__.show() else Float32Sums


def conv_net():
    return nn.Sequential(
        Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2),
        Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.Tanh(),
        nn.Flatten(), nn.Linear(64, 5))


def mlp():
    return nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 6))


record("conv_net", conv_net(), torch.randn(16, 3, 8, 8), torch.randint(0, 5, (16,)),
       F.cross_entropy)
record("mlp", mlp(), torch.randn(10, 12), torch.randn(10, 6), F.mse_loss)

save_file(out, path)
