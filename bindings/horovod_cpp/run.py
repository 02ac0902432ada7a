"""hvd.run(): a function on several ranks, from a script or a notebook."""

import contextlib
import os
import pathlib
import pickle
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time

import cloudpickle

from horovod_cpp import _native
from horovod_cpp.run_wire import receive, send

_GRACE = 1.0  # seconds between asking the launcher to stop and killing it
_AFTER_FAILURE = 2.0  # seconds that a job may take to end after a rank's failure


class RankError(_native.Error, RuntimeError):
    """A rank of ``hvd.run`` failed.

    Attributes:
        rank: the rank that failed first; None when the launcher itself failed.
        traceback: the rank's traceback as text; empty when it ended without one.
    """

    def __init__(self, message, rank=None, traceback=""):
        super().__init__(message)
        self.rank = rank
        self.traceback = traceback


def run(fn, args=(), kwargs=None, np=2):
    """Call ``fn(*args, **kwargs)`` on ``np`` ranks on this machine and wait for the results.

    Each rank is a new process of this Python; ``fn`` calls ``hvd.init()`` itself. Function,
    arguments and results travel by cloudpickle, so functions of scripts and notebook cells work.
    What the ranks print appears here as it comes, each line with its rank in front. Ctrl-C (or a
    notebook's interrupt) stops all ranks within two seconds; nothing is left running.

    Args:
        fn: the function.
        args, kwargs: its arguments, the same on every rank.
        np: number of ranks, at least 1.

    Returns:
        A list of what the ranks returned, by rank.

    Raises:
        TypeError: ``fn`` is not callable, or ``np`` is no int.
        InvalidArgumentError: ``np`` is less than 1, or this process is itself a rank.
        RankError: a rank raised or died; has its number and traceback, and the exception as cause.
        UnsupportedError: hvdrun is not installed where this Python can find it.
    """
    if not callable(fn):
        raise TypeError(f"hvd.run calls a function, got {type(fn).__name__}")
    if not isinstance(np, int) or isinstance(np, bool):
        raise TypeError(f"np is a number of ranks, got {type(np).__name__}")
    if np < 1:
        raise _native.InvalidArgumentError(f"hvd.run: np is {np}, must be at least 1")
    if "OMPI_COMM_WORLD_RANK" in os.environ or "HOROVOD_RANK" in os.environ:
        raise _native.InvalidArgumentError("hvd.run was called on a rank of a running job")
    call = cloudpickle.dumps((fn, tuple(args), dict(kwargs or {})))
    with contextlib.ExitStack() as stack:
        job = _Job(np, call, stack)
        return job.results()


def _find_hvdrun():
    """The hvdrun that was installed with this package, else the one in PATH."""
    folders = [sysconfig.get_path("scripts"), str(pathlib.Path(sys.executable).parent)]
    found = shutil.which("hvdrun", path=os.pathsep.join(folders)) or shutil.which("hvdrun")
    if found is None:
        raise _native.UnsupportedError(
            "hvd.run needs hvdrun, which is neither in "
            + " nor in ".join(dict.fromkeys(folders)) + "; reinstall horovod_cpp")
    return found


class _Job:
    """The launcher process, its output and one connection a rank, served by the calling thread."""

    def __init__(self, np, call, stack):
        self._np = np
        self._call = call
        self._outcomes = {}  # rank -> (kind, value)
        self._failed = []  # ranks that failed, or ended without an outcome, in order
        self._ranks = {}  # connection -> rank
        self._tail = []  # the last lines of output
        self._partial = b""
        self._running = True
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hvd-", dir="/tmp"))
        address = os.path.join(folder, "run")
        self._listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        self._listener.bind(address)
        self._listener.listen(np)
        self._selector = stack.enter_context(selectors.DefaultSelector())
        self._process = subprocess.Popen(
            [_find_hvdrun(), "-np", str(np), sys.executable, "-u", "-m", "horovod_cpp.run_worker",
             address],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        stack.callback(self._stop)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._process.stdout, selectors.EVENT_READ, self._relay)

    def results(self):
        deadline = None
        while self._running:
            for key, _ in self._selector.select(timeout=0.5):
                key.data(key.fileobj)
            if deadline is None and self._first_failure() is not None:
                deadline = time.monotonic() + _AFTER_FAILURE
            if deadline is not None and time.monotonic() > deadline:
                break
        self._stop()
        if len(self._outcomes) < self._np or self._first_failure() is not None:
            raise self._error()
        return [pickle.loads(self._outcomes[rank][1]) for rank in range(self._np)]

    def _accept(self, listener):
        connection, _ = listener.accept()
        rank = receive(connection)
        send(connection, (sys.path, self._call))
        self._ranks[connection] = rank
        self._selector.register(connection, selectors.EVENT_READ, self._receive)

    def _receive(self, connection):
        rank = self._ranks[connection]
        try:
            self._outcomes[rank] = receive(connection)
            if self._outcomes[rank][0] == "failure":
                self._failed.append(rank)
        except (EOFError, ConnectionError):
            if rank not in self._outcomes:
                self._failed.append(rank)
            self._close(connection)

    def _close(self, connection):
        self._selector.unregister(connection)
        del self._ranks[connection]
        connection.close()

    def _relay(self, stream):
        """Passes on whole lines; the launcher has put the rank in front of each."""
        data = os.read(stream.fileno(), 1 << 16)
        if not data:
            self._selector.unregister(stream)
            self._running = False
        *lines, self._partial = (self._partial + data).split(b"\n")
        if not data and self._partial:
            lines.append(self._partial)
        for line in lines:
            text = line.decode(errors="replace")
            self._tail = [*self._tail[-19:], text]
            sys.stdout.write(text + "\n")
        if lines:
            sys.stdout.flush()

    def _first_failure(self):
        """The rank that failed first: what ranks say after that is a consequence."""
        return self._failed[0] if self._failed else None

    def _error(self):
        rank = self._first_failure()
        tail = "\n".join(self._tail)
        if rank is None:
            return RankError(f"the ranks of hvd.run did not start or ended early:\n{tail}")
        if rank not in self._outcomes:
            return RankError(f"rank {rank} ended without a result:\n{tail}", rank)
        failure = self._outcomes[rank][1]
        error = RankError(
            f"rank {rank} raised {failure['type']}: {failure['message']}\n\n"
            f"Traceback of rank {rank}:\n{failure['traceback']}", rank, failure["traceback"])
        if failure["exception"] is not None:
            with contextlib.suppress(Exception):
                error.__cause__ = pickle.loads(failure["exception"])
        return error

    def _stop(self):
        """Ends everything that still runs. Ranks leave when their connection closes."""
        for connection in list(self._ranks):
            self._close(connection)
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._process.stdout.close()
