"""Arguments of True or False: nothing else is taken for them, and the message names them."""

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import nn, optim
from horovod_cpp.data import DataLoader, DistributedSampler, TensorDataset
from horovod_cpp.nn import functional as F


def ones(*shape):
    return hvd.ones(*shape)


def image():
    return hvd.ones(1, 1, 4, 4)


def set_training(module, flag):
    module.training = flag


def set_requires_grad(tensor, flag):
    tensor.requires_grad = flag


def dataset():
    return TensorDataset(hvd.ones(4, 1))


REDUCTIONS = [(name, lambda x, flag, name=name: getattr(x, name)(0, flag), "keepdims")
              for name in ("sum", "mean", "max", "min", "prod", "all", "any", "argmax", "argmin")]


@pytest.mark.parametrize("call, name", [case[1:] for case in REDUCTIONS] + [
    (lambda x, flag: x.sum(dim=0, keepdim=flag), "keepdims"),
    (lambda x, flag: hvd.sum(x, 0, flag), "keepdims"),
    (lambda x, flag: x.var(0, 1, flag), "keepdims"), (lambda x, flag: x.std(0, 1, flag), "keepdims"),
    (lambda x, flag: x.norm(2, 0, flag), "keepdims"),
    (lambda x, flag: x.sort(0, flag), "descending"),
    (lambda x, flag: x.argsort(0, flag), "descending"),
    (lambda x, flag: x.topk(1, 0, flag), "largest"),
    (lambda x, flag: x.clone().requires_grad_(flag), "value"),
    (lambda x, flag: set_requires_grad(x.clone(), flag), "requires_grad"),
    (lambda x, flag: ones(2).requires_grad_().sum().backward(retain_graph=flag), "retain_graph"),
    (lambda x, flag: hvd.zeros(2, requires_grad=flag), "requires_grad"),
    (lambda x, flag: hvd.tensor([1.0], requires_grad=flag), "requires_grad"),
    (lambda x, flag: hvd.from_dlpack(x, copy=flag), "copy"),
    (lambda x, flag: hvd.set_grad_enabled(flag).__exit__(None, None, None), "enabled"),
    (lambda x, flag: F.dropout(x, .5, flag), "training"),
    (lambda x, flag: F.avg_pool2d(image(), 2, ceil_mode=flag), "ceil_mode"),
    (lambda x, flag: F.avg_pool2d(image(), 2, count_include_pad=flag), "count_include_pad"),
    (lambda x, flag: F.max_pool2d(image(), 2, ceil_mode=flag), "ceil_mode"),
    (lambda x, flag: F.embedding(hvd.tensor([0]), x, sparse=flag), "sparse"),
    (lambda x, flag: F.kl_div(x, x, log_target=flag), "log_target"),
    (lambda x, flag: nn.Linear(2, 2, bias=flag), "bias"),
    (lambda x, flag: nn.Conv1d(1, 1, 1, bias=flag), "bias"),
    (lambda x, flag: nn.Conv2d(1, 1, 1, bias=flag), "bias"),
    (lambda x, flag: nn.ConvTranspose2d(1, 1, 1, bias=flag), "bias"),
    (lambda x, flag: nn.LSTM(1, 1, batch_first=flag), "batch_first"),
    (lambda x, flag: nn.Embedding(1, 1, sparse=flag), "sparse"),
    (lambda x, flag: nn.BatchNorm2d(1, affine=flag), "affine"),
    (lambda x, flag: nn.GroupNorm(1, 1, affine=flag), "affine"),
    (lambda x, flag: nn.LayerNorm(1, elementwise_affine=flag), "elementwise_affine"),
    (lambda x, flag: nn.MultiheadAttention(2, 1, bias=flag), "bias"),
    (lambda x, flag: nn.Linear(1, 1).train(flag), "mode"),
    (lambda x, flag: nn.Linear(1, 1).requires_grad_(flag), "value"),
    (lambda x, flag: nn.Linear(1, 1).zero_grad(flag), "set_to_none"),
    (lambda x, flag: set_training(nn.Linear(1, 1), flag), "training"),
    (lambda x, flag: nn.Linear(1, 1).register_buffer("b", x, flag), "persistent"),
    (lambda x, flag: optim.SGD([ones(1)], lr=0.1, maximize=flag), "maximize"),
    (lambda x, flag: optim.Adam([ones(1)], amsgrad=flag), "amsgrad"),
    (lambda x, flag: DataLoader(dataset(), 2, shuffle=flag), "shuffle"),
    (lambda x, flag: DataLoader(dataset(), 2, drop_last=flag), "drop_last"),
    (lambda x, flag: DistributedSampler(dataset(), 2, 0, shuffle=flag), "shuffle"),
])
def test_only_true_and_false_are_flags(call, name):
    x = hvd.tensor([[1.0, 2.0], [3.0, 4.0]])
    for flag in (True, False, np.True_, np.False_):
        call(x, flag)
    for other in (0, 1, 1.5, float("nan"), "no", [], hvd.tensor(0.7), hvd.tensor(True)):
        with pytest.raises(TypeError, match=f"{name} must be True or False, got "):
            call(x, other)


def test_the_message_shows_what_was_given():
    with pytest.raises(TypeError, match=r"^keepdims must be True or False, got 1 \(int\)$"):
        hvd.ones(2, 3).sum(0, 1)
    with pytest.raises(TypeError, match="unbiased: bool"):  # an overload that takes no axis
        hvd.ones(2, 3).var(unbiased=1)
