"""Recording of operations: switching it on and off, gradients as values, functions of your own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from horovod_cpp import _native
from horovod_cpp._native import InvalidArgumentError, Tensor

if TYPE_CHECKING:  # it imports NumPy, which takes longer than all the rest
    from horovod_cpp.typing import ArrayLike, DTypeLike


__all__ = ["Function", "autocast", "enable_grad", "grad", "no_grad", "set_detect_anomaly",
           "set_grad_enabled"]


class _GradMode(contextlib.ContextDecorator):
    _enabled: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> Self:
        self._before.append(_native.grad_enabled())
        _native._set_grad_enabled(self._enabled)
        return self

    def __exit__(self, *_: object) -> None:
        _native._set_grad_enabled(self._before.pop())


class no_grad(_GradMode):
    """While in force, operations of this thread are not recorded and leaves may be changed in place.

    A context manager, ``with hvd.no_grad():``, and a decorator, ``@hvd.no_grad()``.
    """

    _enabled = False


class enable_grad(_GradMode):
    """While in force, operations of this thread are recorded, also within ``no_grad``.

    A context manager and a decorator.
    """

    _enabled = True


class autocast(contextlib.ContextDecorator):
    """While in force, operations of this thread choose the dtype they compute in.

    A context manager, ``with hvd.autocast("cpu"):``, and a decorator, ``@hvd.autocast()``, for forward
    and loss; call ``backward()`` after it or within. Products (``matmul``, ``linear``, the
    convolutions) compute in ``dtype``; softmax, losses and sums in float32; operands of two floating
    dtypes are cast to the wider; everything else takes what it gets. Parameters, their gradients and
    the optimizer stay float32. A parameter is cast once and the copy kept until the outermost region
    ends. Threads begin outside; ``DataParallel``'s replicas behave like their caller.

    Args:
        device_type: ``"cpu"``, as PyTorch wants it; or the dtype.
        dtype: ``"bfloat16"`` (the default) or ``"float16"``.
        enabled: False makes a region without it inside one with it.
        cache_enabled: False casts parameters at each use.

    Raises:
        InvalidArgumentError: at the start, for any other dtype.
        UnsupportedError: another device.
    """

    def __init__(self, device_type: DTypeLike = "cpu", dtype: DTypeLike | None = None,
                 enabled: bool = True, cache_enabled: bool = True) -> None:
        if not Tensor._is_cpu(device_type):
            if dtype is not None:
                raise TypeError(f"autocast: {device_type!r} is not a device, and dtype is given too")
            dtype = device_type
        self._options = (dtype or "bfloat16", enabled, cache_enabled)

    def __enter__(self) -> Self:
        _native._enter_autocast(*self._options)
        return self

    def __exit__(self, *_: object) -> None:
        _native._exit_autocast()


class _Switch:
    """Sets a mode at once; as a context manager, until its end."""

    def __init__(self, read: Callable[[], bool], write: Callable[[bool], None],
                 enabled: bool) -> None:
        self._write = write
        self._before = read()
        write(enabled)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write(self._before)


class set_grad_enabled(_Switch):
    """Record operations of this thread if ``enabled``: from now on, or in a ``with`` until its end."""

    def __init__(self, enabled: bool) -> None:
        super().__init__(_native.grad_enabled, _native._set_grad_enabled, enabled)


class set_detect_anomaly(_Switch):
    """Let backward() raise InvalidArgumentError naming the first operation that gives a NaN.

    For all threads, if ``enabled``; from now on, or in a ``with`` until its end.
    """

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(_native.anomaly_enabled, _native._set_detect_anomaly, enabled)


def _listed(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def grad(outputs: Tensor | Iterable[Tensor], inputs: Tensor | Iterable[Tensor],
         grad_outputs: ArrayLike | Iterable[ArrayLike | None] | None = None,
         retain_graph: bool = False, create_graph: bool = False) -> list[Tensor | None]:
    """The gradients of ``outputs`` with respect to ``inputs``; no ``.grad`` and no hook is touched.

    Args:
        outputs, inputs: a Tensor or a list of them.
        grad_outputs: one gradient for each output; may be omitted for outputs of one element.
        retain_graph: keep the graph, so that it can be passed again.
        create_graph: record the gradients, so that they can be differentiated; retains the graph.

    Returns:
        A list of Tensors, None where no output depends on the input.

    Raises:
        InvalidArgumentError: an input does not require grad, shapes do not fit, or the graph was
            freed.
    """
    starts: Any = [grad_outputs] if hasattr(grad_outputs, "shape") else grad_outputs
    return _native._grad(_listed(outputs), _listed(inputs), starts, retain_graph, create_graph)


class Function:
    """A differentiable function of your own: derive, define two static methods, call ``apply``.

    ::

        class Cube(hvd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x ** 3

            @staticmethod
            def backward(ctx: Any, gradient: Tensor) -> Any:
                x, = ctx.saved_tensors
                return gradient * x ** 2 * 3

        y = Cube.apply(x)

    ``backward`` returns a gradient for each argument of ``forward``, of its shape and dtype, None for
    those without one. It may be differentiated again where it consists of differentiable functions.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        """Returns one Tensor; runs unrecorded. ``ctx`` may be given any attributes."""
        raise NotImplementedError("a Function defines forward(ctx, ...)")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Returns the gradients of the arguments, given ``gradient``, that of the result."""
        raise NotImplementedError("a Function defines backward(ctx, gradient)")

    @classmethod
    def apply(cls, *args: Any) -> Tensor:
        """Calls ``forward`` and records it."""
        ctx: Any = _native._FunctionContext(cls.__name__)
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        with no_grad():
            result = cls.forward(ctx, *args)

        def backward(gradient: Tensor) -> list[Tensor | None]:
            gradients = cls.backward(ctx, gradient)
            if not isinstance(gradients, (tuple, list)):
                gradients = (gradients,)
            if len(gradients) != len(args):
                raise InvalidArgumentError(
                    f"{cls.__name__}: backward gave {len(gradients)} gradients "
                    f"for {len(args)} arguments")
            return [g for g, a in zip(gradients, args) if isinstance(a, Tensor)]

        return _native._record_function(ctx, result, [a for a in args if isinstance(a, Tensor)],
                                        backward)
