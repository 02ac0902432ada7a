"""How a Module prints: its layers with their options, nested as PyTorch prints them."""

from horovod_cpp._native import Module


def module_repr(self: Module) -> str:
    """The name, ``extra_repr()``, and the sub-modules one a line, indented."""
    lines = []
    for name, child in self.named_children():
        lines.append(f"({name or 'module'}): " + repr(child).replace("\n", "\n  "))
    name, extra = type(self).__name__, self.extra_repr()
    if not lines:
        return f"{name}({extra})"
    if extra:
        lines.insert(0, extra.replace("\n", "\n  "))
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"


setattr(Module, "__repr__", module_repr)
