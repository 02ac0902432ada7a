"""Writes tensor.safetensors: what PyTorch gives for the functions of tensors.

    tensor.py [--folder FOLDER] [--seed N]

Made once with PyTorch 1.13; test/horovod_cpp/autograd/reference_test.cc reads it. Of each case:
"<case>/input0", ..., "<case>/output", "<case>/grad_output" and "<case>/grad0", ..., all float64.
"""

import math

import torch
from common import destination
from safetensors.torch import save_file

INDEX = torch.tensor([[2, 0, 1, 1], [0, 0, 2, 1]])
LIST = torch.tensor([2, 0, 2])

# name: (function, shapes of the inputs, low, high)
CASES = {
    "abs": (torch.abs, [(2, 3)], -2, 2),
    "sign": (lambda a: torch.sign(a) * a, [(2, 3)], -2, 2),
    "square": (torch.square, [(2, 3)], -2, 2),
    "reciprocal": (torch.reciprocal, [(2, 3)], 0.5, 2),
    "rsqrt": (torch.rsqrt, [(2, 3)], 0.5, 2),
    "sin": (torch.sin, [(2, 3)], -4, 4),
    "cos": (torch.cos, [(2, 3)], -4, 4),
    "erf": (torch.erf, [(2, 3)], -2, 2),
    "log1p": (torch.log1p, [(2, 3)], -0.5, 2),
    "clamp": (lambda a: torch.clamp(a, -0.5, 0.75), [(3, 4)], -2, 2),
    "clamp_min": (lambda a: torch.clamp(a, min=0.1), [(3, 4)], -2, 2),
    "maximum": (torch.maximum, [(2, 3), (3,)], -2, 2),
    "minimum": (torch.minimum, [(2, 3), (2, 1)], -2, 2),
    "where": (lambda a, b: torch.where(a > b, a * a, b), [(2, 3), (3,)], -2, 2),
    "masked_fill": (lambda a: a.masked_fill(a > 0, 7.0), [(2, 3)], -2, 2),
    "matmul": (torch.matmul, [(2, 3), (3, 4)], -2, 2),
    "matmul_batched": (torch.matmul, [(2, 1, 3, 4), (3, 4, 2)], -2, 2),
    "matmul_tall": (torch.matmul, [(2, 2, 3), (3, 4)], -2, 2),
    "matmul_vectors": (torch.matmul, [(3,), (3,)], -2, 2),
    "matmul_row": (torch.matmul, [(3,), (2, 3, 4)], -2, 2),
    "matmul_column": (torch.matmul, [(2, 4, 3), (3,)], -2, 2),
    "outer": (torch.outer, [(3,), (2,)], -2, 2),
    "dot": (torch.dot, [(3,), (3,)], -2, 2),
    "linear": (torch.nn.functional.linear, [(2, 2, 3), (4, 3), (4,)], -2, 2),
    "sum": (lambda a: a.sum((0, 2)), [(2, 3, 2)], -2, 2),
    "mean": (lambda a: a.mean(1, keepdim=True), [(2, 3, 2)], -2, 2),
    "var": (lambda a: a.var((0, 2)), [(2, 3, 2)], -2, 2),
    "var_biased": (lambda a: a.var(1, unbiased=False, keepdim=True), [(2, 3)], -2, 2),
    "std": (lambda a: a.std(1), [(2, 3)], -2, 2),
    "norm": (lambda a: a.norm(), [(2, 3)], -2, 2),
    "norm_1": (lambda a: a.norm(1, 1), [(2, 3)], -2, 2),
    "norm_3": (lambda a: a.norm(3, 0, keepdim=True), [(2, 3)], -2, 2),
    "norm_inf": (lambda a: a.norm(math.inf, 1), [(2, 3)], -2, 2),
    "norm_of_zeros": (lambda a: (a * 0).norm(2, 1), [(2, 3)], -2, 2),
    "prod": (lambda a: a.prod(1), [(2, 3, 2)], -2, 2),
    "prod_all": (lambda a: a.prod(), [(2, 3)], -2, 2),
    "prod_zero": (lambda a: (a * torch.tensor([1.0, 0, 1])).prod(1, keepdim=True), [(2, 3)], -2, 2),
    "cumsum": (lambda a: a.cumsum(1), [(2, 3, 2)], -2, 2),
    "max_axis": (lambda a: a.max(1)[0], [(2, 3, 2)], -2, 2),
    "min_axis": (lambda a: a.min(0, keepdim=True)[0], [(2, 3)], -2, 2),
    "min": (lambda a: a.min(), [(2, 3)], -2, 2),
    "sort": (lambda a: a.sort(1, descending=True)[0], [(2, 3)], -2, 2),
    "topk": (lambda a: a.topk(2, 1)[0], [(2, 4)], -2, 2),
    "gather": (lambda a: a.gather(0, INDEX), [(3, 4)], -2, 2),
    "scatter": (lambda a, b: a.scatter(1, torch.tensor([[2, 0], [1, 3]]), b), [(2, 4), (2, 2)],
                -2, 2),
    "scatter_add": (lambda a, b: a.scatter_add(0, INDEX, b), [(3, 4), (2, 4)], -2, 2),
    "index_select": (lambda a: a.index_select(1, LIST), [(2, 3)], -2, 2),
    "index_add": (lambda a, b: a.index_add(0, LIST, b, alpha=2.0), [(3, 2), (3, 2)], -2, 2),
    "index": (lambda a: a[:, LIST, LIST], [(2, 3, 3)], -2, 2),
    "index_apart": (lambda a: a[LIST, :, INDEX[:, :3]], [(3, 2, 3)], -2, 2),
    "index_mask": (lambda a: a[torch.tensor([True, False, True])], [(3, 2)], -2, 2),
    "masked_select": (lambda a: a.masked_select(torch.tensor([True, False, True])), [(2, 3)], -2, 2),
    "slice_step": (lambda a: a[:, 1:6:2], [(2, 7)], -2, 2),
    "cat": (lambda a, b: torch.cat([a, b], 1), [(2, 3), (2, 1)], -2, 2),
    "stack": (lambda a, b: torch.stack([a, b], 1), [(2, 3), (2, 3)], -2, 2),
    "split": (lambda a: torch.split(a, 2, 1)[1] * torch.chunk(a, 3, 1)[0], [(2, 5)], -2, 2),
    "flip": (lambda a: a.flip(0, 1), [(2, 3)], -2, 2),
    "repeat": (lambda a: a.repeat(2, 1, 3), [(2, 3)], -2, 2),
    "tril": (lambda a: a.tril(1), [(2, 3, 4)], -2, 2),
    "triu": (lambda a: a.triu(-1), [(4, 3)], -2, 2),
    "add": (torch.add, [(2, 3), (3,)], -2, 2),
    "sub": (torch.sub, [(2, 1), (2, 3)], -2, 2),
    "mul": (torch.mul, [(2, 3), (3,)], -2, 2),
    "div": (torch.div, [(2, 3), (2, 1)], 0.5, 2),
    "neg": (torch.neg, [(2, 3)], -2, 2),
    "pow": (lambda a: a.pow(2.5), [(2, 3)], 0.5, 2),
    "exp": (torch.exp, [(2, 3)], -2, 2),
    "log": (torch.log, [(2, 3)], 0.5, 2),
    "sqrt": (torch.sqrt, [(2, 3)], 0.5, 2),
    "tanh": (torch.tanh, [(2, 3)], -2, 2),
    "sigmoid": (torch.sigmoid, [(2, 3)], -2, 2),
    "relu": (torch.relu, [(2, 3)], -2, 2),
    "max": (lambda a: a.max(), [(2, 3)], -2, 2),
    "reshape": (lambda a: a.t().reshape(2, 3), [(2, 3)], -2, 2),
    "permute": (lambda a: a.permute(2, 0, 1), [(2, 3, 2)], -2, 2),
    "expand": (lambda a: a.expand(2, 2, 3), [(2, 1)], -2, 2),
}


def main():
    path, seed = destination(__file__)
    torch.manual_seed(5 + seed)
    torch.set_default_dtype(torch.float64)
    stored = {}
    for name, (function, shapes, low, high) in CASES.items():
        inputs = [(torch.rand(s) * (high - low) + low).requires_grad_() for s in shapes]
        output = function(*inputs)
        weight = torch.randn(output.shape)
        output.backward(weight)
        stored[f"{name}/output"] = output.detach()
        stored[f"{name}/grad_output"] = weight
        for i, tensor in enumerate(inputs):
            stored[f"{name}/input{i}"] = tensor.detach()
            stored[f"{name}/grad{i}"] = tensor.grad
    save_file({k: v.contiguous().clone() for k, v in stored.items()}, path)


if __name__ == "__main__":
    main()
