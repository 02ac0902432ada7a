"""Transforms of images [channels, height, width], with torchvision's names."""

import abc
from typing import Any

from horovod_cpp import _native
from horovod_cpp._native import (
    CenterCrop,
    ColorJitter,
    Compose,
    Lambda,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Tensor,
    ToTensor,
)


class Transform(abc.ABC):
    """A function from an image [channels, height, width] to a Tensor or array.

    Derive from it, or use any callable. What the native ones draw at random comes from the thread's
    generator (``hvd.manual_seed``), which a DataLoader seeds for every example.
    """

    @abc.abstractmethod
    def __call__(self, image: Tensor) -> Any:
        """The transformed ``image``."""


Transform.register(_native.Transform)

__all__ = [
    "CenterCrop", "ColorJitter", "Compose", "Lambda", "Normalize", "RandomCrop",
    "RandomHorizontalFlip", "RandomResizedCrop", "Resize", "ToTensor", "Transform",
]
