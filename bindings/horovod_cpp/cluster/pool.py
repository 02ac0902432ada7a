"""The processes of some ranks, for hvd.run and hvd.Cluster."""

import contextlib
import os
import secrets
import select
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from horovod_cpp.cluster.caller_loop import CallerLoop
from horovod_cpp.cluster.calls import RankError
from horovod_cpp.cluster.event_loop import READ
from horovod_cpp.cluster.hosts import Hosts
from horovod_cpp.cluster.listener import own_addresses
from horovod_cpp.cluster.output import Printer, SilentView, write_text
from horovod_cpp.cluster.pool_worker import Outcome, PoolWorker, first_failure
from horovod_cpp.cluster.relay import DONE, END, OUTPUT, Relay, output_in
from horovod_cpp.cluster.wire import BrokenMessage
from horovod_cpp.cluster.worker import ADDRESS, KEY

_GRACE = 1.0  # seconds between asking a rank to stop and killing it
_ENDING = 2.0  # seconds between a rank's last word and its end
_LEAVING = 5.0  # ... when it was told to leave
_ROUNDS = 2  # of look()
_UNANSWERED = 10.0  # seconds that a host may take to kill a rank, before it is given up
_DROPPING = 0.5  # seconds that a call waits for ranks that leave a job


class Pool(CallerLoop):
    """Has hvdrun start workers, and calls them. One thread at a time; only kill() is for any thread.

    A worker that ends is missing until ready() has started another one in its place.

    Args:
        printer: shows what workers print and display.
        initialise: workers call hvd.init() before they get calls.
        hosts: where they run, and how many.
    """

    def __init__(self, hosts: Hosts, printer: Printer, env: Mapping[str, str] | None = None,
                 executable: str | None = None, start_timeout: float = 60.0,
                 initialise: bool = True, display: bool = False) -> None:
        super().__init__(hosts.np, printer, display)
        self.lost: dict[int, str] = {}  # rank -> how its worker ended, outside a call
        self.closed = False
        self.closing = False  # set by any thread: no more workers
        self._env = env
        self._executable = executable
        self._start_timeout = start_timeout
        self._initialise = initialise
        self._owner = os.getpid()
        self.hosts = hosts
        self._relay: Relay | None = None
        self._launch_error = ""

    # -- starting

    def ready(self) -> dict[int, str]:
        """Waits until all workers are there and, with ``initialise``, have joined one job.

        Returns how those ended that ended since the last call, by rank. Raises RankError when a
        worker does not start, KeyboardInterrupt; may be called again after both.
        """
        def starting() -> bool:
            return all(self.workers) and not all(w and w.is_ready for w in self.workers)

        self.interrupted = False
        with self._killed_on_exception(), self.catch_interrupts():
            self.look()
            lost = dict(self.lost)
            self.start_missing()
            deadline = time.monotonic() + self._start_timeout
            self.serve(lambda: self.interrupted or not starting(), deadline)
        if self.interrupted:
            raise KeyboardInterrupt
        if self._launch_error:
            raise RankError(f"the ranks could not be started:\n{self._launch_error}")
        if None in self.workers:
            rank = self.workers.index(None)
            raise RankError(
                f"rank {rank} {self.lost.pop(rank)} when it started{self.last_lines(rank)}", rank)
        if starting():
            late = [worker.rank for worker in self.workers if worker and not worker.is_ready]
            places = f" on hosts {self.hosts.words}" if self.hosts.are_remote else ""
            raise RankError(f"ranks {late} have not started{places} within "
                            f"{self._start_timeout:g} s")
        self.close_listener()
        if self._initialise and not self.engines_run:
            self._start_engines(max(deadline - time.monotonic(), 0.0))
        return lost

    def start_missing(self) -> None:
        """Starts what ready() waits for."""
        missing = [rank for rank, worker in enumerate(self.workers) if worker is None]
        if not missing:
            return
        if self.closing:
            raise RankError("the cluster was closed during the call")
        self._launch_error = ""
        addresses = own_addresses(self.hosts.interfaces) if self.hosts.are_remote else ()
        chosen = {name: value for name, value in (self._env or {}).items()
                  if not name.startswith("HVD_RENDEZVOUS")}
        variables = {**chosen, ADDRESS: self.listen(self.key, addresses, self.size),
                     KEY: self.key.hex(), **self._rendezvous()}
        if self._relay is None:
            self._relay = Relay(self.hosts.options(), self._executable)
            self.selector.register(self._relay, READ, self._on_relay)
        for rank in missing:
            self.lost.pop(rank, None)
            worker = PoolWorker(rank, self._relay, self.hosts.by_rank[rank])
            self.workers[rank] = worker
            worker.start(variables)

    def _rendezvous(self) -> dict[str, str]:
        """Where the engines of one session meet, and no others. hvdrun knows the place of
        several hosts."""
        key = {"HVD_RENDEZVOUS_KEY": secrets.token_hex(16)}
        if self.hosts.are_remote or self.hosts.use_mpi:
            return key
        return {"HVD_RENDEZVOUS": f"unix:hvd-{self._owner}-{secrets.token_hex(16)}", **key}

    def _start_engines(self, seconds: float) -> None:
        outcomes = self.call(("init", self._rendezvous()), range(self.size), seconds)
        if self.interrupted:
            raise KeyboardInterrupt
        failed = first_failure(outcomes)
        if failed is not None:
            outcome = outcomes[failed]
            text = outcome.value["traceback"] if outcome.kind == "failure" else outcome.value
            raise RankError(f"rank {failed} could not join the others: {text}", failed)
        self.engines_run = True

    # -- calling

    def call(self, message: tuple[Any, ...], ranks: Iterable[int],
             timeout: float | None = None) -> dict[int, Outcome]:
        """Sends a message to some ranks and waits for its outcomes: an Outcome by rank.

        Ctrl-C (which sets ``interrupted``), the time limit, and the failure of a rank a second
        later, end the call on the other ranks: by an interrupt, and by SIGKILL if that does not
        help within a second.
        """
        workers = [self.worker(rank) for rank in ranks]
        self.interrupted = False
        with self._killed_on_exception(), self.catch_interrupts():
            for worker in workers:
                worker.call_begins()
                if worker.channel is None:
                    continue  # it ends just now
                if worker.interrupts:
                    self.send(worker.channel, ("interrupted", worker.interrupts))
                    worker.interrupts = 0
                self.send(worker.channel, message)
            self._wait(workers, timeout)
            outcomes = {worker.rank: worker.outcome for worker in workers if worker.outcome}
            interrupted = any(outcome.stopped for outcome in outcomes.values())
            if not all(outcome.running and (outcome.untouched or not interrupted)
                       for outcome in outcomes.values()):
                self._drop_engines()
        return outcomes

    def _wait(self, workers: Sequence[PoolWorker], timeout: float | None) -> None:
        if self.serve_call(workers, timeout):
            return
        asked = [worker for worker in workers if worker.outcome is None]
        for worker in asked:
            worker.interrupt()

        def over() -> bool:
            return all(worker.outcome is not None for worker in asked)

        first, self.interrupted = self.interrupted, False  # Ctrl-C once more: at once
        self.serve(lambda: over() or self.interrupted, time.monotonic() + _GRACE)
        self.interrupted |= first
        for worker in asked:
            if worker.outcome is None:
                worker.kill()
        self._serve_kills(over)
        for worker in asked:
            if worker.outcome is not None:
                worker.outcome.stopped = True

    def _drop_engines(self) -> None:
        """After a call that left them in different places, and what they say of it belongs to that
        call. The next ready() starts them again."""
        if not self._initialise:
            return
        self.engines_run = False
        for worker in self.workers:
            if worker is not None and worker.is_ready and worker.channel is not None:
                worker.is_dropping = True
                self.send(worker.channel, ("drop",))
        self.serve(lambda: not any(worker and worker.is_dropping for worker in self.workers),
                   time.monotonic() + _DROPPING)

    # -- the event loop

    def look(self) -> None:
        """Handles what has happened since the last call, but no output without an end."""
        for _ in range(_ROUNDS):
            if self.closed or not self.handle(0):
                return

    def on_lost(self, worker: PoolWorker, error: Exception) -> None:
        self.close_channel(worker)
        if worker.is_leaving:
            return  # _end_workers() waits for its end
        if isinstance(error, BrokenMessage):
            worker.end = str(error)
        elif not self._ends(worker):
            worker.end = worker.end or "closed its connection to the caller"
        worker.kill()

    def _ends(self, worker: PoolWorker) -> bool:
        """Whether it does so soon: hvdrun may be about to say how."""
        deadline = time.monotonic() + _ENDING
        while not worker.is_over and self._relay is not None and time.monotonic() < deadline:
            relay = select.poll()  # select() takes no descriptor of 1024 or more
            relay.register(self._relay, select.POLLIN)
            relay.poll(max(deadline - time.monotonic(), 0) * 1000)
            self._on_relay(self._relay)
        return worker.is_over

    def _on_relay(self, relay: Relay) -> None:
        try:
            for kind, rank, payload in relay.receive():
                if rank < 0:
                    self._show_of_hvdrun(*output_in(payload))
                elif (worker := self.workers[rank]) is not None:  # else it was given up
                    self._on_relayed(worker, kind, payload)
        except EOFError:
            self._drop_relay()

    def _on_relayed(self, worker: PoolWorker, kind: int, payload: bytes) -> None:
        if kind == OUTPUT:
            stream, data = output_in(payload)
            worker.note_output(len(data))
            self.printer.feed(worker.rank, stream, data)
            self.take_due(worker)
        elif kind == END:
            worker.end_is(worker.relay.end_in(payload))
        elif kind == DONE:
            self._on_end(worker)

    @staticmethod
    def _show_of_hvdrun(stream: str, data: bytes) -> None:
        """What it says itself, or mpirun or ssh."""
        target = getattr(sys, stream)
        write_text(target, data.decode(errors="replace"))
        target.flush()

    def _serve_kills(self, done: Callable[[], bool], seconds: float = _UNANSWERED) -> None:
        """Until ranks that were killed have ended. A host may not answer, or its agent not have
        come yet, and then all that hvdrun runs is given up."""
        killed = [worker for worker in self.workers if worker is not None]
        self.serve(done, time.monotonic() + seconds)
        if not done():
            for worker in killed:
                worker.end_is("did not answer")
            self._drop_relay()

    def _drop_relay(self) -> None:
        """Ends what hvdrun runs, or it has ended itself."""
        if self._relay is None:
            return
        relay, self._relay = self._relay, None
        self.selector.unregister(relay)
        self._launch_error = relay.close()
        for worker in list(self.workers):
            if worker is not None:
                self._on_end(worker)

    def _on_end(self, worker: PoolWorker) -> None:
        worker.is_over = True
        self.take_due(worker)
        if worker.channel is not None:
            self.read_messages(worker)  # what it said last
        self.close_channel(worker)
        end = worker.end or "was lost with hvdrun"
        self.workers[worker.rank] = None
        self.engines_run = False
        if worker.is_busy:
            reason = f":\n{self._launch_error}" if self._launch_error and not worker.end else ""
            worker.finish(Outcome("ended", end + reason))
        else:
            self.lost[worker.rank] = end

    # -- the end

    @contextlib.contextmanager
    def _killed_on_exception(self) -> Iterator[None]:
        """Nothing can use what an exception leaves half done."""
        try:
            yield
        except BaseException:
            self.kill()
            for worker in self.workers:
                if worker is not None:
                    worker.is_busy = False  # there is no call any more: the next ready() tells
            self.printer = Printer(SilentView(), ())  # which may be what failed
            self._serve_kills(self._gone)
            raise

    def _gone(self) -> bool:
        return all(worker is None for worker in self.workers)

    def kill(self) -> None:
        """Ends all workers at once. Any thread."""
        for worker in list(self.workers):
            if worker is not None:
                worker.kill()

    def is_of_parent(self) -> bool:
        """Whether this process is a fork of the one whose workers they are."""
        return os.getpid() != self._owner

    def restart(self) -> None:
        """Other processes in place of all workers."""
        self._end_workers(_LEAVING)
        self.lost.clear()
        self.ready()

    def close(self, seconds: float | None = _LEAVING) -> None:
        """Lets the workers leave, and kills those that have not within this time (None: any) or
        when Ctrl-C comes. Idempotent."""
        if self.closed:
            return
        self.closed = True
        try:
            self._end_workers(seconds)
        finally:
            self.close_loop()

    def _end_workers(self, seconds: float | None) -> None:
        def leaving() -> list[PoolWorker]:
            return [worker for worker in self.workers if worker and worker.is_leaving]

        self.interrupted = False
        with self._killed_on_exception(), self.catch_interrupts():
            for worker in self.workers:
                if worker is None:
                    continue
                if worker.is_ready and not worker.is_busy and worker.channel is not None:
                    worker.is_leaving = True
                    self.send(worker.channel, ("leave",))
                else:
                    worker.kill()
            self.serve(lambda: not leaving() or self.interrupted,
                       None if seconds is None else time.monotonic() + seconds)
            late = leaving()
            self.kill()
            self._serve_kills(self._gone, _GRACE)
            self._drop_relay()
        killed = [worker.rank for worker in late if not (worker.end or "").startswith("exited")]
        if killed:
            warnings.warn(f"ranks {killed} were killed: threads or exit handlers ran on in them",
                          RuntimeWarning, stacklevel=2)
        if self.interrupted:
            raise KeyboardInterrupt
