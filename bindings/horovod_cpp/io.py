"""Checkpoints in the safetensors format."""

from horovod_cpp._native import load, load_metadata, save

__all__ = ["load", "load_metadata", "save"]
