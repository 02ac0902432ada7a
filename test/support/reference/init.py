#!/usr/bin/env python3
"""Writes init.safetensors: what PyTorch's initialisers draw.

    init.py [--folder FOLDER] [--seed N]     needs torch (written with 1.13) and safetensors

Other libraries draw other numbers, so "<case>/moments" has the mean, the standard deviation, the
least and the greatest value of a sample; "orthogonal/product" is W W^T, "gains" are
calculate_gain's. All float64.
"""

import torch
from common import destination
from safetensors.torch import save_file
from torch.nn import init

WEIGHT = (64, 32, 3, 3)
CASES = {
    "uniform": lambda w: init.uniform_(w, 2, 3),
    "normal": lambda w: init.normal_(w, 5, 0.5),
    "xavier_uniform": lambda w: init.xavier_uniform_(w, 2.0),
    "xavier_normal": lambda w: init.xavier_normal_(w, 0.5),
    "kaiming_uniform": init.kaiming_uniform_,
    "kaiming_uniform_slope": lambda w: init.kaiming_uniform_(w, 2.0, "fan_out"),
    "kaiming_normal": lambda w: init.kaiming_normal_(w, 0, "fan_out", "relu"),
    "kaiming_normal_tanh": lambda w: init.kaiming_normal_(w, 0, "fan_in", "tanh"),
    "trunc_normal": init.trunc_normal_,
    "trunc_normal_narrow": lambda w: init.trunc_normal_(w, 0.5, 2.0, -1.0, 1.5),
}
LAYERS = {"linear": lambda: torch.nn.Linear(200, 300), "conv": lambda: torch.nn.Conv2d(32, 64, 3)}
GAINS = ("linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu")


def moments(tensor):
    return torch.stack([tensor.mean(), tensor.std(), tensor.min(), tensor.max()])


def main():
    path, seed = destination(__file__)
    torch.manual_seed(7 + seed)
    torch.set_default_dtype(torch.float64)
    out = {}
    with torch.no_grad():
        for case, fill in CASES.items():
            weight = torch.empty(WEIGHT)
            fill(weight)
            out[f"{case}/moments"] = moments(weight)
        for case, make in LAYERS.items():
            layer = make()
            out[f"{case}/moments"] = moments(layer.weight)
            out[f"{case}/bias_bound"] = 1 / torch.tensor(layer.weight[0].numel()).double().sqrt()
            assert layer.bias.abs().max() <= out[f"{case}/bias_bound"]
        weight = init.orthogonal_(torch.empty(3, 5, 2), 1.5).reshape(3, 10)
        out["orthogonal/product"] = weight @ weight.T
        out["gains"] = torch.tensor([float(init.calculate_gain(name)) for name in GAINS])
    save_file({name: tensor.double().contiguous() for name, tensor in out.items()}, path)


if __name__ == "__main__":
    main()
