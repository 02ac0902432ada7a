"""One rank of hvd.run or hvd.Cluster: waits for calls and answers them."""

import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import io
import mmap
import os
import pathlib
import pickle
import signal
import sys
import termios
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import horovod_cpp
from horovod_cpp import _native, pickling
from horovod_cpp.cluster import wire

if TYPE_CHECKING:
    from horovod_cpp.cluster.worker_shell import Shell

_PACKAGE = str(pathlib.Path(__file__).parents[1])


# Through them a rank finds its caller; it forgets them at once.
ADDRESS, KEY, PROCESS = "HVD_WORKER_ADDRESS", "HVD_WORKER_KEY", "HVD_WORKER_PROCESS"

_INTERRUPT_COMES = 0.2  # seconds; user code may have set a handler that does not count it

# Not -m: the namespace of a rank is its __main__, and has nothing of ours in it.
WORKER = ("-P", "-c", "from horovod_cpp.cluster.worker import main; main()")


def main() -> None:
    address = os.environ.pop(ADDRESS)
    channel = wire.connect(address, bytes.fromhex(os.environ.pop(KEY)))
    channel.send(("hello", int(os.environ["HOROVOD_RANK"]), int(os.environ.pop(PROCESS)),
                  os.getpid()))
    Worker(channel, is_local=address.startswith("unix:")).serve()


def memory_of(process: int) -> int:
    """Bytes of main memory that it takes; 0 when it has just ended."""
    try:
        pages = int(pathlib.Path(f"/proc/{process}/statm").read_text("ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class _OutputCount:
    """What this process and those that it started have written to the pipes of hvdrun's agent; the
    other side is runner/output_count.h."""

    def __init__(self) -> None:
        path, inode, *pipes = os.environ.pop("HVDRUN_OUTPUT_COUNT").split()
        # Behind a script with pipes of its own, this process writes to others than the agent's.
        self._pipes: list[tuple[int, os.stat_result]] = []
        for stream, pipe in zip((1, 2), pipes, strict=True):
            with contextlib.suppress(OSError):  # closed
                if os.readlink(f"/proc/self/fd/{stream}") == pipe:
                    self._pipes.append((stream, os.fstat(stream)))
        self._read = memoryview(bytes(8)).cast("Q")
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if os.fstat(file.fileno()).st_ino == int(inode):  # else it is of another container
                self._read = memoryview(mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)).cast("Q")

    def bytes_so_far(self) -> int:
        while True:
            before = self._read[0]
            waiting = sum(self._waiting_in(*pipe) for pipe in self._pipes)
            if before % 2 == 0 and self._read[0] == before:
                return before // 2 + waiting
            time.sleep(0)  # the agent is reading

    @staticmethod
    def _waiting_in(stream: int, pipe: os.stat_result) -> int:
        with contextlib.suppress(OSError):  # closed
            if os.path.samestat(os.fstat(stream), pipe):  # else the user has redirected it
                return int.from_bytes(fcntl.ioctl(stream, termios.FIONREAD, bytes(4)), sys.byteorder)
        return 0


class Worker:
    """Answers the messages of the caller, one after the other, on the main thread."""

    def __init__(self, channel: wire.Channel, is_local: bool) -> None:
        self._channel = channel
        self._is_local = is_local  # the caller can look at this process
        self._output = _OutputCount()
        self._process = os.getpid()
        self._sending = threading.Lock()  # threads of the user's may display things
        self._interruptible = False
        self._interrupt_waits = False
        self._interrupts = 0  # that came, of those which the caller tells of in "interrupted"
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
        if isinstance(sys.stdout, io.TextIOWrapper):  # else it is closed
            sys.stdout.reconfigure(line_buffering=True)
        if sys.stderr is not None:
            faulthandler.enable()
        signal.signal(signal.SIGINT, self._on_interrupt)
        while True:
            try:
                kind, *arguments = self._channel.receive()
            except (EOFError, OSError):  # the caller has ended
                os._exit(1)
            if kind == "leave":
                _shut_down()  # whatever Python believes about how this program ended
                return
            if kind == "interrupted":
                self._await_interrupts(*arguments)
                continue
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
                       0 if self._is_local else memory_of(self._process)))
            del outcome, arguments

    def send(self, message: tuple[Any, ...]) -> None:
        if os.getpid() != self._process:
            return  # a fork: the channel is its parent's
        kind, *content = message
        with self._interrupts_wait(), self._sending:
            # That it has begun is told at once.
            written = 0 if kind == "begun" else self._output.bytes_so_far()
            self._channel.send((kind, written, *content))

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
        """So that the caller has all output before the next message."""
        for name in ("stdout", "stderr"):
            with contextlib.suppress(BaseException):  # the user's own stream, closed, or deleted
                getattr(sys, name).flush()
        self._libc.fflush(None)

    def _on_interrupt(self, number: int, frame: types.FrameType | None) -> None:
        """Once per call, and only while the user's code runs."""
        self._interrupts += 1
        if self._interruptible:
            self._interruptible = False
            raise KeyboardInterrupt
        self._interrupt_waits = True

    def _await_interrupts(self, number: int) -> None:
        """This many were sent in calls that are over, through hvdrun: they are not for the next."""
        deadline = time.monotonic() + _INTERRUPT_COMES
        while self._interrupts < number and time.monotonic() < deadline:
            time.sleep(0.001)
        self._interrupts = 0

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

    def _set_up(self, search_path: list[str], argv: list[str], with_display: bool) -> None:
        sys.path[:] = search_path
        sys.argv[:] = argv
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
        with self._sees_namespace((function, *args, *kwargs.values())):
            result = function(*args, **kwargs)
        if self._shell is not None:
            self._shell.events.trigger("post_execute")  # shows figures that are left open
        return pickling.dumps(result)

    @contextlib.contextmanager
    def _sees_namespace(self, called: Iterable[object]) -> Iterator[None]:
        """Functions that came by value bring the globals that their caller has. They find others in
        the namespace; those that they set are kept there."""
        brought = _globals_brought_by(called)
        for own in brought:
            own.update(self.namespace | own)
        before = [dict(own) for own in brought]
        try:
            yield
        finally:
            self.namespace.update({
                name: value for own, old in zip(brought, before, strict=True)
                for name, value in own.items()
                if not name.startswith("__") and old.get(name, old) is not value})

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


def _globals_brought_by(called: Iterable[object]) -> list[dict[str, Any]]:
    """Of functions that came by value, below decorators, functools.partial and __call__ too."""
    brought: dict[int, dict[str, Any]] = {}
    seen: dict[int, object] = {}  # keeps them: a number is used again
    waiting = list(called)
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, functools.partial):
            waiting += [part.func, *part.args, *part.keywords.values()]
        elif isinstance(part, types.MethodType):
            waiting.append(part.__func__)
        elif isinstance(part, types.FunctionType):
            own = part.__globals__
            if own is not getattr(sys.modules.get(own.get("__name__", "")), "__dict__", None):
                brought[id(own)] = own
                waiting += [cell.cell_contents for cell in part.__closure__ or ()
                            if cell != types.CellType()]
        else:
            waiting.append(getattr(type(part), "__call__", None))
    return list(brought.values())


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
