"""What ranks share before they train."""

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import keras

from horovod_cpp import _native, from_numpy
from horovod_cpp._native import ProcessSet, global_process_set
from horovod_cpp.front_end import without_numbers
from horovod_cpp.short_traceback import short_traceback


def backend(what: str) -> str:
    """Keras' one.

    Raises:
        UnsupportedError: ``what`` has no tensors of it.
    """
    name: str = keras.backend.backend()
    if name not in ("tensorflow", "torch"):
        raise _native.UnsupportedError(
            f"{what}: tensors of Keras' backend {name!r} cannot be reduced yet; set KERAS_BACKEND to "
            "tensorflow or torch")
    return name


def named(variables: Sequence[Any]) -> list[tuple[str, Any]]:
    """With names that all ranks have for them, also a rank that has made more models than others:
    with places instead of the numbers that Keras adds to names."""
    return [(f"{place}.{without_numbers(variable.path)}", variable)
            for place, variable in enumerate(variables)]


@short_traceback
def broadcast_variables(variables: Iterable[Any], root_rank: int = 0,
                        process_set: ProcessSet = global_process_set) -> None:
    """Overwrite every variable with the values of rank ``root_rank``; collective.

    Args:
        variables: Keras variables, such as ``model.variables`` or ``optimizer.variables``; of the
            same number, shapes and dtypes on every rank.
        root_rank: a rank of the job, in ``process_set``.

    Raises:
        TypeError: something in ``variables`` is no Keras variable.
        MismatchError: they are not the same; on every rank, naming the first difference, before
            anything was sent.
    """
    variables = list(variables)
    for variable in variables:
        if not isinstance(variable, keras.Variable):
            raise TypeError("broadcast_variables: expected Keras variables, got "
                            f"{type(variable).__name__}")
    arrays = [keras.ops.convert_to_numpy(variable).copy(order="C") for variable in variables]
    _native.broadcast_parameters(
        [(name, from_numpy(array)) for (name, _), array in zip(named(variables), arrays)],
        root_rank, process_set)
    for variable, array in zip(variables, arrays):
        variable.assign(array)


def broadcast_global_variables(root_rank: int = 0) -> NoReturn:
    """Horovod's for Keras 2, whose sessions knew every variable. Keras 3 has no such list.

    Raises:
        UnsupportedError: always; says what to call.
    """
    raise _native.UnsupportedError(
        "broadcast_global_variables: Keras 3 has no list of all variables; call "
        f"broadcast_variables(model.variables, root_rank={root_rank}), or give fit() "
        f"callbacks.BroadcastGlobalVariablesCallback({root_rank})")
