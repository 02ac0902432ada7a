"""Layers, losses and initialisers, with PyTorch's names."""

from horovod_cpp import module_text as _module_text  # noqa: F401 (gives Module its repr)
from horovod_cpp._native import (
    GELU,
    GRU,
    LSTM,
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    BCELoss,
    BCEWithLogitsLoss,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    CrossEntropyLoss,
    Dropout,
    Embedding,
    Flatten,
    GroupNorm,
    HuberLoss,
    Identity,
    IncompatibleKeys,
    KLDivLoss,
    L1Loss,
    LayerNorm,
    LeakyReLU,
    Linear,
    LogSoftmax,
    Loss,
    MaxPool2d,
    Module,
    ModuleDict,
    ModuleList,
    MSELoss,
    MultiheadAttention,
    NLLLoss,
    ReLU,
    RemovableHandle,
    Sequential,
    Sigmoid,
    SiLU,
    SmoothL1Loss,
    Softmax,
    SyncBatchNorm,
    Tanh,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from horovod_cpp.nn import functional, init
from horovod_cpp.nn.copying import enable_copies as _enable_copies
from horovod_cpp.nn.parameters import Parameter, ParameterDict, ParameterList

_enable_copies()

__all__ = [
    "AdaptiveAvgPool2d", "AvgPool2d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d",
    "Conv1d", "Conv2d", "ConvTranspose2d", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten",
    "GELU", "GRU", "GroupNorm", "HuberLoss", "Identity", "IncompatibleKeys", "KLDivLoss", "L1Loss",
    "LSTM", "LayerNorm", "LeakyReLU", "Linear", "LogSoftmax", "Loss", "MSELoss", "MaxPool2d",
    "Module", "ModuleDict", "ModuleList", "MultiheadAttention", "NLLLoss", "Parameter",
    "ParameterDict", "ParameterList", "ReLU", "RemovableHandle", "Sequential", "SiLU", "Sigmoid",
    "SmoothL1Loss", "Softmax", "SyncBatchNorm", "Tanh", "TransformerEncoder",
    "TransformerEncoderLayer", "functional", "init",
]
