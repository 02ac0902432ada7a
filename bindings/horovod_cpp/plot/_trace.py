"""Reads the timelines that HOROVOD_TIMELINE and start_timeline write, and finds in them who is late and
when a step's gradients are there, for hvd.plot."""

import array
import collections
import enum
import json
import math
import os
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from horovod_cpp._native import InvalidArgumentError


class Phase(enum.IntEnum):
    """What a span is."""

    NEGOTIATE, QUEUE, COLLECTIVE, PACK, UNPACK = range(5)
    UNFINISHED = 5  # a negotiation that had not ended when the recording did


_INSIDE = {"QUEUE": Phase.QUEUE, "PACK": Phase.PACK, "UNPACK": Phase.UNPACK}
_BATCH = 4 << 20  # bytes that are parsed at once
_SPAN = [("operation", "q"), ("rank", "q"), ("phase", "b"), ("start", "d"), ("end", "d")]
Spans: TypeAlias = NDArray[np.void]  # of the columns above
_Window: TypeAlias = tuple[float, float]  # ms
_Numbers: TypeAlias = NDArray[np.int64]  # of operations
_Event: TypeAlias = dict[str, Any]
_Track: TypeAlias = tuple[int, int]  # rank and number


class Trace:
    """A timeline. Times are in ms since the recording began.

    An operation is one submission of one tensor on one rank, from its announcement to its result;
    its spans are the phases.
    """

    spans: Spans

    def __init__(self) -> None:
        self.ranks: list[int] = []  # that were recorded, in order
        self.rank: list[int] = []  # of each operation
        self.name: list[str] = []  # of each operation's tensor
        self.kind: list[str] = []  # of each operation, such as "ALLREDUCE"; "" before it ran
        self.failures: list[tuple[int, float, str]] = []  # (operation, time, message)
        self.first, self.last = math.inf, -math.inf  # between which the trace has events
        self.remarks: list[str] = []  # what the recording itself says is missing from it
        # While it is read:
        self._titles: dict[_Track, str] = {}  # tensor names
        self._open: dict[_Track, tuple[int, float]] = {}  # operation and start of a negotiation
        self._current: dict[_Track, int] = {}  # the operation whose phases come now
        self._queued: dict[_Track, int] = {}  # the last operation that left the negotiation
        self._spans = array.array("d")  # of each its operation, phase, start and end

    def apply(self, event: _Event) -> None:
        """Takes the events in the order of the file, in which those of a track are in order of time."""
        kind, track = event["ph"], (event["pid"], event["tid"])
        if kind == "M":
            self._name(event, track)
        elif kind == "B":
            operation = self._begin(track, event.get("args", {}).get("name"))
            self._open[track] = (operation, self._time(event["ts"]))
        elif kind == "E":
            operation, start = self._open.pop(track)
            unfinished = event.get("args", {}).get("unfinished", False)
            phase = Phase.UNFINISHED if unfinished else Phase.NEGOTIATE
            self._spans.extend((operation, phase, start, self._time(event["ts"])))
        elif kind == "X":
            self._span(event, track)
        elif kind == "i":
            self._instant(event, track)
        else:
            raise ValueError(kind)

    def finish(self) -> None:
        """After the last event."""
        for operation, start in self._open.values():  # the job still runs, or was killed
            self._spans.extend((operation, Phase.UNFINISHED, start, self.last))
        self.ranks.sort()
        number, *others = np.array(self._spans).reshape(-1, 4).T
        del self._spans
        operations = number.astype(np.int64)
        ranks = np.array(self.rank, dtype=np.int64)[operations]
        self.spans = np.rec.fromarrays([operations, ranks, *others], dtype=_SPAN)

    def _time(self, microseconds: float) -> float:
        time = float(microseconds) / 1000
        self.first = min(self.first, time)
        self.last = max(self.last, time)
        return time

    def _name(self, event: _Event, track: _Track) -> None:
        if event["name"] == "process_name" and event["args"]["name"] == f"rank {track[0]}":
            self.ranks.append(track[0])
        elif event["name"] == "thread_name":
            self._titles[track] = event["args"]["name"]

    def _begin(self, track: _Track, name: str | None) -> int:
        operation = len(self.name)
        self.rank.append(track[0])
        self.name.append(name or self._titles[track])
        self.kind.append("")
        self._current[track] = operation
        return operation

    def _announced(self, track: _Track) -> int:
        """The operation that negotiates; a new one if the recording began after that."""
        operation = self._current.get(track)
        if operation is None or operation == self._queued.get(track):
            operation = self._begin(track, None)
        return operation

    def _span(self, event: _Event, track: _Track) -> None:
        name = event["name"]
        if name == "QUEUE":  # the first phase of which every result has a span
            self._queued[track] = self._announced(track)
        operation = self._current[track]
        phase = _INSIDE.get(name, Phase.COLLECTIVE)
        self._spans.extend((operation, phase, self._time(event["ts"]),
                            self._time(event["ts"] + event["dur"])))
        if phase == Phase.COLLECTIVE:
            self.kind[operation] = name

    def _instant(self, event: _Event, track: _Track) -> None:
        name, args = event["name"], event["args"]
        if name == "FAILED":
            self.failures.append(
                (self._announced(track), self._time(event["ts"]), args["error"]))
        elif name == "DROPPED":
            self.remarks.append(f"rank {track[0]} dropped {args['events']} events")
        elif name == "TIMELINE_FULL":
            self.remarks.append("the file reached its limit (HVD_TIMELINE_MAX_MB)")


def load_timeline(path: str | os.PathLike[str]) -> list[_Event]:
    """The events that HOROVOD_TIMELINE, ``hvdrun --timeline-filename`` or ``start_timeline`` wrote.

    Each has ``ph`` and ``name`` as in Chrome's trace event format; ``pid`` is the rank, ``ts`` and
    ``dur`` are microseconds.

    Args:
        path: the file. While its job runs, or after it was killed, it has no closing bracket, so that
            ``json.load`` refuses it, and its last line may be incomplete: that one is left out.

    Raises:
        InvalidArgumentError: it is not such a file.
        OSError: the file cannot be read.
    """
    return [event for events, _ in _batches_of_file(path) for event in events]


def read_trace(trace: str | os.PathLike[str] | list[_Event]) -> Trace:
    """A Trace of a file's path, or of the list of events that load_timeline made of the file.

    Raises:
        InvalidArgumentError: it is not a timeline of horovod_cpp, or has no operation.
        OSError: the file cannot be read.
    """
    batches: Iterator[tuple[list[_Event], bool]]
    if isinstance(trace, (str, os.PathLike)):
        what, batches = f"'{os.fspath(trace)}'", _batches_of_file(trace)
    elif isinstance(trace, list):
        what, batches = "the list of events", iter([(trace, True)])
    else:
        raise TypeError("a timeline is the path of a file or the list of its events, got "
                        f"{type(trace).__name__}")
    result = Trace()
    number, closed = 0, False
    for events, closed in batches:
        for event in events:
            number += 1
            try:
                result.apply(event)
            except (KeyError, TypeError, ValueError, AttributeError):
                raise _foreign(what, f"entry {number} is {_shortened(event)}") from None
    result.finish()
    if not result.ranks:
        raise _foreign(what, "no entry names a rank")
    if len(result.spans) == 0:
        raise InvalidArgumentError(f"{what} is a timeline without a single operation: it was "
                                   "recorded while no rank communicated")
    if not closed:
        result.remarks.append("the file has no end: its job still ran, or was killed")
    return result


def _foreign(what: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{what} is not a timeline of horovod_cpp ({why}): give a file that HOROVOD_TIMELINE, "
        "hvdrun --timeline-filename or hvd.start_timeline wrote")


def _shortened(event: object) -> str:
    text = repr(event)
    return text if len(text) <= 80 else text[:77] + "..."


def _batches_of_file(path: str | os.PathLike[str]) -> Iterator[tuple[list[_Event], bool]]:
    """(events, whether a bracket ends the file here); the engine writes one event per line."""
    what = f"'{os.fspath(path)}'"
    with open(path, "rb") as lines:
        size = os.fstat(lines.fileno()).st_size  # no more: the writer may be faster than we are
        head = lines.readline(3)
        if head and head.rstrip() != b"[":  # an empty file was just begun
            raise _foreign(what, "its first line is not '[' alone; if another program wrote it "
                                 "again, pass json.load(open(path)) instead")
        first, whole = 1, True
        while whole and (left := size - lines.tell()) > 0:
            batch = lines.readlines(min(left, _BATCH))
            whole = batch[-1].endswith(b"\n")  # else its writer is, or was, in the middle of a line
            closed = batch[-1].rstrip() == b"]"
            if closed or not (whole or _is_json(batch[-1])):
                batch.pop()
            events = _parse(what, first, batch)
            yield events, closed
            first += len(events)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line.removesuffix(b","))
    except ValueError:
        return False
    return True


def _parse(what: str, first: int, lines: list[bytes]) -> list[_Event]:
    try:
        text = b"".join(lines).decode().rstrip().removesuffix(",")
        events: list[_Event] = json.loads(f"[{text}]")
    except UnicodeDecodeError:
        raise _foreign(what, "it is not text") from None
    except json.JSONDecodeError as error:
        raise _foreign(what, f"entry {first + error.lineno - 1} is not JSON") from None
    return events


def _extents(trace: Trace, *phases: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each operation the first start and the last end of its spans of these phases; nan."""
    start, end = np.full(len(trace.name), np.nan), np.full(len(trace.name), np.nan)
    own = trace.spans[np.isin(trace.spans["phase"], phases)]
    np.fmin.at(start, own["operation"], own["start"])
    np.fmax.at(end, own["operation"], own["end"])
    return start, end


def _by_name(trace: Trace, rank: int) -> dict[str, _Numbers]:
    """{name: operations of the rank}, in order of time."""
    found: dict[str, list[int]] = collections.defaultdict(list)
    for operation, (own, name) in enumerate(zip(trace.rank, trace.name)):
        if own == rank:
            found[name].append(operation)
    return {name: np.array(operations) for name, operations in found.items()}


def lateness_of(trace: Trace, ranks: list[int], window: _Window) -> dict[int, float]:
    """{rank: mean ms from the first rank's announcement of a tensor to its own}.

    Of operations that all ranks have in the window. Those of one name belong together whose
    negotiations ended at about the same time, as the recordings of ranks begin at different ones.
    """
    announced, agreed = _extents(trace, Phase.NEGOTIATE)
    every = [_by_name(trace, rank) for rank in ranks]
    late: list[NDArray[np.float64]] = []  # [ranks, operations]
    for name in every[0]:
        columns = [of_rank.get(name, np.empty(0, np.int64)) for of_rank in every]
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


def step_ends(trace: Trace, rank: int, window: _Window) -> dict[int, float]:
    """{round, from 1: when all that comes again and again has ended}, of the window; empty if nothing
    does come again.

    A round begins with the first of the names that come most often.
    """
    start, _ = _extents(trace, Phase.NEGOTIATE, Phase.COLLECTIVE)
    _, end = _extents(trace, Phase.COLLECTIVE)
    names = {name: operations for name, operations in _by_name(trace, rank).items()
             if "noname" not in name.split(".")}
    most = max((len(operations) for operations in names.values()), default=0)
    if most < 2:
        return {}
    often = [operations for operations in names.values() if len(operations) == most]
    begins = start[min(often, key=lambda operations: start[operations[0]])]
    every = np.concatenate(often)
    rounds = np.searchsorted(begins, start[every], side="right") - 1
    ends = np.full(most, -np.inf)
    ended = (rounds >= 0) & ~np.isnan(end[every])
    np.maximum.at(ends, rounds[ended], end[every[ended]])
    return {number: float(each) for number, each in enumerate(ends, 1)
            if window[0] <= each <= window[1]}
