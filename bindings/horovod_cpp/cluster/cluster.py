"""hvd.Cluster: ranks that stay alive between calls."""

import collections.abc
import numbers
import sys
import threading
import typing
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from horovod_cpp import _native, pickling
from horovod_cpp.cluster import calls
from horovod_cpp.cluster.hosts import Hosts, Words, number_of_ranks, slots_of
from horovod_cpp.cluster.output import Printer
from horovod_cpp.cluster.pool import Pool
from horovod_cpp.cluster.pool_worker import Outcome, PoolWorker

_Result = typing.TypeVar("_Result")


class WorkerStatus(typing.NamedTuple):
    """One rank of a cluster."""

    rank: int
    process: int | None  #: its process number, on its host
    state: str  #: "idle", "busy", "starting", or how it ended
    calls: int  #: so far
    memory: int  #: bytes of main memory that it takes; on other machines: after its last call
    host: str | None = None  #: its machine; None: this one


class Cluster:
    """``np`` ranks that stay alive between calls, on this machine or on several.

        with hvd.Cluster(np=2) as cluster:
            cluster.run(load_data)
            losses = cluster.run(train, args=(10,))

    The ranks are new processes of this Python (never forks), and ``hvd.init()`` was called on each;
    calling it again does nothing. Starting takes a few tenths of a second, a call less than a
    millisecond. What they print appears here as it comes, each line with its rank in front.

    Each rank has a namespace that lasts as long as its process. Functions that travel by value
    (those of scripts and notebooks) find the globals there that this program does not have, and
    what they assign to a ``global`` is kept there; cells of ``%%hvd`` run in it; ``hvd`` is in it.

    Ctrl-C during a call raises ``KeyboardInterrupt`` in the function on each rank and then here;
    a rank that does not react within a second is killed. When a rank raises, the others have a
    second to finish before they are interrupted. A rank that was killed or died is replaced: the
    others keep their namespaces, its own is lost. After that, and when a call that used the job was
    interrupted, ``hvd.init()`` is called again on all ranks: make process sets and
    ``DistributedOptimizer`` again, and broadcast the parameters.

    The ranks end with ``close()``, with the ``with`` block, when the object is no longer used,
    and with this process, however it ends. Their threads and exit handlers have five seconds for it,
    unless this process is killed. What they have started ends with them, daemons too. Any
    thread may call; calls run one after the other.

    With ``hosts``, hvdrun starts them over ssh, one agent on each machine; they connect to this
    process on a TCP port of each address of this machine (of HOROVOD_GLOO_IFACE, if it is set), where
    each message is authenticated. A machine that is lost is named when its connections have broken,
    after HVD_LINK_TIMEOUT_SECONDS at the latest; restart() starts all again.

    Args:
        np: number of ranks, at least 1. Default: 2; with hosts their slots.
        hosts: as hvdrun's ``-H``, "node1:4,node2:4" or a list of such parts; default: this machine.
            Others need ssh without a password, and horovod_cpp at the same path.
        launcher: how hvdrun starts its agents on other machines: "ssh" (default), "slurm" or
            "exec:CMD", which is run as ``CMD HOST PROGRAM...``.
        env: variables that the ranks have in addition to those of this process.
        start_timeout: seconds that starting may take; default: HOROVOD_START_TIMEOUT, or 60.
        executable: the Python of the ranks; default: this one.

    Raises:
        TypeError: ``np`` is not an int, ``start_timeout`` not a number, or ``env`` not a dict of str.
        InvalidArgumentError: ``np`` is less than 1 or more than the slots of the hosts, a part of
            ``hosts`` is malformed, ``start_timeout`` is not positive, or this process is itself a
            rank.
        UnsupportedError: HOROVOD_CONTROLLER is "mpi", or hvdrun is missing.
        RankError: a rank did not start.
    """

    def __init__(self, np: int | None = None, *, hosts: Words = None, launcher: str | None = None,
                 env: Mapping[str, str] | None = None, start_timeout: float | None = None,
                 executable: str | None = None) -> None:
        slots = slots_of("hvd.Cluster", hosts, None)
        np = number_of_ranks("hvd.Cluster", np, slots)
        calls.refuse_on_a_rank("hvd.Cluster")
        calls.check_env(env)
        if calls.setting("HOROVOD_CONTROLLER", env) == "mpi":
            raise _native.UnsupportedError(
                "the ranks of a hvd.Cluster meet without MPI: unset HOROVOD_CONTROLLER, or call "
                "hvd.run(..., use_mpi=True)")
        limit = calls.start_limit(start_timeout, env)
        view, display = calls.view_here()
        self._pool = Pool(Hosts(np, slots, launcher), Printer(view, range(np)), env, executable,
                          limit, display=display)
        self._turn = _Turn(self._pool)
        self._finalizer = weakref.finalize(self, _close, self._pool, self._turn)
        try:
            self._pool.ready()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<hvd.Cluster of {self.size} ranks{', closed' if self._pool.closed else ''}>"

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._pool.size

    def run(self, fn: Callable[..., _Result], args: Iterable[Any] = (),
            kwargs: Mapping[str, Any] | None = None, ranks: int | Iterable[int] | None = None,
            timeout: float | None = None) -> list[_Result]:
        """Call ``fn(*args, **kwargs)`` on the ranks and wait for the results.

        Args:
            fn: the function. It, its arguments and its results travel by cloudpickle.
            args, kwargs: its arguments, the same on every rank.
            ranks: those that take part, a number or several; None: all. Collectives of the whole
                job wait for all of them.
            timeout: seconds until the call is interrupted; None: never.

        Returns:
            A list of what the ranks returned, in the order of ``ranks``.

        Raises:
            TypeError: ``fn`` is not callable, or ``timeout`` is not a number.
            InvalidArgumentError: the cluster is closed, or has no such rank; ``timeout`` is not
                positive; this thread is in a call of it (as a signal handler is), or this process
                is a fork of the one that made it.
            RankError: a rank raised or died, or returned what cannot be unpickled here; has its
                number and traceback, and the exception as cause.
            TimeoutError: the call took longer than ``timeout``.
            KeyboardInterrupt: Ctrl-C, unless the function caught it on every rank and returned.
        """
        calls.check_call("Cluster.run", fn, args, kwargs)
        timeout = calls.check_seconds("timeout", timeout)
        data = calls.packed_call(fn, args, kwargs)
        results: list[_Result] = self._results(("call", data, sys.path), ranks, timeout)
        return results

    def execute(self, source: str, ranks: int | Iterable[int] | None = None,
                collapse: bool = True) -> None:
        """Run the text of a notebook cell on the ranks; what ``%%hvd`` does. Needs IPython.

        Args:
            source: Python, with what IPython understands besides.
            ranks: as in run().
            collapse: show once what all ranks print or display equally.

        Raises:
            As run().
        """
        number = getattr(calls.shell_here(), "execution_count", 1)
        self._call(("cell", source, number), ranks, collapse=collapse)

    def push(self, variables: Mapping[str, Any],
             ranks: int | Iterable[int] | None = None) -> None:
        """Put copies of objects into the namespaces.

        Args:
            variables: a dict of names and objects; they travel by cloudpickle.
            ranks: as in run().

        Raises:
            As run(); TypeError: ``variables`` is not a dict of names.
        """
        wrong = [name for name in dict(variables) if not isinstance(name, str)]
        if wrong:
            raise TypeError(f"Cluster.push takes variables by name, and {wrong[0]!r} is not a str")
        self._call(("push", pickling.dumps(dict(variables))), ranks)

    def pull(self, name: str, ranks: int | Iterable[int] | None = None) -> list[Any]:
        """Copies of what has this name in the namespaces: a list in the order of ``ranks``.

        Raises:
            As run(); the cause of the RankError is a NameError where there is no such name.
        """
        copies: list[Any] = self._results(("pull", name), ranks)
        return copies

    def status(self) -> list[WorkerStatus]:
        """A WorkerStatus for each rank. Does not wait for a call that runs."""
        self._check_process()
        if self._turn.begin(blocking=False):
            try:
                self._pool.look()
            finally:
                self._turn.end()
        return [_status(rank, worker, self._pool) for rank, worker in enumerate(self._pool.workers)]

    def restart(self) -> None:
        """New processes for all ranks, with empty namespaces. Ends a call of another thread.

        Raises:
            InvalidArgumentError: the cluster is closed, or this thread is in a call of it.
            RankError: a rank did not start.
        """
        self._check_process()
        if not self._turn.is_mine():
            self._pool.kill()
        with self._turn:
            self._check_open()
            self._pool.restart()

    def close(self) -> None:
        """Ends the ranks. A call that runs, in another thread or below a signal handler, ends with
        a RankError. Idempotent."""
        self._finalizer()

    def _results(self, message: tuple[Any, ...], ranks: int | Iterable[int] | None,
                 timeout: float | None = None) -> list[Any]:
        return calls.results_of(self._call(message, ranks, timeout))

    def _call(self, message: tuple[Any, ...], ranks: int | Iterable[int] | None,
              timeout: float | None = None, collapse: bool = False) -> dict[int, Outcome]:
        ranks = self._check_ranks(ranks)
        self._check_process()
        with self._turn:
            self._check_open()
            view, _ = calls.view_here()
            self._pool.printer = Printer(view, ranks, collapse)
            try:
                _tell_of(self._pool.ready())
                outcomes = self._pool.call(message, ranks, timeout)
            finally:
                self._pool.printer.finish()
            failure = calls.failure_of(self._pool, outcomes, timeout)
            if not self._pool.closing:
                self._pool.start_missing()  # while the user reads of it
        if failure is not None:
            raise failure
        return outcomes

    def _check_ranks(self, ranks: object) -> list[int]:
        if ranks is None:
            return list(range(self.size))
        chosen: list[Any] = list(ranks) if isinstance(ranks, collections.abc.Iterable) else [ranks]
        numbers_only = all(isinstance(rank, numbers.Integral) and not isinstance(rank, bool)
                           for rank in chosen)
        if (not chosen or not numbers_only or len(set(chosen)) < len(chosen)
                or not set(chosen) <= set(range(self.size))):
            raise _native.InvalidArgumentError(
                f"ranks is {ranks!r}, must be different numbers from 0 to {self.size - 1}")
        return [int(rank) for rank in chosen]

    def _check_process(self) -> None:
        if self._pool.is_of_parent():
            raise _native.InvalidArgumentError(
                "this process is a fork of the one that made the hvd.Cluster, whose ranks answer "
                "that one only: make a new one here")

    def _check_open(self) -> None:
        if self._pool.closed:
            raise _native.InvalidArgumentError("this hvd.Cluster is closed: make a new one")


class _Turn:
    """One call at a time. A signal handler may come between any two steps of it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._lock = threading.RLock()
        self._taken = False  # by the owner of the lock

    def begin(self, blocking: bool = True) -> bool:
        """Returns False, with ``blocking`` only in a call of this thread, if it is not our turn."""
        if not self._lock.acquire(blocking=blocking):
            return False
        if self._taken:
            self._lock.release()
            return False
        self._taken = True
        return True

    def end(self) -> None:
        try:
            if self._pool.closing:
                self._pool.close()
        finally:
            self._taken = False
            self._lock.release()

    def is_mine(self) -> bool:
        """Whether this thread is in a call."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._taken
        finally:
            self._lock.release()

    def __enter__(self) -> None:
        if not self.begin():
            raise _native.InvalidArgumentError(
                "this thread is in a call of this hvd.Cluster: a signal handler may close() it, "
                "and make no other call")

    def __exit__(self, *_: object) -> None:
        self.end()


def _tell_of(lost: Mapping[int, str]) -> None:
    for rank, end in lost.items():
        warnings.warn(
            f"rank {rank} of the cluster {end} after the last call. A new process takes its "
            "place: its variables are lost, and hvd.init() was called again on all ranks",
            RuntimeWarning, stacklevel=4)


def _status(rank: int, worker: PoolWorker | None, pool: Pool) -> WorkerStatus:
    host = pool.hosts.by_rank[rank]
    if worker is None:
        return WorkerStatus(rank, None, pool.lost.get(rank, "gone"), 0, 0, host)
    state = "starting" if not worker.is_ready else "busy" if worker.is_busy else "idle"
    return WorkerStatus(rank, worker.pid, state, worker.calls, worker.memory(), host)


def _close(pool: Pool, turn: _Turn) -> None:
    if pool.is_of_parent():
        return  # a fork, in which no thread releases the lock
    pool.closing = True
    if not turn.begin(blocking=False):
        pool.kill()  # ends the call
        if not turn.begin():
            return  # it is below us, and closes the pool in the end
    turn.end()
