"""Reads the timelines that HOROVOD_TIMELINE and start_timeline write, for hvd.plot."""

import array
import itertools
import json
import os

import numpy as np

from horovod_cpp._native import InvalidArgumentError

# What a span is, as an index; the last is a negotiation that had not ended when the recording did.
NEGOTIATE, QUEUE, COLLECTIVE, PACK, UNPACK, UNFINISHED = range(6)
_INSIDE = {"QUEUE": QUEUE, "PACK": PACK, "UNPACK": UNPACK}
_BATCH = 20000  # lines that are parsed at once
_RANK_TRACK = 0  # of what belongs to no tensor


class Trace:
    """A timeline as columns. Times are in ms since the recording began.

    An operation is one submission of one tensor on one rank, from its announcement to its result;
    its spans are the phases.

    Attributes:
        ranks: the ranks that were recorded, in order.
        rank, name, kind: of each operation; kind is such as "ALLREDUCE", or "" before it ran.
        operation, phase, start, end: of each span; arrays.
        failures: (operation, time, message) of each operation that failed.
        first, last: the times between which the trace has events.
        remarks: what the recording itself says is missing from it.
    """

    def __init__(self):
        self.ranks = []
        self.rank = array.array("q")
        self.name = []
        self.kind = []
        self.operation = array.array("q")
        self.phase = array.array("b")
        self.start = array.array("d")
        self.end = array.array("d")
        self.failures = []
        self.first, self.last = float("inf"), float("-inf")
        self.remarks = []


def read_trace(trace):
    """A Trace of a file's path, or of the list of events that json.load made of the file.

    Raises:
        InvalidArgumentError: it is cut short, no timeline of horovod_cpp, or empty.
        OSError: the file cannot be read.
    """
    if isinstance(trace, (str, os.PathLike)):
        what, batches = f"'{os.fspath(trace)}'", _batches_of_file(trace)
    elif isinstance(trace, list):
        what, batches = "the list of events", iter([(1, trace)])
    else:
        raise TypeError("a timeline is the path of a file or the list of its events, got "
                        f"{type(trace).__name__}")
    reader = _Reader()
    for first, events in batches:
        for number, event in enumerate(events, first):
            try:
                reader.apply(event)
            except (KeyError, TypeError, ValueError, AttributeError):
                raise _foreign(what, f"entry {number} is {_shortened(event)}") from None
    result = reader.finish()
    if not result.ranks:
        raise _foreign(what, "no entry names a rank")
    if not result.operation:
        raise InvalidArgumentError(f"{what} is a timeline without a single operation: it was "
                                   "recorded while no rank communicated")
    for column in ("rank", "operation", "phase", "start", "end"):
        setattr(result, column, np.array(getattr(result, column)))
    return result


def _foreign(what, why):
    return InvalidArgumentError(
        f"{what} is no timeline of horovod_cpp ({why}): give a file that HOROVOD_TIMELINE, "
        "hvdrun --timeline-filename or hvd.start_timeline wrote")


def _shortened(event):
    text = repr(event)
    return text if len(text) <= 80 else text[:77] + "..."


def _batches_of_file(path):
    """(number of the first event, events) again and again; the engine writes one event a line."""
    what = f"'{os.fspath(path)}'"
    with open(path, encoding="utf-8") as lines:
        try:
            if lines.readline(3).rstrip() != "[":
                raise _foreign(what, "its first line is not '[' alone; if another program wrote "
                                     "it anew, give json.load(open(path)) instead")
            number, ended = 1, False
            while batch := list(itertools.islice(lines, _BATCH)):
                ended = batch[-1].rstrip() == "]"
                events = _parse(what, number, batch[:-1] if ended else batch, ended)
                yield number, events
                number += len(events)
        except UnicodeDecodeError:
            raise _foreign(what, "it is no text") from None
    if not ended:
        raise _cut_short(what, number - 1)


def _parse(what, first, lines, ended):
    text = "".join(lines).rstrip().removesuffix(",")
    try:
        return json.loads(f"[{text}]")
    except json.JSONDecodeError as error:
        whole = first + error.lineno - 2
        if error.lineno >= len(lines) and not ended and not lines[-1].endswith("\n"):
            raise _cut_short(what, whole) from None
        raise _foreign(what, f"entry {whole + 1} is no JSON") from None


def _cut_short(what, whole):
    return InvalidArgumentError(
        f"{what} is cut short: it ends after {whole} whole entries without the closing ']'. The "
        "file of a job is whole at any moment, also of a running one: copy it again")


class _Reader:
    """Takes the events in the order of the file, in which those of a track are in order of time."""

    def __init__(self):
        self._trace = Trace()
        self._titles = {}  # track -> tensor name
        self._open = {}  # track -> (operation, start) of a negotiation under way
        self._current = {}  # track -> the operation whose phases come now
        self._queued = {}  # track -> the last operation that left the negotiation

    def apply(self, event):
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

    def finish(self):
        for operation, start in self._open.values():  # the job still runs, or was killed
            self._add(operation, UNFINISHED, start, self._trace.last)
        self._trace.ranks.sort()
        return self._trace

    def _time(self, microseconds):
        time = float(microseconds) / 1000
        self._trace.first = min(self._trace.first, time)
        self._trace.last = max(self._trace.last, time)
        return time

    def _name(self, event, track):
        if event["name"] == "process_name" and event["args"]["name"] == f"rank {track[0]}":
            self._trace.ranks.append(track[0])
        elif event["name"] == "thread_name":
            self._titles[track] = event["args"]["name"]

    def _begin(self, track, name):
        operation = len(self._trace.name)
        self._trace.rank.append(track[0])
        self._trace.name.append(name or self._titles[track])
        self._trace.kind.append("")
        self._current[track] = operation
        return operation

    def _announced(self, track):
        """The operation that negotiates; a new one if the recording began after that."""
        operation = self._current.get(track)
        if operation is None or operation == self._queued.get(track):
            operation = self._begin(track, None)
        return operation

    def _add(self, operation, phase, start, end):
        self._trace.operation.append(operation)
        self._trace.phase.append(phase)
        self._trace.start.append(start)
        self._trace.end.append(end)

    def _span(self, event, track):
        name = event["name"]
        if name == "QUEUE":  # the first phase of which every result has a span
            self._queued[track] = self._announced(track)
        operation = self._current[track]
        phase = _INSIDE.get(name, COLLECTIVE)
        start = self._time(event["ts"])
        self._add(operation, phase, start, self._time(event["ts"] + event["dur"]))
        if phase == COLLECTIVE:
            self._trace.kind[operation] = name

    def _instant(self, event, track):
        name, args = event["name"], event["args"]
        if name == "FAILED":
            self._trace.failures.append(
                (self._announced(track), self._time(event["ts"]), args["error"]))
        elif name == "DROPPED":
            self._trace.remarks.append(f"rank {track[0]} dropped {args['events']} events")
        elif name == "TIMELINE_FULL":
            self._trace.remarks.append("the file reached its limit (HVD_TIMELINE_MAX_MB)")
