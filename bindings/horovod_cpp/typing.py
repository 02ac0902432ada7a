"""Names for what functions of this package take, for annotations: ``hvd.typing.ArrayLike``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, Protocol, SupportsIndex, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from horovod_cpp._native import BatchSampler, Compression, Module, Sampler, Tensor


class SupportsDLPack(Protocol):
    """An array of another library: PyTorch, JAX, CuPy."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        """A capsule of its memory."""

    def __dlpack_device__(self) -> Any:
        """Type and number of its device."""


#: What holds elements: a Tensor, a NumPy array, or one of another library.
ArrayLike: TypeAlias = Tensor | NDArray[Any] | SupportsDLPack
#: The same type in and out.
ArrayT = TypeVar("ArrayT", bound=ArrayLike)
#: A module, which comes back as itself.
ModuleT = TypeVar("ModuleT", bound=Module)
#: "float32", numpy.float32 or numpy.dtype("float32").
DTypeLike: TypeAlias = str | type[np.generic] | np.dtype[Any]
#: One extent, or a sequence of them.
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
#: One number for both axes, or (height, width).
PairLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
#: What ``hvd.tensor`` copies: numbers, nested lists of them, arrays.
TensorData: TypeAlias = (
    ArrayLike | np.generic | bool | int | float | complex | Sequence["TensorData"])
_IndexItem: TypeAlias = (
    SupportsIndex | slice | None | EllipsisType | ArrayLike | list[int] | list[bool])
#: What stands in ``tensor[...]``.
IndexLike: TypeAlias = _IndexItem | tuple[_IndexItem, ...]
#: A state dict, or pairs of name and Tensor or array.
StateLike: TypeAlias = Mapping[str, ArrayLike] | Iterable[tuple[str, ArrayLike]]
#: What an optimizer is made for: Tensors, or groups with options of their own.
ParamsLike: TypeAlias = Iterable[Tensor] | Iterable[Mapping[str, Any]]
#: Called before forward, after it, and in backward(); may return a replacement.
ForwardPreHook: TypeAlias = Callable[[Any, tuple[Tensor]], Any]
ForwardHook: TypeAlias = Callable[[Any, tuple[Tensor], Tensor], Any]
BackwardHook: TypeAlias = Callable[[Any, tuple[Tensor | None], tuple[Tensor]], Any]
#: A function from an image to a Tensor or array.
TransformLike: TypeAlias = Callable[[Tensor], Any]
#: Makes a batch of a list of examples.
CollateFn: TypeAlias = Callable[[list[tuple[Tensor, ...]]], Any]


class HasState(Protocol):
    """An object with a state dict: a module, an optimizer, a schedule."""

    def state_dict(self) -> dict[str, Tensor]:
        """The state by name."""


class DatasetLike(Protocol):
    """Anything with a length and examples by index."""

    def __len__(self) -> int:
        """Number of examples."""

    def __getitem__(self, index: int, /) -> Any:
        """Example ``index``."""


_Item = TypeVar("_Item", covariant=True)


class _SizedIterable(Protocol[_Item]):
    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[_Item]: ...


#: An iterable of indices that has a length.
SamplerLike: TypeAlias = Sampler | _SizedIterable[int]
#: An iterable of lists of indices that has a length.
BatchSamplerLike: TypeAlias = BatchSampler | _SizedIterable[list[int]]


class Compressor(Protocol):
    """A compressor of your own: see ``hvd.Compression``."""

    def compress(self, tensor: Tensor, /) -> tuple[Any, Any]:
        """What travels of ``tensor`` (a Tensor, an array or a list of them) and a context."""

    def decompress(self, compressed: Any, context: Any, /) -> ArrayLike:
        """The tensor again, of ``compressed``, which was reduced, and the ``context``."""


class CompressorPerTensor(Protocol):
    """A source of compressors, one for each tensor."""

    def for_tensor(self, name: str, shape: tuple[int, ...], dtype: str, /) -> Any:
        """The Compressor of the tensor ``name`` of ``shape`` and ``dtype``; None lets it travel as it is."""


#: How gradients travel; also by name, "fp16". Of a class with static methods the class itself will
#: do.
CompressionLike: TypeAlias = Compression | Compressor | CompressorPerTensor | str

__all__ = [
    "ArrayLike", "ArrayT", "BackwardHook", "BatchSamplerLike", "CollateFn", "CompressionLike",
    "Compressor", "CompressorPerTensor", "DTypeLike", "DatasetLike", "ForwardHook",
    "ForwardPreHook", "HasState", "IndexLike", "ModuleT", "PairLike", "ParamsLike", "SamplerLike",
    "ShapeLike", "StateLike", "SupportsDLPack", "TensorData", "TransformLike",
]
