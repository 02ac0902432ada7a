"""What a timeline tells of ranks and steps: who is late, and when a step's gradients are there."""

import collections

import numpy as np
from numpy.typing import NDArray

from horovod_cpp.plot._trace import COLLECTIVE, NEGOTIATE, Trace


def _extents(trace: Trace, phases: tuple[int, ...]) -> tuple[NDArray[np.float64],
                                                             NDArray[np.float64]]:
    """Of each operation the first start and the last end of its spans of these phases; nan."""
    count = len(trace.name)
    start, end = np.full(count, np.inf), np.full(count, -np.inf)
    own = np.isin(trace.phase, phases)
    np.minimum.at(start, trace.operation[own], trace.start[own])
    np.maximum.at(end, trace.operation[own], trace.end[own])
    return np.where(np.isfinite(start), start, np.nan), np.where(np.isfinite(end), end, np.nan)


def _by_name(trace: Trace, rank: int) -> dict[str, list[int]]:
    """{name: operations of the rank}, in order of time."""
    found: dict[str, list[int]] = collections.defaultdict(list)
    for operation in np.flatnonzero(trace.rank == rank):
        found[trace.name[operation]].append(int(operation))
    return found


def lateness_of(trace: Trace, ranks: list[int], window: tuple[float, float]) -> dict[int, float]:
    """{rank: mean ms from the first rank's announcement of a tensor to its own}.

    Of operations that all ranks have in the window. Those of one name belong together whose
    negotiations ended at about the same time, as the recordings of ranks begin at different ones.
    """
    announced, agreed = _extents(trace, (NEGOTIATE,))
    every = [_by_name(trace, rank) for rank in ranks]
    late: list[list[float]] = [[] for _ in ranks]
    for name, firsts in every[0].items():
        columns = [[each for each in of_rank.get(name, []) if not np.isnan(agreed[each])]
                   for of_rank in every]
        if not all(columns):
            continue
        ends = [agreed[column] for column in columns]
        for operation in firsts:
            if not window[0] <= agreed[operation] <= window[1]:  # also of nan
                continue
            places = [int(np.abs(end - agreed[operation]).argmin()) for end in ends]
            back = [int(np.abs(ends[0] - end[place]).argmin()) for end, place in zip(ends, places)]
            if len(set(back)) > 1:
                continue  # a rank did not record it
            starts = [announced[column[place]] for column, place in zip(columns, places)]
            for rank, start in enumerate(starts):
                late[rank].append(float(start - min(starts)))
    return {rank: float(np.mean(own)) for rank, own in zip(ranks, late) if own}


def step_ends(trace: Trace, rank: int, window: tuple[float, float]) -> list[float]:
    """When all that comes again and again has ended, once for each round; empty if nothing does.

    A round begins with the first of the names that come most often.
    """
    start, _ = _extents(trace, (NEGOTIATE, COLLECTIVE))
    _, end = _extents(trace, (COLLECTIVE,))
    names = {name: operations for name, operations in _by_name(trace, rank).items()
             if "noname" not in name.split(".")}
    most = max((len(operations) for operations in names.values()), default=0)
    if most < 2:
        return []
    often = [operations for operations in names.values() if len(operations) == most]
    begins = start[min(often, key=lambda operations: start[operations[0]])]
    every = np.array([operation for operations in often for operation in operations])
    rounds = np.searchsorted(begins, start[every], side="right") - 1
    ends = [np.nanmax(end[every[rounds == number]], initial=-np.inf) for number in range(most)]
    return [float(each) for each in ends if window[0] <= each <= window[1]]
