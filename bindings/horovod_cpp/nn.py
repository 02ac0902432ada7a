"""Layers, losses and initialisers, with PyTorch's names."""

from horovod_cpp import init_functions as init
from horovod_cpp._native import (
    BatchNorm2d,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Linear,
    MaxPool2d,
    Module,
    MSELoss,
    ReLU,
    Sequential,
)

__all__ = [
    "BatchNorm2d", "Conv1d", "Conv2d", "ConvTranspose2d", "CrossEntropyLoss", "Dropout", "Flatten",
    "Linear", "MaxPool2d",
    "Module", "MSELoss", "ReLU", "Sequential", "init",
]
