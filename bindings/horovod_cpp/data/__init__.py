"""Datasets, samplers and the loader, with PyTorch's names."""

import abc
from collections.abc import Iterator
from typing import Any

from horovod_cpp import _native
from horovod_cpp._native import (
    CIFAR10,
    CIFAR100,
    MNIST,
    BatchSampler,
    ConcatDataset,
    DataLoader,
    DatasetFolder,
    DistributedSampler,
    ImageDataset,
    ImageFolder,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    TransformDataset,
    random_split,
    read_idx,
    read_image,
)
from horovod_cpp.data import transforms


class Dataset(abc.ABC):
    """A finite, indexable set of examples, each a tuple of tensors.

    Derive from it, or write any class with these two methods. ``__getitem__`` may return tensors,
    NumPy arrays and numbers, alone or in a tuple; a DataLoader's workers call it, one at a time.
    """

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of examples."""

    @abc.abstractmethod
    def __getitem__(self, index: int) -> Any:
        """Example ``index``."""


class Sampler(abc.ABC):
    """The order in which a DataLoader visits a dataset: an iterable of indices.

    If it has a method ``set_epoch``, that is called with the number of the pass before each.
    """

    @abc.abstractmethod
    def __len__(self) -> int:
        """Indices in one pass."""

    @abc.abstractmethod
    def __iter__(self) -> Iterator[int]:
        """Start a pass."""


Dataset.register(_native.Dataset)
Sampler.register(_native.Sampler)

__all__ = [
    "CIFAR10", "CIFAR100", "MNIST", "BatchSampler", "ConcatDataset", "DataLoader", "Dataset",
    "DatasetFolder", "DistributedSampler", "ImageDataset", "ImageFolder", "RandomSampler",
    "Sampler", "SequentialSampler", "Subset", "TensorDataset", "TransformDataset", "random_split",
    "read_idx", "read_image", "transforms",
]
