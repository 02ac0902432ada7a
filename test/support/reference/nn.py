#!/usr/bin/env python3
"""Writes nn.safetensors: what PyTorch computes for layers, losses and functions.

    nn.py [--folder FOLDER] [--seed N]     needs torch (written with 1.13) and safetensors

A case holds "<case>/input", parameters by their PyTorch names, "<case>/output" and the gradients of
sum(output * cos(1.7 i + 0.3)) as "<case>/grad_<name>". All float64.
"""

import torch
import torch.nn.functional as F
from common import destination
from safetensors.torch import save_file

path, seed = destination(__file__)
torch.manual_seed(5 + seed)
torch.set_default_dtype(torch.float64)
out = {}


def keep(case, name, tensor):
    out[f"{case}/{name}"] = tensor.detach().clone().contiguous()


def weights_of(tensor):
    return torch.cos(1.7 * torch.arange(tensor.numel()) + 0.3).reshape(tensor.shape)


def record(case, function, *tensors, parameters=(), names=None, results=("output",)):
    """Runs function(*tensors) and keeps everything; tensors of a floating dtype get gradients."""
    names = names or ["input", "target", "third"][: len(tensors)]
    leaves = []
    for name, tensor in zip(names, tensors):
        keep(case, name, tensor)
        if tensor.is_floating_point():
            tensor.requires_grad_()
            leaves.append((name, tensor))
    for name, parameter in parameters:
        keep(case, name, parameter)
        leaves.append((name, parameter))
    produced = function(*tensors)
    produced = produced if isinstance(produced, tuple) else (produced,)
    for name, result in zip(results, produced):
        keep(case, name, result)
    sum((r * weights_of(r)).sum() for r in produced[: len(results)]).backward()
    for name, leaf in leaves:
        if leaf.grad is not None:
            keep(case, "grad_" + name, leaf.grad)


def layer(case, module, *tensors, **kwargs):
    for parameter in module.parameters():
        torch.nn.init.uniform_(parameter, -1.0, 1.0)
    record(case, module, *tensors, parameters=list(module.named_parameters()), **kwargs)


def activations():
    x = torch.tensor([-30.0, -3.0, -1.0, -0.25, 0.5, 1.0, 3.0, 30.0])
    record("leaky_relu", lambda a: F.leaky_relu(a, 0.2), x.clone())
    record("gelu", F.gelu, x.clone())
    record("gelu_tanh", lambda a: F.gelu(a, approximate="tanh"), x.clone())
    record("silu", F.silu, x.clone())
    record("softmax", lambda a: F.softmax(a, 1), torch.randn(2, 3, 2))
    record("log_softmax", lambda a: F.log_softmax(a, 1), torch.randn(2, 3, 2))


def pooling():
    x = torch.randperm(2 * 2 * 7 * 6).reshape(2, 2, 7, 6).to(torch.float64) / 8
    record("max_pool_pad", lambda a: F.max_pool2d(a, 3, 2, 1), x.clone())
    record("max_pool_ceil", lambda a: F.max_pool2d(a, (2, 3), 2, (1, 0), ceil_mode=True), x.clone())
    record("avg_pool", lambda a: F.avg_pool2d(a, 3, 2, 1), x.clone())
    record("avg_pool_ceil", lambda a: F.avg_pool2d(a, 3, 2, 1, ceil_mode=True), x.clone())
    record("avg_pool_inside",
           lambda a: F.avg_pool2d(a, (3, 2), (2, 3), (1, 1), count_include_pad=False), x.clone())
    record("adaptive_avg_pool", lambda a: F.adaptive_avg_pool2d(a, (3, 4)), x.clone())


def normalization():
    layer("batch_norm1d", torch.nn.BatchNorm1d(3), torch.randn(4, 3))
    layer("batch_norm1d_length", torch.nn.BatchNorm1d(3), torch.randn(2, 3, 4))
    plain = torch.nn.BatchNorm2d(2, affine=False, momentum=None)
    plain(torch.ones(2, 2, 2, 2) * 3)
    layer("batch_norm2d_cumulative", plain, torch.randn(3, 2, 2, 2))
    keep("batch_norm2d_cumulative", "running_mean", plain.running_mean)
    keep("batch_norm2d_cumulative", "running_var", plain.running_var)
    layer("layer_norm", torch.nn.LayerNorm([3, 4]), torch.randn(2, 3, 4))
    layer("group_norm", torch.nn.GroupNorm(2, 4), torch.randn(2, 4, 3, 2))


def losses():
    x, t = torch.randn(4, 3), torch.randn(4, 3)
    x[0, 0] = t[0, 0] + 0.25
    for reduction in ("none", "mean", "sum"):
        record(f"mse_{reduction}", lambda a, b: F.mse_loss(a, b, reduction=reduction),
               x.clone(), t.clone())
    record("l1", F.l1_loss, x.clone(), t.clone())
    record("huber", lambda a, b: F.huber_loss(a, b, delta=0.5), x.clone(), t.clone())
    record("smooth_l1", lambda a, b: F.smooth_l1_loss(a, b, beta=0.5, reduction="sum"),
           x.clone(), t.clone())
    p, q = torch.rand(4, 3) * 0.9 + 0.05, torch.rand(4, 3)
    w = torch.tensor([0.5, 1.0, 2.0])
    keep("bce", "weight", w)
    record("bce", lambda a, b: F.binary_cross_entropy(a, b, weight=w), p.clone(), q.clone())
    keep("bce_logits", "weight", w)
    keep("bce_logits", "pos_weight", w + 1)
    record("bce_logits",
           lambda a, b: F.binary_cross_entropy_with_logits(a, b, weight=w, pos_weight=w + 1),
           x.clone() * 8, q.clone())
    logs, other = F.log_softmax(x, 1).detach(), F.softmax(t, 1)
    record("kl_div", lambda a, b: F.kl_div(a, b, reduction="batchmean"), logs.clone(),
           other.clone())
    record("kl_div_log", lambda a, b: F.kl_div(a, b, reduction="mean", log_target=True),
           logs.clone(), other.log())


def class_losses():
    x = torch.randn(5, 3)
    targets = torch.tensor([0, 2, 1, 2, 0])
    w = torch.tensor([0.5, 1.0, 3.0])
    for reduction in ("none", "mean", "sum"):
        case = f"cross_entropy_{reduction}"
        keep(case, "weight", w)
        record(case, lambda a, b: F.cross_entropy(a, b, weight=w, ignore_index=1,
                                                  label_smoothing=0.25, reduction=reduction),
               x.clone(), targets.clone())
    keep("nll", "weight", w)
    record("nll", lambda a, b: F.nll_loss(a, b, weight=w, ignore_index=1),
           F.log_softmax(x, 1).detach(), targets.clone())
    record("cross_entropy_images", F.cross_entropy, torch.randn(2, 3, 2, 2),
           torch.randint(0, 3, (2, 2, 2)))
    keep("cross_entropy_soft", "weight", w)
    record("cross_entropy_soft",
           lambda a, b: F.cross_entropy(a, b, weight=w, label_smoothing=0.25), x.clone(),
           F.softmax(torch.randn(5, 3), 1))


def sequences():
    table = torch.nn.Embedding(5, 3, padding_idx=1)
    layer("embedding", table, torch.tensor([[0, 1, 4], [4, 2, 1]]))
    x, states = torch.randn(3, 2, 4), torch.randn(4, 2, 3)
    lstm = torch.nn.LSTM(4, 3, num_layers=2, bidirectional=True)
    layer("lstm", lambda_module(lstm, lambda a, h, c: flat(lstm(a, (h, c)))), x.clone(),
          states.clone(), torch.randn(4, 2, 3), names=["input", "hidden", "cell"],
          results=("output", "last_hidden", "last_cell"))
    gru = torch.nn.GRU(4, 3, num_layers=2, bidirectional=True, bias=True)
    layer("gru", lambda_module(gru, gru), x.clone(), states.clone(), names=["input", "hidden"],
          results=("output", "last_hidden"))
    plain = torch.nn.GRU(4, 3, bias=False, batch_first=True)
    layer("gru_plain", lambda_module(plain, lambda a: plain(a)), torch.randn(2, 3, 4),
          results=("output", "last_hidden"))


def flat(result):
    return result[0], *result[1]


class lambda_module(torch.nn.Module):
    """The parameters of a module, another way to call it."""

    def __init__(self, module, function):
        super().__init__()
        self.inner = [module]
        self.function = function

    def parameters(self):
        return self.inner[0].parameters()

    def named_parameters(self):
        return self.inner[0].named_parameters()

    def forward(self, *tensors):
        return self.function(*tensors)


def attention():
    module = torch.nn.MultiheadAttention(4, 2)
    query, key, value = torch.randn(3, 2, 4), torch.randn(5, 2, 4), torch.randn(5, 2, 4)
    padding = torch.tensor([[False, False, False, False, True], [False] * 5])
    mask = torch.zeros(3, 5)
    mask[0, 3] = float("-inf")
    mask[1, 1] = 0.5
    keep("attention", "padding", padding.to(torch.uint8))
    keep("attention", "mask", mask)
    layer("attention",
          lambda_module(module, lambda q, k, v: module(q, k, v, key_padding_mask=padding,
                                                       attn_mask=mask)),
          query, key, value, names=["query", "key", "value"], results=("output", "weights"))
    for norm_first in (False, True):
        case = "encoder_norm_first" if norm_first else "encoder"
        block = torch.nn.TransformerEncoderLayer(
            4, 2, 6, dropout=0.0, activation="gelu" if norm_first else "relu",
            norm_first=norm_first, batch_first=norm_first)
        encoder = torch.nn.TransformerEncoder(block, 2, torch.nn.LayerNorm(4))
        causal = torch.triu(torch.full((3, 3), float("-inf")), 1)
        keep(case, "mask", causal)
        shape = (2, 3, 4) if norm_first else (3, 2, 4)
        layer(case, lambda_module(encoder, lambda a: encoder(a, mask=causal)), torch.randn(shape))


def more():
    """Cases that came later, so that the numbers of those above stay."""
    norm = torch.nn.BatchNorm2d(3, momentum=0.25)
    layer("batch_norm2d", norm, torch.randn(5, 3, 2, 2) * 2 + 1)
    keep("batch_norm2d", "running_mean", norm.running_mean)
    keep("batch_norm2d", "running_var", norm.running_var)
    keep("batch_norm2d_eval", "running_mean", norm.running_mean)
    keep("batch_norm2d_eval", "running_var", norm.running_var)
    layer("batch_norm2d_eval", norm.eval(), torch.randn(2, 3, 2, 2))
    x = torch.randn(4, 3)
    for reduction in ("none", "sum"):
        record(f"l1_{reduction}", lambda a, b: F.l1_loss(a, b, reduction=reduction),
               x.clone(), torch.randn(4, 3))
        record(f"nll_{reduction}", lambda a, b: F.nll_loss(a, b, reduction=reduction),
               F.log_softmax(x, 1).detach(), torch.tensor([2, 0, 1, 1]))
    record("huber_none", lambda a, b: F.huber_loss(a, b, reduction="none", delta=0.75),
           x.clone(), torch.randn(4, 3))
    record("bce_plain", F.binary_cross_entropy, torch.rand(4, 3) * 0.9 + 0.05, torch.rand(4, 3))
    record("bce_logits_plain", F.binary_cross_entropy_with_logits, x * 4, torch.rand(4, 3))


for group in (activations, pooling, normalization, losses, class_losses, sequences, attention,
              more):
    group()
save_file(out, path)
