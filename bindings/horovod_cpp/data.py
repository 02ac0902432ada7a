"""Datasets, samplers and the loader, with PyTorch's names."""

from horovod_cpp._native import (
    CIFAR10,
    MNIST,
    DataLoader,
    Dataset,
    DistributedSampler,
    ImageDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    read_idx,
)

__all__ = [
    "CIFAR10", "MNIST", "DataLoader", "Dataset", "DistributedSampler", "ImageDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "Subset", "TensorDataset", "read_idx",
]
