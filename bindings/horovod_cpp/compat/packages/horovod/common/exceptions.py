"""horovod.common.exceptions"""

from horovod_cpp import HorovodInternalError  # noqa: F401
