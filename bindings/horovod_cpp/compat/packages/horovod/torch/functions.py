"""horovod.torch.functions"""

from horovod_cpp.torch import *  # noqa: F403
