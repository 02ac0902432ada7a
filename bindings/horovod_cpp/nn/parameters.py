"""Parameters, alone and in containers."""

from collections.abc import Iterable, Iterator, Mapping

from horovod_cpp import _native
from horovod_cpp._native import Module, Tensor


class _ParameterType(type(Tensor)):  # type: ignore[misc]  # the metaclass of native classes
    def __call__(cls, data: Tensor, requires_grad: bool = True) -> Tensor:
        parameter = data.detach()
        _native._make_parameter(parameter)
        return parameter.requires_grad_(requires_grad)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and _native._is_parameter(instance)


class Parameter(Tensor, metaclass=_ParameterType):
    """A leaf that a Module registers when it is assigned to an attribute.

    Args:
        data: a Tensor of a floating dtype and any shape; its memory is shared.
        requires_grad: whether backward() leaves a gradient there. A parameter without is part of
            ``parameters()`` and of ``state_dict()`` all the same.

    Raises:
        InvalidArgumentError: a dtype that is not floating; ``register_buffer`` takes all.

    Every leaf that requires grad is an instance: layers make their parameters in C++.
    """

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        """See the class."""
        raise TypeError("nn.Parameter makes Tensors and cannot be derived from")


class ParameterList(Module):
    """Parameters named "0", "1", ...: a list whose entries are registered.

    Args:
        parameters: Tensors of floating dtypes; they require grad from then on, except those that are
            an ``nn.Parameter`` already.
    """

    def __init__(self, parameters: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self._size = 0
        self.extend(parameters)

    def append(self, parameter: Tensor) -> "ParameterList":
        """Add a parameter at the end; returns the list."""
        self.register_parameter(str(self._size), parameter)
        self._size += 1
        return self

    def extend(self, parameters: Iterable[Tensor]) -> "ParameterList":
        """Add parameters at the end; returns the list."""
        for parameter in parameters:
            self.append(parameter)
        return self

    def _name(self, index: int) -> str:
        if not -self._size <= index < self._size:
            raise IndexError(f"{index} of {self._size} parameters")
        return str(index % self._size)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Tensor:
        parameter: Tensor = getattr(self, self._name(index))
        return parameter

    def __setitem__(self, index: int, parameter: Tensor) -> None:
        self.register_parameter(self._name(index), parameter)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(self._size))

    def __iadd__(self, parameters: Iterable[Tensor]) -> "ParameterList":
        return self.extend(parameters)


class ParameterDict(Module):
    """Parameters by name, in the order they were added.

    Args:
        parameters: Tensors of floating dtypes by name; they require grad from then on, except those
            that are an ``nn.Parameter`` already.
    """

    def __init__(self, parameters: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters: Mapping[str, Tensor]) -> None:
        """Add parameters, or replace those of the same name."""
        for name, parameter in parameters.items():
            self[name] = parameter

    def keys(self) -> list[str]:
        """The names."""
        return [name for name, value in self.__dict__.items() if isinstance(value, Tensor)]

    def values(self) -> list[Tensor]:
        """The parameters."""
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Tensor]]:
        """Pairs of name and parameter."""
        return [(name, self[name]) for name in self.keys()]

    def pop(self, name: str) -> Tensor:
        """Take the parameter ``name`` out and return it; KeyError without."""
        parameter = self[name]
        del self[name]
        return parameter

    def __len__(self) -> int:
        return len(self.keys())

    def __getitem__(self, name: str) -> Tensor:
        parameter = self.__dict__.get(name)
        if not isinstance(parameter, Tensor):
            raise KeyError(name)
        return parameter

    def __setitem__(self, name: str, parameter: Tensor) -> None:
        self.register_parameter(name, parameter)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return isinstance(self.__dict__.get(name), Tensor)  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


__all__ = ["Parameter", "ParameterDict", "ParameterList"]
