"""From init_process_group() to destroy_process_group(): how the engine is started and ended."""

import atexit
import contextlib
import datetime
import multiprocessing
import multiprocessing.util
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlparse

import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from horovod_cpp import _native, broadcast_object
from horovod_cpp.cluster.listener import own_addresses
from horovod_cpp.store_meeting import environment, meeting_through, seconds_left
from horovod_cpp.torch.distributed.groups import Group, Groups
from horovod_cpp.torch.distributed.work import Finisher, seconds_of

_LONGEST_START = 60  # seconds: HOROVOD_START_TIMEOUT's default
_PROBE = 10.0  # seconds that one address of rank 0 is tried

# Launchers whose ranks meet through PyTorch's store.
_THROUGH_STORE = ("", "torchrun", "Slurm", "whoever set RANK and WORLD_SIZE")

_current: "Session | None" = None
_begun_here = False  # the engine that runs
_store: Any = None  # rank 0's for the others, who may still ask after it destroyed its groups
_meetings = 0  # of this process, equal on all ranks


class Session:
    """The default process group's engine and what its groups share."""

    def __init__(self) -> None:
        self.finisher = Finisher()
        self.groups = Groups()
        self._is_open = True
        self._process = os.getpid()
        # The engine leaves by itself when the process ends; threads have to before the interpreter.
        atexit.register(self._end_threads)
        if multiprocessing.parent_process() is not None:  # those have no exit handlers
            multiprocessing.util.Finalize(None, self._end_of_child, exitpriority=0)

    def close(self) -> None:
        """Ends it, and the engine unless the program began it. Any number of times."""
        global _begun_here
        if not self._is_open or os.getpid() != self._process:  # a fork has its parent's
            return
        self._end_threads()
        if _begun_here:
            _native.shutdown()
        _begun_here = False

    def _end_threads(self) -> None:
        self._is_open = False
        atexit.unregister(self._end_threads)
        self.groups.close()
        self.finisher.close()

    def _end_of_child(self) -> None:
        if sys.exc_info()[0] is None:  # else the other ranks learn that this one failed
            self.close()


def begin(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> tuple[Session, Group]:
    """(Session, Group) of the default process group: meets the other ranks unless they have met.

    Args:
        store: PyTorch's, which all ranks of the group have in common.
        rank, size: as init_process_group() was told, or found.
        timeout: a timedelta.

    Raises:
        InvalidArgumentError: the engine, or what started this process, says another rank or size;
            the store was used before.
        StalledError: ranks did not come in time.
    """
    global _current, _meetings
    if not 0 <= rank < size:
        raise _native.InvalidArgumentError(
            f"init_process_group(): rank {rank} of {size}; ranks are 0 to world_size-1")
    if _current is not None:
        _current.close()  # PyTorch has forgotten its groups
        _current = None
    _meetings += 1
    if not _native.is_initialized():
        _start(store, rank, size, timeout)
    _check_place("hvd.init()", _native.rank(), _native.size(), rank, size)
    _current = Session()
    return _current, Group(0, list(range(size)), _native.global_process_set)


def current() -> Session:
    """The Session of the default process group. Raises InvalidArgumentError if there is none."""
    if _current is None or not dist.is_initialized():
        raise _native.InvalidArgumentError(
            "new_group(backend=\"horovod_cpp\") needs a default process group of that backend: "
            "init_process_group(\"horovod_cpp\") comes first")
    return _current


def _check_place(who: str, our_rank: int | None, our_size: int | None, rank: int,
                 size: int) -> None:
    if (our_rank, our_size) != (rank, size):
        raise _native.InvalidArgumentError(
            f"this process is rank {our_rank} of {our_size}, as {who} says, but "
            f"init_process_group() was told rank {rank} of {size}")


def _start(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> None:
    global _begun_here
    deadline = time.monotonic() + seconds_of(timeout)  # of all that follows together
    launcher, its_rank, its_size = _native._launch_info()
    meeting: contextlib.AbstractContextManager[dict[str, str]] = contextlib.nullcontext({})
    if launcher not in _THROUGH_STORE and its_size != 1:
        _check_place(launcher, its_rank, its_size, rank, size)
    else:
        meeting = _meeting(store, rank, size, deadline)
    with meeting as place, environment({**_limits(timeout, deadline), **place}):
        _native._init()
    _begun_here = True


def _limits(timeout: datetime.timedelta, deadline: float) -> dict[str, str]:
    """Settings that PyTorch's timeout stands for, where the user has set none."""
    limits = {"HOROVOD_START_TIMEOUT": min(seconds_left(deadline), _LONGEST_START),
              "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": seconds_of(timeout)}
    return {name: f"{value:.3f}" for name, value in limits.items() if name not in os.environ}


@contextlib.contextmanager
def _meeting(store: Any, rank: int, size: int, deadline: float) -> Iterator[dict[str, str]]:
    """The variables by which the engine of every rank finds the others."""
    place = {"HOROVOD_RANK": str(rank), "HOROVOD_SIZE": str(size), "HOROVOD_CONTROLLER": "gloo"}
    if size == 1:
        yield place
        return
    # torchrun's store outlives an attempt.
    prefix = f"horovod_cpp/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}/{_meetings}"
    if store.add(f"{prefix}/rank{rank}", 1) != 1:
        raise _native.InvalidArgumentError(
            f"another process was rank {rank} of this init_method: two processes have the same "
            "rank, or an earlier run left its file or store behind; use another file or port")
    if os.environ.get("LOCAL_WORLD_SIZE") == str(size):
        place["HOROVOD_LOCAL_SIZE"] = str(size)  # rank 0 listens for this host alone
    with meeting_through(store, f"{prefix}/place", rank, deadline) as url:
        yield {**place, "HVD_RENDEZVOUS": url}


def meet_by_engine(url: str, timeout: datetime.timedelta = default_pg_timeout,
                   **_: Any) -> Iterator[tuple[Any, int, int]]:
    """PyTorch's rendezvous for init_method="hvd://": the ranks that hvd.init() finds.

    Yields (store, rank, size), once. Errors as hvd.init(), and InvalidArgumentError for another
    rank or world size than it finds.
    """
    global _begun_here, _store
    if not _native.is_initialized():
        with environment(_limits(timeout, time.monotonic() + seconds_of(timeout))):
            _native._init()
        _begun_here = True
    rank, size = _native.rank(), _native.size()
    told = {name: int(values[0]) for name, values in parse_qs(urlparse(url).query).items()}
    _check_place("hvd.init()", rank, size, told.get("rank", rank), told.get("world_size", size))
    is_one_host = _native.local_size() == size
    options = {"timeout": timeout, "wait_for_workers": False}
    place, _store = None, None
    if rank == 0:
        hosts = ["127.0.0.1"] if is_one_host else own_addresses()
        _store = dist.TCPStore(hosts[0], 0, size, True, **options)
        place = hosts, _store.port
    hosts, port = broadcast_object(place, name="torch.store")
    yield _store or dist.TCPStore(_reachable(hosts, port), port, size, False, **options), rank, size


def _reachable(hosts: Sequence[str], port: int) -> str:
    """The first of rank 0's addresses on which its store answers: others may be of networks that
    this machine is not in. Raises PeerLostError if there is none."""
    failures = []
    for host in hosts:
        try:
            socket.create_connection((host, port), _PROBE).close()
            return host
        except OSError as error:
            failures.append(f"{host}: {error}")
    raise _native.PeerLostError(
        f"{socket.gethostname()} cannot reach PyTorch's store on rank 0, port {port}: "
        + "; ".join(failures) + "; HOROVOD_GLOO_IFACE on rank 0 names the interfaces to use")
