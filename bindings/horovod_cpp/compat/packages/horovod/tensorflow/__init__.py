"""horovod.tensorflow: all names of horovod_cpp.tensorflow."""

from typing import Any as _Any

import horovod_cpp.tensorflow as _ours
from horovod_cpp.tensorflow import *  # noqa: F403


def __getattr__(name: str) -> _Any:
    return getattr(_ours, name)  # or what it says of names that it has not
