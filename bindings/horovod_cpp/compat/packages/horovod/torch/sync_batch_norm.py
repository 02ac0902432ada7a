"""horovod.torch.sync_batch_norm"""

from horovod_cpp.torch.sync_batch_norm import *  # noqa: F403
