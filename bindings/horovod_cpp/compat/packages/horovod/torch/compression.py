"""horovod.torch.compression"""

from horovod_cpp.torch.compression import *  # noqa: F403
