"""horovod.torch.optimizer"""

from horovod_cpp.torch.optimizer import *  # noqa: F403
