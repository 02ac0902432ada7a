"""A rank that is called again and again, as its caller sees it."""

import collections
import dataclasses
import itertools
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any

from horovod_cpp.cluster.relay import Relay
from horovod_cpp.cluster.wire import Channel
from horovod_cpp.cluster.worker import PROCESS, memory_of

_numbers = itertools.count(1)


@dataclasses.dataclass
class Outcome:
    """How a call ended on one rank."""

    kind: str  # "result", "failure", "ended" (the process did)
    value: Any  # bytes; what worker._describe() tells; how it ended, as text
    running: bool = False  # the rank's engine can go on
    untouched: bool = False  # it was not used in the call
    memory: int = 0  # bytes that the rank takes
    stopped: bool = False  # we asked for it: an interrupt, a time limit, another rank's failure
    at: float = dataclasses.field(default_factory=time.monotonic)

    def is_consequence(self) -> bool:
        """Whether something other than this rank caused the failure."""
        return self.stopped or (self.kind == "failure" and bool(self.value["lost_others"]))


def first_failure(outcomes: Mapping[int, Outcome]) -> int | None:
    """The rank that caused the failure, of Outcomes by rank; None if there was none."""
    failed = sorted((outcome.at, rank) for rank, outcome in outcomes.items()
                    if outcome.kind != "result")
    first = [rank for _, rank in failed if not outcomes[rank].is_consequence()]
    return next(iter([*first, *(rank for _, rank in failed)]), None)


class PoolWorker:
    """One process of a rank, which ``relay`` runs. For the thread that runs the event loop.

    Args:
        host: its machine; None: this one.
    """

    def __init__(self, rank: int, relay: Relay, host: str | None) -> None:
        self.rank = rank
        self.host = host
        self.relay = relay
        self.number = next(_numbers)  # no other process of the rank has it
        self.channel: Channel | None = None  # while it is connected
        self.pid: int | None = None  # on its host
        self.is_ready = False  # for calls
        self.is_busy = False
        self.is_dropping = False  # the engine that it has
        self.is_leaving = False  # was told to: its threads and exit handlers may run on
        self.is_over = False  # it has ended, and no output will follow
        self.outcome: Outcome | None = None  # of the last call
        self.calls = 0
        self.end: str | None = None  # how it ended or why we killed it, as text
        self.interrupts = 0  # that it was sent and has not been told of
        self._has_begun = False  # with the last call
        self._is_interrupted = False
        self._received = 0  # bytes of output
        # What it said over its own connection, and how many bytes it had written before.
        self._deferred: collections.deque[tuple[int, str, list[Any]]] = collections.deque()

    def start(self, variables: Mapping[str, str]) -> None:
        self.relay.start(self.rank, self.number, {**variables, PROCESS: str(self.number)})

    def call_begins(self) -> None:
        """Before it is sent."""
        self.outcome, self.is_busy = None, True
        self._has_begun = self._is_interrupted = False
        self.calls += 1

    def has_begun(self) -> None:
        """It can be interrupted from now on."""
        self._has_begun = True
        if self._is_interrupted:
            self.interrupt()

    def finish(self, outcome: Outcome) -> None:
        self.outcome, self.is_busy = outcome, False

    def interrupt(self) -> None:
        """As Ctrl-C does, as soon as the call has begun. The process alone, not what it started."""
        self._is_interrupted = True
        if self._has_begun and not self.is_over:
            self.interrupts += 1
            self.relay.signal(self.rank, self.number, signal.SIGINT)

    def kill(self) -> None:
        """With everything that it started. Any thread."""
        if not self.is_over:
            self.relay.signal(self.rank, self.number, signal.SIGKILL)

    def end_is(self, text: str) -> None:
        """What comes first explains the rest."""
        place = f" on host {self.host}" if self.host else ""
        self.end = self.end or text + place

    def note_output(self, size: int) -> None:
        """This many bytes have arrived."""
        self._received += size

    def defer(self, written: int, kind: str, content: list[Any]) -> None:
        """Keeps a message until what it wrote before that is here."""
        self._deferred.append((written, kind, content))

    def due_messages(self) -> Iterator[tuple[str, list[Any]]]:
        while self._deferred and (self.is_over or self._deferred[0][0] <= self._received):
            _, kind, content = self._deferred.popleft()
            yield kind, content

    def memory(self) -> int:
        """Bytes that it takes; on another machine as it said after its last call."""
        if self.host is None and self.pid is not None:
            return memory_of(self.pid)
        return self.outcome.memory if self.outcome else 0
