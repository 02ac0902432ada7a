"""Checkpoints in the safetensors format."""

from horovod_cpp._native import (
    Checkpoint,
    get_rng_state,
    integers_from,
    load,
    load_checkpoint,
    load_metadata,
    save,
    save_checkpoint,
    set_rng_state,
)

__all__ = [
    "Checkpoint", "get_rng_state", "integers_from", "load", "load_checkpoint", "load_metadata",
    "save", "save_checkpoint", "set_rng_state",
]
