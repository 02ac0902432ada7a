"""How a Module prints: its layers with their sizes, nested as PyTorch prints them."""

from collections.abc import Callable
from typing import Any

from horovod_cpp import _native
from horovod_cpp._native import Module


def _linear(layer: Any) -> str:
    outputs, inputs = layer.weight.shape
    return f"in_features={inputs}, out_features={outputs}, bias={layer.bias is not None}"


def _convolution(layer: Any) -> str:
    outputs, inputs, *kernel = layer.weight.shape
    return _kernel(inputs, outputs, kernel, layer)


def _transposed(layer: Any) -> str:
    inputs, outputs, *kernel = layer.weight.shape
    return _kernel(inputs, outputs, kernel, layer)


def _kernel(inputs: int, outputs: int, kernel: list[int], layer: Any) -> str:
    text = f"{inputs}, {outputs}, kernel_size={tuple(kernel)}"
    return text if layer.bias is not None else text + ", bias=False"


def _batch_norm(layer: Any) -> str:
    if layer.weight is not None:
        return f"{layer.weight.shape[0]}"
    return "affine=False"


def _layer_norm(layer: Any) -> str:
    return f"{layer.weight.shape}" if layer.weight is not None else "elementwise_affine=False"


def _embedding(layer: Any) -> str:
    return ", ".join(map(str, layer.weight.shape))


_KNOWN: list[tuple[type[Module], Callable[[Any], str]]] = [
    (_native.Linear, _linear), (_native.Conv1d, _convolution), (_native.Conv2d, _convolution),
    (_native.ConvTranspose2d, _transposed), (_native.BatchNorm1d, _batch_norm),
    (_native.BatchNorm2d, _batch_norm), (_native.SyncBatchNorm, _batch_norm),
    (_native.LayerNorm, _layer_norm), (_native.Embedding, _embedding),
]


def extra_repr(self: Module) -> str:
    """What stands in the parentheses after the name of the layer; override it in your own."""
    for kind, describe in _KNOWN:
        if isinstance(self, kind):
            return describe(self)
    return ""


def module_repr(self: Module) -> str:
    """The name, ``extra_repr()``, and the sub-modules one a line, indented."""
    lines = []
    for name, child in self.named_children():
        lines.append(f"({name}): " + repr(child).replace("\n", "\n  "))
    name, extra = type(self).__name__, self.extra_repr()
    if not lines:
        return f"{name}({extra})"
    if extra:
        lines.insert(0, extra.replace("\n", "\n  "))
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"


setattr(Module, "extra_repr", extra_repr)
setattr(Module, "__repr__", module_repr)
