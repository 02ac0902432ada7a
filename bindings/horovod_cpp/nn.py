"""Layers, losses and initialisers, with PyTorch's names."""

import sys as _sys

from horovod_cpp import init_functions as init
from horovod_cpp import module_text as _module_text  # noqa: F401 (gives Module its repr)
from horovod_cpp import nn_functional as functional
from horovod_cpp._native import (
    AdaptiveAvgPool2d,
    AvgPool2d,
    BCELoss,
    BCEWithLogitsLoss,
    BatchNorm1d,
    BatchNorm2d,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    CrossEntropyLoss,
    Dropout,
    Embedding,
    Flatten,
    GELU,
    GRU,
    GroupNorm,
    HuberLoss,
    Identity,
    KLDivLoss,
    L1Loss,
    LSTM,
    LayerNorm,
    LeakyReLU,
    Linear,
    LogSoftmax,
    Loss,
    MSELoss,
    MaxPool2d,
    Module,
    ModuleDict,
    ModuleList,
    MultiheadAttention,
    NLLLoss,
    ReLU,
    RemovableHandle,
    Sequential,
    SiLU,
    Sigmoid,
    SmoothL1Loss,
    Softmax,
    SyncBatchNorm,
    Tanh,
    TransformerEncoder,
    TransformerEncoderLayer,
)


def Parameter(data, requires_grad=True):
    """``data`` as a leaf that a Module registers when it is assigned; shares its memory."""
    return data.detach().requires_grad_(requires_grad)


# `import horovod_cpp.nn.functional as F` finds what is a file beside this one.
_sys.modules[__name__ + ".functional"] = functional
_sys.modules[__name__ + ".init"] = init

__all__ = [
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GELU",
    "GRU",
    "GroupNorm",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LSTM",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "Loss",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "Parameter",
    "ReLU",
    "RemovableHandle",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "SyncBatchNorm",
    "Tanh",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "functional",
    "init",
]
