"""Optimizers and gradient clipping, with PyTorch's names; schedules are in optim.lr_scheduler."""

from horovod_cpp._native import *
from horovod_cpp.native_names import keep_listed as _keep_listed
from horovod_cpp.optim import lr_scheduler
from horovod_cpp.optim.copying import enable_copies as _enable_copies

__all__ = [
    "LAMB", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Optimizer",
    "OptimizerState", "ParamGroup", "ParamState", "RMSprop", "clip_grad_norm_", "clip_grad_value_",
    "lr_scheduler",
]
_keep_listed(globals())
_enable_copies()
