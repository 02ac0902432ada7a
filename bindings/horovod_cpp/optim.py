"""Optimizers, with PyTorch's names."""

from horovod_cpp._native import SGD, Adam, Optimizer, ParamGroup

__all__ = ["SGD", "Adam", "Optimizer", "ParamGroup"]
