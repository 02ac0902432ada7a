"""How gradients of TensorFlow travel."""

from typing import Any

from horovod_cpp import _native

_WIRES = {"none": 0, "fp16": 1, "bf16": 2, "int8": 3}  # WireFormat of the engine


class Compression:
    """``Compression.none``, ``.fp16``, ``.bf16`` and ``.int8``, or their names: "fp16".

    float32 and float64 travel narrower; the engine encodes while it packs, and adds in float32.
    """

    none = _native.Compression.none
    fp16 = _native.Compression.fp16
    bf16 = _native.Compression.bf16
    int8 = _native.Compression.int8


def wire_of(compression: Any) -> int:
    """The number by which the operations know it.

    Raises:
        InvalidArgumentError: it is not one of Compression's.
    """
    for name, number in _WIRES.items():
        if compression == getattr(Compression, name) or (
                isinstance(compression, str) and compression.lower() == name):
            return number
    raise _native.InvalidArgumentError(
        f"compression={compression!r} is not a compression of TensorFlow's ({', '.join(_WIRES)})")
