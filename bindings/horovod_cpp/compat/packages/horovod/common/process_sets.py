"""horovod.common.process_sets"""

from horovod_cpp import (  # noqa: F401
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
