"""Checkpoints in the safetensors format."""

from horovod_cpp._native import *
from horovod_cpp.native_names import keep_listed as _keep_listed

__all__ = [
    "Checkpoint", "get_rng_state", "integers_from", "load", "load_checkpoint", "load_metadata",
    "save", "save_checkpoint", "set_rng_state",
]
_keep_listed(globals())
