"""What ranks share before they train."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy

from horovod_cpp import _native, from_numpy
from horovod_cpp._native import ProcessSet, global_process_set
from horovod_cpp.front_end import without_numbers
from horovod_cpp.keras.version import IS_KERAS_2, keras
from horovod_cpp.objects import whole_number
from horovod_cpp.short_traceback import short_traceback


def refuse(text: str) -> NoReturn:
    raise _native.InvalidArgumentError(f"DistributedOptimizer: {text}")


def backend(what: str) -> str:
    """Keras' backend.

    Raises:
        UnsupportedError: tensors of that backend cannot be reduced; names ``what``.
    """
    name: str = keras.backend.backend()
    if name not in ("tensorflow", "torch"):
        raise _native.UnsupportedError(
            f"{what}: tensors of Keras' backend {name!r} cannot be reduced yet; set KERAS_BACKEND to "
            "tensorflow or torch")
    return name


def named(variables: Sequence[Any]) -> list[tuple[str, Any]]:
    """With names that are equal on all ranks, even on one that has made more models than others:
    with places instead of the numbers that Keras adds to names."""
    return [(f"{place}.{without_numbers(path_of(variable))}", variable)
            for place, variable in enumerate(variables)]


_PATH = "name" if IS_KERAS_2 else "path"


def path_of(variable: Any) -> str:
    """Its layer and its name."""
    return str(getattr(variable, _PATH)).partition(":")[0]


def shared_variables(model: Any) -> list[Any]:
    """What ranks have in common: the variables of the model and of its optimizer, which are made if it
    has not taken a step yet, and of other distributed optimizers that are the model's attributes.

    Seeds of dropout and the like are each rank's own, and so are local variables and their slots.
    """
    _make_slots(model.optimizer, model.trainable_variables)
    distributed = {id(each): each for each in vars(model).values() if hasattr(each, "_hvd")}
    local: set[int] = set()
    for optimizer in distributed.values():
        local |= optimizer._hvd.local.keys() | _slots(optimizer, optimizer._hvd.local)
    candidates = [*model.trainable_variables,
                  *(variable for variable in model.non_trainable_variables
                    if "seed_generator_state" not in path_of(variable))]
    for optimizer in {id(model.optimizer): model.optimizer, **distributed}.values():
        candidates += optimizer.variables() if IS_KERAS_2 else optimizer.variables
    return [variable for variable in candidates if id(variable) not in local]


def _make_slots(optimizer: Any, variables: Sequence[Any]) -> None:
    if hasattr(optimizer, "_create_all_weights"):  # of keras.optimizers.legacy
        optimizer._create_all_weights(variables)
    elif not getattr(optimizer, "built", False):  # which Keras 2 does not tell
        optimizer.build(variables)


def _slots(optimizer: Any, local: Mapping[int, Any]) -> set[int]:
    """What the optimizer keeps for ``local`` variables, by id(): lists have it in the order of the
    variables, whatever the optimizer calls them."""
    plain = getattr(optimizer, "inner_optimizer", optimizer)
    if hasattr(plain, "_slots"):  # of keras.optimizers.legacy
        return {id(slot) for variable in local.values()
                for slot in plain._slots.get(variable._unique_id, {}).values()}
    places = getattr(plain, "_index_dict" if IS_KERAS_2 else "_trainable_variables_indices", {})
    lists = [each for name, each in vars(plain).items()
             if name != "_variables" and isinstance(each, list) and len(each) == len(places)]
    keys = map(plain._var_key, local.values())
    return {id(each[places[key]]) for key in keys if key in places for each in lists}


def values_of(variables: Sequence[Any]) -> list[Any]:
    """As NumPy arrays."""
    if IS_KERAS_2:  # whose variables may be in a graph of tf.compat.v1
        return list(map(numpy.asarray, keras.backend.batch_get_value(variables)))
    return list(map(keras.ops.convert_to_numpy, variables))


@short_traceback
def broadcast_variables(variables: Iterable[Any], root_rank: int = 0,
                        process_set: ProcessSet = global_process_set) -> None:
    """Overwrite every variable with the values of rank ``root_rank``; collective.

    Args:
        variables: Keras variables, such as ``model.variables`` or ``optimizer.variables``; of the
            same number, shapes and dtypes on every rank.
        root_rank: a rank of the job, in ``process_set``.

    Raises:
        TypeError: something in ``variables`` is not a Keras variable.
        MismatchError: they are not the same; on every rank, naming the first difference, before
            anything was sent.
    """
    root_rank = whole_number("root_rank", root_rank)
    variables = list(variables) if isinstance(variables, Iterable) else [variables]
    for variable in variables:
        if not (hasattr(variable, "assign") and hasattr(variable, _PATH)):
            raise TypeError("broadcast_variables: expected Keras variables, got "
                            f"{type(variable).__name__}")
    arrays = [value.copy(order="C") for value in values_of(variables)]
    _native.broadcast_parameters(
        [(name, from_numpy(array)) for (name, _), array in zip(named(variables), arrays)],
        root_rank, process_set)
    if IS_KERAS_2:
        keras.backend.batch_set_value(list(zip(variables, arrays)))
    else:
        for variable, array in zip(variables, arrays):
            variable.assign(array)


def broadcast_global_variables(root_rank: int = 0) -> None:
    """Overwrite all variables of the session of Keras 2 with the values of rank ``root_rank``;
    collective. Eagerly there is no list of all variables.

    Raises:
        InvalidArgumentError: not in a graph of tf.compat.v1; says what to call.
        UnsupportedError: of Keras 3, always; says what to call.
    """
    if not IS_KERAS_2:
        raise _native.UnsupportedError(
            "broadcast_global_variables: Keras 3 has no list of all variables; call "
            f"broadcast_variables(model.variables, root_rank={root_rank}), or give fit() "
            f"callbacks.BroadcastGlobalVariablesCallback({root_rank})")
    import tensorflow as tf

    from horovod_cpp.tensorflow.variables import broadcast_global_variables as broadcast_all

    tf.compat.v1.keras.backend.get_session().run(broadcast_all(root_rank))
