"""Learning rate schedules, with PyTorch's names and numbers."""

from horovod_cpp._native import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LearningRateWarmup,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)

__all__ = [
    "CosineAnnealingLR", "ExponentialLR", "LambdaLR", "LearningRateWarmup", "LinearLR",
    "LRScheduler", "MultiStepLR", "OneCycleLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]
