"""Reads the timelines that HOROVOD_TIMELINE and start_timeline write, for hvd.plot."""

import array
import dataclasses
import json
import math
import os
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from horovod_cpp._native import InvalidArgumentError

# What a span is, as an index; the last is a negotiation that had not ended when the recording did.
NEGOTIATE, QUEUE, COLLECTIVE, PACK, UNPACK, UNFINISHED = range(6)
_INSIDE = {"QUEUE": QUEUE, "PACK": PACK, "UNPACK": UNPACK}
_BATCH = 4 << 20  # bytes that are parsed at once
_Event: TypeAlias = dict[str, Any]
_Track: TypeAlias = tuple[int, int]  # rank and number


@dataclasses.dataclass(frozen=True)
class Trace:
    """A timeline as columns. Times are in ms since the recording began.

    An operation is one submission of one tensor on one rank, from its announcement to its result;
    its spans are the phases.
    """

    ranks: list[int]  # that were recorded, in order
    rank: NDArray[np.int64]  # of each operation
    name: list[str]  # of each operation's tensor
    kind: list[str]  # of each operation, such as "ALLREDUCE"; "" before it ran
    operation: NDArray[np.int64]  # of each span
    phase: NDArray[np.int8]  # of each span
    start: NDArray[np.float64]  # of each span
    end: NDArray[np.float64]  # of each span
    failures: list[tuple[int, float, str]]  # (operation, time, message)
    first: float  # the times between which the trace has events
    last: float
    remarks: list[str]  # what the recording itself says is missing from it


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
    reader = _Reader()
    number, closed = 0, False
    for events, closed in batches:
        for event in events:
            number += 1
            try:
                reader.apply(event)
            except (KeyError, TypeError, ValueError, AttributeError):
                raise _foreign(what, f"entry {number} is {_shortened(event)}") from None
    result = reader.finish()
    if not result.ranks:
        raise _foreign(what, "no entry names a rank")
    if len(result.operation) == 0:
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
                                 "anew, give json.load(open(path)) instead")
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


class _Reader:
    """Takes the events in the order of the file, in which those of a track are in order of time."""

    def __init__(self) -> None:
        self._titles: dict[_Track, str] = {}  # tensor names
        self._open: dict[_Track, tuple[int, float]] = {}  # operation and start of a negotiation
        self._current: dict[_Track, int] = {}  # the operation whose phases come now
        self._queued: dict[_Track, int] = {}  # the last operation that left the negotiation
        # The columns of the Trace.
        self._ranks: list[int] = []
        self._rank = array.array("q")
        self._names: list[str] = []
        self._kinds: list[str] = []
        self._operation = array.array("q")
        self._phase = array.array("b")
        self._start = array.array("d")
        self._end = array.array("d")
        self._failures: list[tuple[int, float, str]] = []
        self._first, self._last = math.inf, -math.inf
        self._remarks: list[str] = []

    def apply(self, event: _Event) -> None:
        kind, track = event["ph"], (event["pid"], event["tid"])
        if kind == "M":
            self._name(event, track)
        elif kind == "B":
            operation = self._begin(track, event.get("args", {}).get("name"))
            self._open[track] = (operation, self._time(event["ts"]))
        elif kind == "E":
            operation, start = self._open.pop(track)
            unfinished = event.get("args", {}).get("unfinished", False)
            self._add(operation, UNFINISHED if unfinished else NEGOTIATE, start,
                      self._time(event["ts"]))
        elif kind == "X":
            self._span(event, track)
        elif kind == "i":
            self._instant(event, track)
        else:
            raise ValueError(kind)

    def finish(self) -> Trace:
        for operation, start in self._open.values():  # the job still runs, or was killed
            self._add(operation, UNFINISHED, start, self._last)
        return Trace(
            ranks=sorted(self._ranks), rank=np.array(self._rank), name=self._names,
            kind=self._kinds, operation=np.array(self._operation), phase=np.array(self._phase),
            start=np.array(self._start), end=np.array(self._end), failures=self._failures,
            first=self._first, last=self._last, remarks=self._remarks)

    def _time(self, microseconds: float) -> float:
        time = float(microseconds) / 1000
        self._first = min(self._first, time)
        self._last = max(self._last, time)
        return time

    def _name(self, event: _Event, track: _Track) -> None:
        if event["name"] == "process_name" and event["args"]["name"] == f"rank {track[0]}":
            self._ranks.append(track[0])
        elif event["name"] == "thread_name":
            self._titles[track] = event["args"]["name"]

    def _begin(self, track: _Track, name: str | None) -> int:
        operation = len(self._names)
        self._rank.append(track[0])
        self._names.append(name or self._titles[track])
        self._kinds.append("")
        self._current[track] = operation
        return operation

    def _announced(self, track: _Track) -> int:
        """The operation that negotiates; a new one if the recording began after that."""
        operation = self._current.get(track)
        if operation is None or operation == self._queued.get(track):
            operation = self._begin(track, None)
        return operation

    def _add(self, operation: int, phase: int, start: float, end: float) -> None:
        self._operation.append(operation)
        self._phase.append(phase)
        self._start.append(start)
        self._end.append(end)

    def _span(self, event: _Event, track: _Track) -> None:
        name = event["name"]
        if name == "QUEUE":  # the first phase of which every result has a span
            self._queued[track] = self._announced(track)
        operation = self._current[track]
        phase = _INSIDE.get(name, COLLECTIVE)
        start = self._time(event["ts"])
        self._add(operation, phase, start, self._time(event["ts"] + event["dur"]))
        if phase == COLLECTIVE:
            self._kinds[operation] = name

    def _instant(self, event: _Event, track: _Track) -> None:
        name, args = event["name"], event["args"]
        if name == "FAILED":
            self._failures.append(
                (self._announced(track), self._time(event["ts"]), args["error"]))
        elif name == "DROPPED":
            self._remarks.append(f"rank {track[0]} dropped {args['events']} events")
        elif name == "TIMELINE_FULL":
            self._remarks.append("the file reached its limit (HVD_TIMELINE_MAX_MB)")
