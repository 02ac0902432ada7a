"""How the tensors of a call travel."""

from typing import Any, TypeAlias

import torch

from horovod_cpp import _native

#: Of a Compressor: what travels, and what decompress() needs besides.
Compressed: TypeAlias = tuple[torch.Tensor, Any]


class Compressor:
    """The base class of users' own compressors; all ranks use equal ones.

    ``compress(tensor)`` returns a pair (tensor that travels, context), ``decompress(tensor,
    context)`` what the call returns. With allreduce the sum of what was compressed is decompressed.
    """

    @staticmethod
    def compress(tensor: torch.Tensor) -> Compressed:
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Tensors travel as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Compressed:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class _Narrower(Compressor):
    """float32 and float64 travel as ``dtype``; other dtypes as they are."""

    dtype: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Compressed:
        wider = tensor.dtype in (torch.float32, torch.float64)
        return (tensor.to(cls.dtype), tensor.dtype) if wider else (tensor, None)

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_Narrower):
    """float32 and float64 travel as float16; other dtypes as they are."""

    dtype = torch.float16


class BF16Compressor(_Narrower):
    """float32 and float64 travel as bfloat16; other dtypes as they are."""

    dtype = torch.bfloat16


class Compression:
    """``Compression.none``, ``.fp16``, ``.bf16``, ``.int8`` and ``.powersgd(rank)``, or their names,
    "fp16"; or a Compressor of your own.

    An allreduce encodes fp16, bf16 and int8 while it packs, and adds in float32. A
    DistributedOptimizer adds what int8 and powersgd lost to the next gradient.
    """

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
    int8 = _native.Compression.int8
    powersgd = staticmethod(_native.Compression.powersgd)


# Those that an allreduce of the engine does by itself. By identity: a class derived from one of
# them may compress in another way.
WIRES: dict[Any, _native.Compression] = {
    NoneCompressor: _native.Compression.none,
    FP16Compressor: _native.Compression.fp16,
    BF16Compressor: _native.Compression.bf16,
}


def wire(compression: Any) -> _native.Compression | None:
    """How an allreduce of the engine does what was chosen(); None: by the compressor's methods."""
    if isinstance(compression, _native.Compression):
        return compression
    return WIRES.get(compression)


def methods(compression: Any) -> Any:
    """What was chosen(), for calls that the engine does not compress by itself.

    Raises:
        InvalidArgumentError: it has no methods: int8 and powersgd.
    """
    if isinstance(compression, _native.Compression):
        raise _native.InvalidArgumentError(
            f"{compression} works with an allreduce by Average or Sum")
    return compression


def chosen(compression: Any) -> Any:
    """The Compressor that an argument ``compression`` means.

    Raises:
        InvalidArgumentError: there is none of this name.
        TypeError: it is something else.
    """
    if isinstance(compression, _native.Compression):
        return compression
    if isinstance(compression, str):
        return _named(compression)
    for method in ("compress", "decompress"):
        if not callable(getattr(compression, method, None)):
            raise TypeError(f"compression={compression!r} has no {method}(); expected "
                            "Compression.none, .fp16, .bf16, .int8, .powersgd(rank) or a Compressor")
    return compression


def _named(name: str) -> Any:
    names = [known for known in vars(Compression) if not known.startswith("_")]
    if name.lower() in names:  # as in op="SUM"
        compression = getattr(Compression, name.lower())
        return compression() if name.lower() == "powersgd" else compression
    raise _native.InvalidArgumentError(
        f"compression={name!r} is not a compression ({', '.join(names)})"
        + _native._did_you_mean(name, names))
