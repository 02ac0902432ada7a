"""horovod.torch.mpi_ops"""

from horovod_cpp.torch import *  # noqa: F403
