"""Copies of optimizers and schedules: copy.deepcopy() and pickle, so that they travel through
hvd.run().

An optimizer takes its parameters along; a model that is copied together with it keeps sharing them.
A native schedule is made again with the arguments it was made with, and put to its epoch.
"""

from typing import Any

from horovod_cpp import _native
from horovod_cpp._native import LRScheduler, Optimizer, ReduceLROnPlateau
from horovod_cpp.native_names import Origin, native_classes, remember_arguments

_Schedule = LRScheduler | ReduceLROnPlateau
_ORIGIN = "_origin"  # of a schedule: the class whose __init__ ran, and its arguments


def _native_base(cls: type) -> type:
    """The class itself, or the first of its bases that is C++'s."""
    return next(base for base in cls.__mro__ if base.__module__ == _native.__name__)


def _attributes(instance: Any) -> dict[str, Any]:
    """What Python added to the instance."""
    return {name: value for name, value in getattr(instance, "__dict__", {}).items()
            if name != _ORIGIN}


def _reduce_optimizer(optimizer: Optimizer, protocol: Any) -> tuple[Any, ...]:
    if isinstance(optimizer, _native.DistributedOptimizer):
        raise TypeError("a DistributedOptimizer cannot be copied or pickled, since it belongs to "
                        "this job: copy the optimizer that it wraps, and wrap the copy; what is in "
                        "it is in its state_dict()")
    groups = [dict(group.items()) for group in optimizer.param_groups]
    return _optimizer, (type(optimizer), groups, optimizer.defaults, optimizer.state_dict(),
                        _attributes(optimizer))


def _optimizer(cls: type[Optimizer], groups: list[dict[str, Any]], defaults: dict[str, float],
               state: dict[str, Any], attributes: dict[str, Any]) -> Optimizer:
    optimizer: Optimizer = cls.__new__(cls)
    base = _native_base(cls)
    if base is Optimizer:
        Optimizer.__init__(optimizer, groups, defaults)
    else:
        base.__init__(optimizer, groups)  # type: ignore[misc]
        optimizer._set_defaults(defaults)
    for name, value in attributes.items():
        setattr(optimizer, name, value)
    optimizer.load_state_dict(state)
    return optimizer


def _keep_origin(schedule: _Schedule, origin: Origin) -> None:
    schedule.__dict__[_ORIGIN] = origin


def _reduce_schedule(schedule: _Schedule, protocol: Any) -> tuple[Any, ...]:
    return _schedule, (type(schedule), schedule.__dict__[_ORIGIN], schedule.state_dict(),
                       _attributes(schedule))


def _schedule(cls: type[_Schedule], origin: Origin, state: dict[str, Any],
              attributes: dict[str, Any]) -> _Schedule:
    made_by, args, kwargs = origin
    schedule: _Schedule = cls.__new__(cls)
    schedule.__dict__.update(attributes)  # first: __init__ asks Python's get_lr()
    made_by.__init__(schedule, *args, **kwargs)
    schedule.load_state_dict(state)
    return schedule


def enable_copies() -> None:
    """Let optimizers and schedules be copied and pickled."""
    for cls in native_classes(LRScheduler, ReduceLROnPlateau):
        remember_arguments(cls, _keep_origin)
        setattr(cls, "__reduce_ex__", _reduce_schedule)
    setattr(Optimizer, "__reduce_ex__", _reduce_optimizer)
