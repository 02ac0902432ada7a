"""Transforms of images [channels, height, width], with torchvision's names."""

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
    ToTensor,
    Transform,
)

__all__ = [
    "CenterCrop", "ColorJitter", "Compose", "Lambda", "Normalize", "RandomCrop",
    "RandomHorizontalFlip", "RandomResizedCrop", "Resize", "ToTensor", "Transform",
]
