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
    late: list[NDArray[np.float64]] = []  # [ranks, operations]
    for name in every[0]:
        columns = [np.array(of_rank.get(name, []), dtype=np.int64) for of_rank in every]
        columns = [column[~np.isnan(agreed[column])] for column in columns]
        if not all(map(len, columns)):
            continue
        ends = [agreed[column] for column in columns]
        places = [_nearest(end, ends[0]) for end in ends]
        matched = (ends[0] >= window[0]) & (ends[0] <= window[1])
        for end, place in zip(ends, places):  # and the other way round: else it was not recorded
            matched &= _nearest(ends[0], end[place]) == np.arange(len(ends[0]))
        starts = np.stack([announced[column[place[matched]]]
                           for column, place in zip(columns, places)])
        late.append(starts - starts.min(axis=0))
    together = np.concatenate(late, axis=1) if late else np.empty((len(ranks), 0))
    if together.shape[1] == 0:
        return {}
    return {rank: float(mean) for rank, mean in zip(ranks, together.mean(axis=1))}


def _nearest(times: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.int64]:
    """Of each wanted time the place of the nearest one in ``times``, which ascend."""
    after = np.clip(np.searchsorted(times, wanted), 1, max(len(times) - 1, 1))
    after = np.minimum(after, len(times) - 1)
    before = np.maximum(after - 1, 0)
    closer = np.abs(times[before] - wanted) <= np.abs(times[after] - wanted)
    nearest: NDArray[np.int64] = np.where(closer, before, after)
    return nearest


def step_ends(trace: Trace, rank: int, window: tuple[float, float]) -> dict[int, float]:
    """{round, from 1: when all that comes again and again has ended}, of the window; empty if nothing
    does come again.

    A round begins with the first of the names that come most often.
    """
    start, _ = _extents(trace, (NEGOTIATE, COLLECTIVE))
    _, end = _extents(trace, (COLLECTIVE,))
    names = {name: operations for name, operations in _by_name(trace, rank).items()
             if "noname" not in name.split(".")}
    most = max((len(operations) for operations in names.values()), default=0)
    if most < 2:
        return {}
    often = [operations for operations in names.values() if len(operations) == most]
    begins = start[min(often, key=lambda operations: start[operations[0]])]
    every = np.array([operation for operations in often for operation in operations])
    rounds = np.searchsorted(begins, start[every], side="right") - 1
    ends = np.full(most, -np.inf)
    ended = (rounds >= 0) & ~np.isnan(end[every])
    np.maximum.at(ends, rounds[ended], end[every[ended]])
    return {number: float(each) for number, each in enumerate(ends, 1)
            if window[0] <= each <= window[1]}
