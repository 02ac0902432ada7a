"""Process sets: registered in this job, and copied and pickled with the modules that hold them."""

import copyreg
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from horovod_cpp import _native
from horovod_cpp._native import ProcessSet, global_process_set
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.store_meeting import meeting_of_torchrun

_Function = TypeVar("_Function", bound=Callable[..., Any])

_registered: dict[int, ProcessSet] = {}  # in this job, by number, those that were removed too


def _documented_as(native: Any) -> Callable[[_Function], _Function]:
    """Gives a function the text of the native one, without its line of arguments."""
    def document(function: _Function) -> _Function:
        function.__doc__ = native.__doc__.partition("\n\n")[2]
        return function
    return document


def _remember(process_set: ProcessSet) -> ProcessSet:
    number = process_set.process_set_id
    if number is not None:
        _registered[number] = process_set
    return process_set


@_documented_as(_native.add_process_set)
@short_traceback
def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    return _remember(_native.add_process_set(process_set))


def numbered(number: int) -> ProcessSet:
    """The set of this job with this number; 0: all ranks."""
    return global_process_set if number == 0 else _registered[number]


def _as_set(given: Any) -> Any:
    try:
        return given if isinstance(given, ProcessSet) else ProcessSet(given)
    except (TypeError, _native.Error):
        return given  # init() says what is wrong with it


@_documented_as(_native._init)
@short_traceback
def init(process_sets: Iterable[ProcessSet | Sequence[int]] | str | None = None) -> None:
    if isinstance(process_sets, Iterable) and not isinstance(process_sets, str):
        process_sets = [_as_set(each) for each in process_sets]
    if _native.is_initialized():
        _native._init(process_sets)
    else:
        _registered.clear()
        with meeting_of_torchrun():
            _native._init(process_sets)
    if isinstance(process_sets, list):
        for each in process_sets:
            _remember(each)


class _Reference:
    """Stands for a process set: in a copy for the same one, in a pickle for one of its ranks."""

    def __init__(self, process_set: ProcessSet) -> None:
        self.process_set = process_set

    def __deepcopy__(self, memo: Any) -> "_Reference":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.process_set is global_process_set:
            return reference_to, (None, None)
        return reference_to, (self.process_set.ranks, self.process_set.process_set_id)


def process_set_of(reference: _Reference) -> ProcessSet:
    """The set that a pickle has under ``reference``."""
    return reference.process_set


def reference_to(ranks: list[int] | None, number: int | None) -> _Reference:
    """To the set that was pickled as these ranks (None: all of the job) under this number."""
    if ranks is None:
        return _Reference(global_process_set)
    return _Reference(ProcessSet(ranks) if number is None else _found(ranks, number))


def _found(ranks: list[int], number: int) -> ProcessSet:
    """The registered set of these ranks: if there are several, that of the number, or the first."""
    alive = set(_native.process_set_ids()) if _native.is_initialized() else set()
    numbers = [each for each, known in sorted(_registered.items())
               if each in alive and known.ranks == ranks]
    if not numbers:
        raise _native.InvalidArgumentError(
            f"what is loaded has the process set of ranks {ranks}, which this job has not "
            f"registered: call init(process_sets=[{ranks}]) or add_process_set({ranks}) first, on "
            "all ranks")
    return _registered[number if number in numbers else numbers[0]]


copyreg.pickle(ProcessSet, lambda process_set: (process_set_of, (_Reference(process_set),)))
