#!/usr/bin/env python3
"""Writes models.safetensors: what PyTorch computes with the models of the zoo.

    models.py [--folder FOLDER] [--seed N]     needs torch (written with 1.13) and safetensors

Weights are not stored: fill() makes them from their place in the state dict, in the same way as
test/horovod_cpp/nn/models/model_reference.h, and from metadata "seed". Metadata "<model>/state" has a
line "name extents" for each entry of the state dict, in order. A case holds "<case>/output" (and "<case>/aux" of the
auxiliary classifiers) in evaluation for the input image(), and "<case>/grad_norms": the
lengths of the parameters' gradients of sum(outputs * cos(1.7 i + 0.3)). Computed in float64.
"""

import math

import numpy as np
import torch
from common import destination
from model_twins import MODELS


def pattern(seed, count):
    """Numbers in [-0.5, 0.5) with 24 bits: a hash (the finaliser of MurmurHash3) of the index."""
    h = np.arange(count, dtype=np.uint32) + np.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return (h >> np.uint32(8)).astype(np.float64) * 2.0**-24 - 0.5


def values(place, name, shape, seed):
    """What fill() puts into entry number `place` of a state dict: float32, or int64."""
    kind = name.rsplit(".", 1)[-1]
    if kind == "num_batches_tracked":
        return np.array(place, np.int64)
    u = pattern(place + 1000 * seed, math.prod(shape)).reshape(shape)
    if len(shape) > 1:
        u *= math.sqrt(24.0 / math.prod(shape[1:]))
    elif kind == "weight":
        u = 1.0 + 0.4 * u
    elif kind == "running_var":
        u = 1.0 + u
    else:
        u *= 0.2
    return u.astype(np.float32)


def fill(model, seed):
    with torch.no_grad():
        for place, (name, tensor) in enumerate(model.state_dict().items()):
            tensor.copy_(torch.from_numpy(values(place, name, tuple(tensor.shape), seed)))
    return model


# case: model, options, extent of the square input, what else is recorded
CASES = {
    "alexnet": ("alexnet", {}, 63, ()),
    "vgg11": ("vgg11", {}, 32, ()),
    **{f"{name}_cifar": (name, {"cifar_head": True}, 32, ("grads",) if name == "vgg11_bn" else ())
       for name in MODELS if name.startswith("vgg")},
    "resnet18": ("resnet18", {}, 48, ()),
    "resnet18_cifar": ("resnet18", {"cifar_stem": True}, 32, ("grads",)),
    "resnet34": ("resnet34", {}, 48, ()),
    "resnet50": ("resnet50", {}, 48, ("grads",)),
    "googlenet": ("googlenet", {}, 64, ("grads", "aux")),
    "inception_v3": ("inception_v3", {}, 75, ()),
    "inception_v3_aux": ("inception_v3", {}, 299, ("grads", "aux")),
}


def state_text(model):
    lines = [f"{name} {','.join(map(str, t.shape))}" for name, t in model.state_dict().items()]
    return "\n".join(lines)


def image(extent, seed):
    numbers = pattern(999 + 1000 * seed, 3 * extent * extent)
    return torch.from_numpy(2.0 * numbers).reshape(1, 3, extent, extent)


def record(out, case, seed):
    name, options, extent, more = CASES[case]
    torch.set_default_dtype(torch.float32)
    model = fill(MODELS[name](num_classes=10, **options), seed).double().eval()
    model.training = "aux" in more  # the model alone: its layers evaluate
    torch.set_default_dtype(torch.float64)
    outputs = model(image(extent, seed))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    out[f"{case}/output"] = outputs[0]
    if "aux" in more:
        out[f"{case}/aux"] = torch.cat(outputs[1:], 1)
    if "grads" in more:
        weights = [torch.cos(1.7 * torch.arange(10) + 0.3) for _ in outputs]
        sum((o * w).sum() for o, w in zip(outputs, weights)).backward()
        out[f"{case}/grad_norms"] = torch.stack([p.grad.norm() for p in model.parameters()])


def main():
    from safetensors.torch import save_file

    path, seed = destination(__file__)
    states = {name: make() for name, make in MODELS.items()}
    states["vgg11_bn_cifar"] = MODELS["vgg11_bn"](num_classes=10, cifar_head=True)
    states["resnet18_cifar"] = MODELS["resnet18"](cifar_stem=True)
    for name in ("googlenet", "inception_v3"):
        states[f"{name}_without_aux"] = MODELS[name](aux_logits=False)
    metadata = {f"{name}/state": state_text(model) for name, model in states.items()}
    metadata["seed"] = str(seed)
    del states
    out = {}
    for case in CASES:
        record(out, case, seed)
        print(case, out[f"{case}/output"].abs().max().item(), flush=True)
    save_file({k: v.detach().float().contiguous() for k, v in out.items()}, path, metadata)


if __name__ == "__main__":
    main()
