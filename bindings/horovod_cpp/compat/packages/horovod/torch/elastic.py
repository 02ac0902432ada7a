"""horovod.torch.elastic"""

from horovod_cpp.torch.elastic import *  # noqa: F403
