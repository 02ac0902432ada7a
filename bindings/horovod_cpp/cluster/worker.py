"""One rank of hvd.run or hvd.Cluster: waits for calls and answers them."""

import contextlib
import ctypes
import faulthandler
import io
import os
import pathlib
import pickle
import select
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import horovod_cpp
from horovod_cpp import _native, pickling
from horovod_cpp.cluster import pool_worker, wire
from horovod_cpp.engine_thread import start_engine_thread

if TYPE_CHECKING:
    from horovod_cpp.cluster.worker_shell import Shell

_PACKAGE = str(pathlib.Path(__file__).parents[1])


def main() -> None:
    address = os.environ.pop(pool_worker.ADDRESS)
    key = bytes.fromhex(os.environ.pop(pool_worker.KEY))
    caller = os.environ.pop(pool_worker.CALLER, None)
    mark = os.environ.get(pool_worker.MARK)
    if mark is not None:
        mark = f"{pool_worker.MARK}={mark}"
    if caller is not None and mark is not None:
        _native._end_with(int(caller), mark)
    channel = wire.connect(address, key)
    channel.send(("hello", _rank_of_launcher(), os.getpid()))
    if mark is None:
        start_engine_thread(_leave_with_caller, channel)
    Worker(channel, mark, is_local=caller is not None).serve()


def _rank_of_launcher() -> int:
    return int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["HOROVOD_RANK"])


def _leave_with_caller(channel: wire.Channel) -> None:
    """For ranks that a launcher started, which ends the others when one ends."""
    end = select.poll()
    end.register(channel, select.POLLRDHUP)
    end.poll()
    os._exit(1)


class Worker:
    """Answers the messages of the caller, one after the other, on the main thread."""

    def __init__(self, channel: wire.Channel, mark: str | None, is_local: bool) -> None:
        self._channel = channel
        self._is_local = is_local  # the caller can look at this process
        self._mark = mark  # of what it starts
        self._process = os.getpid()
        self._sending = threading.Lock()  # threads of the user's may display things
        self._interruptible = False
        self._interrupt_waits = False
        self._rendered = ""  # the error of the last cell, as IPython shows it
        self._shell: "Shell | None" = None
        self._libc = ctypes.CDLL(None)
        self.main = types.ModuleType("__main__")
        self.namespace = vars(self.main)
        self.namespace["hvd"] = horovod_cpp
        self._jobs: dict[str, Callable[..., bytes | None]] = {
            "setup": self._set_up, "init": self._init, "call": self._call,
            "cell": self._cell, "push": self._push, "pull": self._pull}

    def serve(self) -> None:
        sys.modules["__main__"] = self.main
        assert isinstance(sys.stdout, io.TextIOWrapper)  # for mypy
        sys.stdout.reconfigure(line_buffering=True)
        faulthandler.enable()
        signal.signal(signal.SIGINT, self._on_interrupt)
        while True:
            try:
                kind, *arguments = self._channel.receive()
            except (EOFError, OSError):  # the caller has ended: as _end_with(), which may be slower
                if self._mark is not None:
                    _native._kill_marked(self._mark)
                os._exit(1)
            if kind == "leave":
                _shut_down()  # whatever Python believes about how this program ended
                return
            if kind == "drop":
                _shut_down()
                self.flush()
                self.send(("dropped",))
                continue
            calls = _native._calls()
            outcome = self._attempt(self._jobs[kind], arguments)
            self.flush()
            if os.getpid() != self._process:
                _end_fork(outcome)
            self.send(("outcome", *outcome, _native._is_running(), _native._calls() == calls,
                       0 if self._is_local else pool_worker.memory_of(self._process)))
            del outcome, arguments

    def send(self, message: tuple[Any, ...]) -> None:
        if os.getpid() != self._process:
            return  # a fork: the channel is its parent's
        with self._interrupts_wait(), self._sending:
            self._channel.send(message)

    def _send_after_output(self, message: tuple[Any, ...]) -> None:
        self.flush()
        self.send(message)

    @contextlib.contextmanager
    def _interrupts_wait(self) -> Iterator[None]:
        """The caller could not read half a message, or one that is sent twice."""
        if threading.current_thread() is not threading.main_thread():
            yield  # no signal is handled there
            return
        self._interrupt_waits = False
        interruptible, self._interruptible = self._interruptible, False
        try:
            yield
        finally:
            self._interruptible = interruptible
            if interruptible and self._interrupt_waits:
                self._interruptible = False
                raise KeyboardInterrupt

    def flush(self) -> None:
        """So that the caller has all output before what is sent next."""
        for name in ("stdout", "stderr"):
            with contextlib.suppress(BaseException):  # the user's own stream, closed, or deleted
                getattr(sys, name).flush()
        self._libc.fflush(None)

    def _on_interrupt(self, number: int, frame: types.FrameType | None) -> None:
        """Once a call, and only while the user's code runs."""
        if self._interruptible:
            self._interruptible = False
            raise KeyboardInterrupt
        self._interrupt_waits = True

    def _attempt(self, job: Callable[..., bytes | None],
                 arguments: list[Any]) -> tuple[str, bytes | None | dict[str, Any]]:
        signal.signal(signal.SIGINT, self._on_interrupt)  # the user may have set another one
        self._rendered = ""
        try:
            try:
                self._interruptible = True
                self.send(("begun",))  # an interrupt that came earlier would be lost
                return "result", job(*arguments)
            finally:
                self._interruptible = False
        except BaseException as error:
            return "failure", _describe(error, self._rendered)

    def _set_up(self, search_path: list[str], argv: list[str], environment: Mapping[str, str],
                with_display: bool) -> None:
        sys.path[:] = search_path
        sys.argv[:] = argv
        os.environ.update(environment)
        if with_display:
            self._make_shell()

    def _make_shell(self) -> "Shell":
        if self._shell is None:
            from horovod_cpp.cluster.worker_shell import make_shell

            self._shell = make_shell(self.main, self._send_after_output)
        return self._shell

    def _init(self, rendezvous: Mapping[str, str]) -> None:
        _shut_down()
        os.environ.update(rendezvous)
        _native._init()

    def _call(self, data: bytes, search_path: list[str]) -> bytes:
        sys.path[:] = search_path
        function, args, kwargs = pickle.loads(data)
        with self._sees_namespace(function):
            result = function(*args, **kwargs)
        if self._shell is not None:
            self._shell.events.trigger("post_execute")  # shows figures that are left open
        return pickling.dumps(result)

    @contextlib.contextmanager
    def _sees_namespace(self, function: object) -> Iterator[None]:
        """A function that came by value brings the globals that its caller has. It finds others in
        the namespace; those that it sets are kept there."""
        own = getattr(function, "__globals__", None)
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        if own is None or own is getattr(module, "__dict__", None):
            yield
            return
        for name, value in self.namespace.items():
            own.setdefault(name, value)
        before = dict(own)
        try:
            yield
        finally:
            self.namespace.update({
                name: value for name, value in own.items()
                if not name.startswith("__") and before.get(name, before) is not value})

    def _cell(self, source: str, number: int) -> None:
        error, self._rendered = self._make_shell().run(source, number)
        if error is not None:
            raise error

    def _push(self, data: bytes) -> None:
        self.namespace.update(pickle.loads(data))

    def _pull(self, name: str) -> bytes:
        if name not in self.namespace:
            raise NameError(f"name {name!r} is not defined on this rank", name=name)
        return pickling.dumps(self.namespace[name])


def _shut_down() -> None:
    with contextlib.suppress(_native.Error):  # the job may have failed already
        _native.shutdown()


def _end_fork(outcome: tuple[str, Any]) -> None:
    """What a function forked has returned from it: it must not answer the caller too."""
    kind, value = outcome
    if kind == "failure":
        os.write(2, value["traceback"].encode(errors="backslashreplace"))
    os._exit(0 if kind == "result" else 1)


def _describe(error: BaseException, rendered: str) -> dict[str, Any]:
    """The failure as plain values, whatever methods the exception has."""
    kind = type(error).__name__
    told: dict[str, Any] = {
        "type": kind, "message": _text(error), "traceback": f"{kind}\n", "rendered": rendered,
        "exception": None, "lost_others": isinstance(error, _native.HorovodInternalError),
        "where": "?"}
    with contextlib.suppress(BaseException):
        told |= _traceback_of(error)
    with contextlib.suppress(BaseException):
        pickled = pickling.dumps(error)
        pickle.loads(pickled)
        told["exception"] = pickled  # only if it survives that
    return told


def _traceback_of(error: BaseException) -> dict[str, str]:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        trace = trace.tb_next
    told = traceback.TracebackException(type(error), error, trace)
    while told.stack and told.stack[-1].filename == __file__:  # that raised KeyboardInterrupt
        told.stack.pop()
    return {"traceback": "".join(told.format()),
            "where": "".join(f"{at.filename}:{at.lineno} in {at.name}" for at in told.stack[-1:])}


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as other:
        return f"(its __str__ raised {type(other).__name__})"
