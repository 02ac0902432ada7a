"""Fill tensors in place, outside of the graph: ``hvd.nn.init``."""

from horovod_cpp._native import init_calculate_gain as calculate_gain
from horovod_cpp._native import init_constant_ as constant_
from horovod_cpp._native import init_kaiming_normal_ as kaiming_normal_
from horovod_cpp._native import init_kaiming_uniform_ as kaiming_uniform_
from horovod_cpp._native import init_normal_ as normal_
from horovod_cpp._native import init_ones_ as ones_
from horovod_cpp._native import init_orthogonal_ as orthogonal_
from horovod_cpp._native import init_trunc_normal_ as trunc_normal_
from horovod_cpp._native import init_uniform_ as uniform_
from horovod_cpp._native import init_xavier_normal_ as xavier_normal_
from horovod_cpp._native import init_xavier_uniform_ as xavier_uniform_
from horovod_cpp._native import init_zeros_ as zeros_

__all__ = [
    "calculate_gain", "constant_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]
