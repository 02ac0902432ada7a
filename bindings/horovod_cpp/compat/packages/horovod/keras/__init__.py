"""horovod.keras: all names of horovod_cpp.keras."""

from horovod.keras import callbacks  # noqa: F401
from horovod_cpp.keras import *  # noqa: F403
