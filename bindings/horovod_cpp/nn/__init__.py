"""Layers, losses and initialisers, with PyTorch's names."""

from horovod_cpp._native import *
from horovod_cpp.native_names import keep_listed as _keep_listed
from horovod_cpp.nn import functional, init
from horovod_cpp.nn.copying import enable_copies as _enable_copies
from horovod_cpp.nn.parameters import Parameter, ParameterDict, ParameterList

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
_keep_listed(globals())
_enable_copies()
