"""horovod.runner"""

from horovod import run  # noqa: F401
