"""Modules print as PyTorch's do."""

import re

import pytest
import torch

import horovod_cpp as hvd

# A layer of either library, as an expression of `nn`.
LAYERS = [
    "nn.Linear(4, 2)", "nn.Linear(4, 2, bias=False)",
    "nn.Conv1d(4, 6, 3)", "nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2)",
    "nn.Conv1d(4, 6, 3, padding='same')",
    "nn.Conv2d(3, 8, 5)", "nn.Conv2d(4, 8, (3, 5), (2, 1), (0, 2), bias=False)",
    "nn.Conv2d(4, 8, 3, padding='same', groups=4)", "nn.Conv2d(4, 8, 3, dilation=(1, 2))",
    "nn.ConvTranspose2d(4, 8, 3)",
    "nn.ConvTranspose2d(4, 8, 3, 2, 1, output_padding=1, groups=2, dilation=2, bias=False)",
    "nn.MaxPool2d(2)", "nn.MaxPool2d((2, 3), stride=(2, 1), padding=(1, 0), ceil_mode=True)",
    "nn.AvgPool2d(3, stride=2, padding=1)", "nn.AdaptiveAvgPool2d((1, 1))",
    "nn.AdaptiveAvgPool2d((2, 3))",
    "nn.BatchNorm1d(8)", "nn.BatchNorm2d(8, eps=1e-3, momentum=None, affine=False)",
    "nn.BatchNorm2d(8, momentum=1.0, track_running_stats=False)",
    "nn.LayerNorm(8)", "nn.LayerNorm((2, 3), eps=0.25, elementwise_affine=False)",
    "nn.GroupNorm(2, 4)", "nn.GroupNorm(2, 4, eps=1e-6, affine=False)",
    "nn.Dropout()", "nn.Dropout(0.0001)", "nn.Dropout(0.00001)", "nn.Dropout(1.0)",
    "nn.Embedding(5, 2)", "nn.Embedding(5, 2, padding_idx=-1, sparse=True)",
    "nn.ReLU()", "nn.LeakyReLU(0.25)", "nn.GELU()", "nn.GELU(approximate='tanh')", "nn.SiLU()",
    "nn.Sigmoid()", "nn.Tanh()", "nn.Softmax(dim=-1)", "nn.LogSoftmax(dim=1)",
    "nn.Flatten()", "nn.Flatten(2)", "nn.Identity()",
    "nn.LSTM(4, 2)", "nn.LSTM(4, 2, num_layers=2, bias=False, batch_first=True, dropout=0.5, "
    "bidirectional=True)", "nn.GRU(4, 2)",
    "nn.Sequential(nn.Linear(4, 2), nn.Sequential(nn.ReLU(), nn.Dropout(0.25)))",
    "nn.ModuleList([nn.Linear(1, 2), nn.Tanh()])", "nn.ModuleDict({'a': nn.Conv2d(1, 2, 3)})",
    "nn.Sequential()",
]


def text(module):
    """PyTorch 2.15's normalizations have an option ``bias`` that ours, as those before, have not."""
    return re.sub(r"(affine=\w+), bias=\w+", r"\1", repr(module))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_prints_as_in_pytorch(layer):
    ours, theirs = (eval(layer, {"nn": library.nn}) for library in (hvd, torch))
    assert repr(ours) == text(theirs)


def test_a_module_of_ones_own_prints_as_in_pytorch():
    def net(nn):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
                self.fc = nn.Linear(2, 1)

            def extra_repr(self):
                return "depth=2,\nwidth=1"

        return Net()

    assert repr(net(hvd.nn)) == text(net(torch.nn))
