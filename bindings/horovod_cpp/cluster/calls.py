"""What hvd.run and hvd.Cluster have in common: what they accept, what they raise, and where they show
what ranks print."""

import contextlib
import numbers
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from horovod_cpp import _native, pickling
from horovod_cpp.cluster.caller_loop import CallerLoop
from horovod_cpp.cluster.output import StreamView
from horovod_cpp.cluster.pool_worker import Outcome, first_failure

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_LONGEST = 1e9  # seconds of a time limit

_Error = TypeVar("_Error", bound=BaseException)


class RankError(_native.Error, RuntimeError):
    """A rank of ``hvd.run`` or ``hvd.Cluster`` failed. Its cause is the rank's own exception.

    Args:
        message: what happened.
        rank: see the attributes, and ``traceback``.
        rendered: the traceback as IPython shows it.

    Attributes:
        rank: the rank that failed first; None when the ranks could not be started.
        traceback: that rank's traceback as text; empty when it ended without one.
    """

    __module__ = "horovod_cpp"  # in tracebacks and pickles, as that of the other exceptions

    def __init__(self, message: str, rank: int | None = None, traceback: str = "",
                 rendered: str = "") -> None:
        super().__init__(message)
        self.rank = rank
        self.traceback = traceback
        self._rendered = rendered or traceback

    def _render_traceback_(self) -> list[str]:
        """For IPython: what happened on the rank, not the way through this package."""
        summary = f"{type(self).__name__}: {str(self).partition(chr(10) * 2)[0]}"
        return [*self._rendered.rstrip().splitlines(), "", *summary.splitlines()]


def check_call(what: str, fn: object, args: object, kwargs: object) -> None:
    """Of a function that ``what`` calls with its arguments, which come as one value each."""
    if not callable(fn):
        raise TypeError(f"{what} calls a function, got {type(fn).__name__}")
    if not isinstance(args, Iterable):
        raise TypeError(f"{what}: args must be a tuple or list of arguments, got {args!r} "
                        f"({type(args).__name__})")
    if not (kwargs is None or isinstance(kwargs, Mapping)):
        raise TypeError(f"{what}: kwargs must be a dict, got {kwargs!r} ({type(kwargs).__name__})")


def packed_call(fn: Callable[..., Any], args: Iterable[Any],
                kwargs: Mapping[str, Any] | None) -> bytes:
    return pickling.dumps((fn, tuple(args), dict(kwargs or {})))


def check_seconds(name: str, value: object) -> float | None:
    """A time limit; None: none. Returns it as a float."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is a number of seconds or None, got {type(value).__name__}")
    return _checked_seconds(name, float(value))


def _checked_seconds(name: str, value: float) -> float:
    if not 0 < value <= _LONGEST:
        raise _native.InvalidArgumentError(
            f"{name} is {value:g}, must be more than 0 and at most {_LONGEST:g} seconds, or None")
    return value


def start_limit(value: object, env: Mapping[str, str] | None) -> float:
    """Seconds that starting may take: the argument, else the variable."""
    given = check_seconds("start_timeout", value)
    if given is not None:
        return given
    name = "HOROVOD_START_TIMEOUT"
    found = setting(name, env)
    try:
        return _checked_seconds(name, float(found))
    except ValueError:
        raise _native.InvalidArgumentError(
            f"{name} is {found!r}, must be a number of seconds") from None


def check_env(env: object) -> None:
    if env is None:
        return
    if not isinstance(env, dict):
        raise TypeError(f"env is a dict of variables, got {type(env).__name__}")
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"env[{name!r}] is {value!r}: names and values of variables are str")
        if not name or "=" in name or "\0" in name + value or not _is_encodable(name + value):
            raise _native.InvalidArgumentError(f"env[{name!r}] is {value!r}: no variable can be so")


def _is_encodable(text: str) -> bool:
    try:
        return bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False


def refuse_on_a_rank(caller: str) -> None:
    if setting("HVD_WORLD") != "self" and (
            "OMPI_COMM_WORLD_RANK" in os.environ or "HOROVOD_RANK" in os.environ):
        raise _native.InvalidArgumentError(f"{caller} was called on a rank of a running job")


def setting(name: str, env: Mapping[str, str] | None = None) -> str:
    """Its value here, checked. Raises InvalidArgumentError on a malformed variable."""
    if env and name in env:
        return env[name]
    return next(row["value"] for row in _native.config() if row["name"] == name)


def failure_of(job: CallerLoop, outcomes: Mapping[int, Outcome], timeout: float | None = None,
               alive_after: bool = True) -> BaseException | None:
    """The exception that says what went wrong in a call; None when all ranks have a result.

    ``alive_after``: the ranks stay for another call.
    """
    rank = first_failure(outcomes)
    if rank is None:
        return None
    note = _note(outcomes, job.engines_run) if alive_after else ""
    outcome = outcomes[rank]
    if job.interrupted:
        return _brief(KeyboardInterrupt(_places(outcomes) + note))
    if outcome.stopped:
        return _brief(TimeoutError(
            f"the call took longer than {timeout:g} s\n{_places(outcomes)}{note}"))
    if outcome.kind == "ended":
        return RankError(f"rank {rank} {outcome.value} during the call"
                         f"{job.last_lines(rank)}{note}", rank)
    failure = outcome.value
    error = RankError(
        f"rank {rank} raised {failure['type']}: {failure['message']}{note}\n\n"
        f"Traceback of rank {rank}:\n{failure['traceback'].rstrip()}", rank, failure["traceback"],
        failure["rendered"])
    if failure["exception"] is not None:
        with contextlib.suppress(Exception):
            error.__cause__ = pickle.loads(failure["exception"])
    return error


def results_of(outcomes: Mapping[int, Outcome]) -> list[Any]:
    """What the ranks returned, in order. Raises RankError where that cannot be made again here."""
    return [_result(rank, outcome.value) for rank, outcome in outcomes.items()]


def _result(rank: int, data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except Exception as error:
        raise RankError(f"what rank {rank} returned cannot be unpickled here: "
                        f"{type(error).__name__}: {error}", rank) from error


def _brief(error: _Error) -> _Error:
    """IPython shows it without the way through this package."""
    render = "_render_traceback_"
    setattr(error, render, lambda: f"{type(error).__name__}: {error}".splitlines())
    return error


def _places(outcomes: Mapping[int, Outcome]) -> str:
    """Where ranks were interrupted, a line for each."""
    return "\n".join(f"rank {rank} was at {outcome.value['where']}"
                     for rank, outcome in outcomes.items() if outcome.kind == "failure")


def _note(outcomes: Mapping[int, Outcome], engines_run: bool) -> str:
    """What the user has to know before the next call."""
    notes = []
    ended = [str(rank) for rank, outcome in outcomes.items() if outcome.kind == "ended"]
    killed = [str(rank) for rank, outcome in outcomes.items()
              if outcome.kind == "ended" and outcome.stopped]
    if killed:
        notes.append(f"did not react to the interrupt and was killed: rank {', '.join(killed)}")
    if ended:
        notes.append(f"the variables of rank {', '.join(ended)} are lost; "
                     "those of other ranks are kept")
    if not engines_run:
        notes.append("hvd.init() is called again on all ranks before the next call: make process "
                     "sets and DistributedOptimizer again, and broadcast the parameters")
    return "".join(f"\n({note})" for note in notes)


def shell_here() -> "InteractiveShell | None":
    """The IPython that this program runs in; None outside one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def view_here() -> tuple[StreamView, bool]:
    """Where this program shows what ranks print and display: on its streams, or in a notebook; and
    whether it can show pictures and the like there."""
    if getattr(shell_here(), "kernel", None) is None:
        return StreamView(), False
    from horovod_cpp.cluster.notebook_view import NotebookView

    return NotebookView(), True
