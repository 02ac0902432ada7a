"""Fill tensors in place, outside the graph: ``hvd.nn.init``."""

from horovod_cpp._native._nn_init import *

__all__ = [
    "calculate_gain", "constant_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]
