"""horovod.tensorflow.keras: all names of horovod_cpp.keras."""

from horovod.tensorflow.keras import callbacks  # noqa: F401
from horovod_cpp.keras import *  # noqa: F403
