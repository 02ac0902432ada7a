"""Learning rate schedules, with PyTorch's names and numbers."""

from horovod_cpp._native import *
from horovod_cpp.native_names import keep_listed as _keep_listed

__all__ = [
    "CosineAnnealingLR", "ExponentialLR", "LambdaLR", "LearningRateWarmup", "LinearLR",
    "LRScheduler", "MultiStepLR", "OneCycleLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]
_keep_listed(globals())
