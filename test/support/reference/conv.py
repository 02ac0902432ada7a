#!/usr/bin/env python3
"""Writes conv.safetensors: convolutions and their gradients as PyTorch computes them in float64.

    conv.py [--folder FOLDER] [--seed N]     needs torch and safetensors; made with torch 1.13

Names are "<case>/<what>": input, weight, bias, grad_output, output, grad_input, grad_weight,
grad_bias. What the cases are called with is repeated in the test that reads the file.
"""

import torch
import torch.nn.functional as F
from common import destination
from safetensors.torch import save_file

CASES = {
    "conv1d": (F.conv1d, (2, 4, 9), (6, 4, 3), {}),
    "conv1d_options": (F.conv1d, (2, 4, 11), (6, 2, 3),
                       dict(stride=2, padding=3, dilation=2, groups=2)),
    "conv1d_same": (F.conv1d, (2, 3, 8), (2, 3, 4), dict(padding="same", dilation=3)),
    "conv2d": (F.conv2d, (2, 3, 5, 6), (4, 3, 3, 3), dict(padding=1)),
    "conv2d_deep": (F.conv2d, (2, 20, 5, 4), (18, 20, 3, 3), dict(padding=1)),
    "conv2d_pairs": (F.conv2d, (2, 3, 9, 7), (4, 3, 3, 2),
                     dict(stride=(2, 3), padding=(2, 1), dilation=(2, 1))),
    "conv2d_groups": (F.conv2d, (2, 6, 5, 5), (9, 2, 3, 3), dict(stride=2, padding=1, groups=3)),
    "conv2d_depthwise": (F.conv2d, (2, 5, 6, 6), (10, 1, 3, 3), dict(padding=1, groups=5)),
    "conv2d_same": (F.conv2d, (2, 3, 5, 6), (4, 3, 2, 4), dict(padding="same", dilation=(1, 2))),
    "conv_transpose2d": (F.conv_transpose2d, (2, 4, 4, 3), (4, 3, 3, 3), {}),
    "conv_transpose2d_options": (F.conv_transpose2d, (2, 4, 4, 3), (4, 3, 3, 2),
                                 dict(stride=(2, 3), padding=(1, 0), output_padding=(1, 2),
                                      groups=2, dilation=(2, 1))),
    "conv_transpose2d_deep": (F.conv_transpose2d, (2, 20, 3, 3), (20, 17, 4, 4),
                              dict(stride=2, padding=1)),
}


def case(function, input_shape, weight_shape, options):
    transposed = function is F.conv_transpose2d
    channels = weight_shape[1] * options.get("groups", 1) if transposed else weight_shape[0]

    def make(*shape):  # multiples of 1/8, so that the file stays exact in float32 too
        return (torch.randint(-16, 17, shape).double() / 8).requires_grad_()

    x, w, b = make(*input_shape), make(*weight_shape), make(channels)
    y = function(x, w, b, **options)
    grad = make(*y.shape).detach()
    y.backward(grad)
    return {"input": x, "weight": w, "bias": b, "grad_output": grad, "output": y,
            "grad_input": x.grad, "grad_weight": w.grad, "grad_bias": b.grad}


def main():
    path, seed = destination(__file__)
    torch.manual_seed(seed)
    tensors = {f"{name}/{what}": value.detach().float().contiguous()
               for name, arguments in CASES.items() for what, value in case(*arguments).items()}
    save_file(tensors, path)


if __name__ == "__main__":
    main()
