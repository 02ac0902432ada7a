"""How ranks that share a store of PyTorch's find each other: what rank 0 would leave in the
file of HVD_RENDEZVOUS=file:// goes to the others through the store."""

import contextlib
import datetime
import os
import pathlib
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from horovod_cpp import _native

# Anybody who reaches the store can write to it; the engine checks the rest.
_NOTE = re.compile(rb"horovod_cpp rendezvous 2\n[^\n]*\n[^\n]+\n[0-9a-f]{32}\n([^\n]+\n)*")

_inits = 0  # of this process under torchrun, equal on all ranks


def seconds_left(deadline: float) -> float:
    """Until time.monotonic() is ``deadline``; at least a millisecond."""
    return max(deadline - time.monotonic(), 0.001)


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets these variables of the process until the end."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def meeting_through(store: Any, key: str, rank: int, deadline: float) -> Iterator[str]:
    """The HVD_RENDEZVOUS with which the engine of this rank has to start meanwhile.

    Args:
        store: what all ranks have in common, with set, wait and get as torch.distributed.Store.
        key: under which rank 0 leaves its text there, new for each meeting.
        deadline: by time.monotonic().

    Raises:
        InvalidArgumentError: there is something other than that text.
        StalledError: rank 0 left none in time.
    """
    with tempfile.TemporaryDirectory(prefix="horovod_cpp-") as folder:
        file = pathlib.Path(folder, "meeting")
        if rank != 0:
            file.touch(0o600)
            file.write_bytes(_note_of(store, key, deadline))
            yield f"file://{file}"
            return
        over = threading.Event()

        def publish() -> None:
            while not over.wait(0.001):
                if file.exists():  # from then on it is whole
                    store.set(key, file.read_bytes())
                    return

        with ThreadPoolExecutor(1) as pool:
            published = pool.submit(publish)
            try:
                yield f"file://{file}"
            finally:
                over.set()
            published.result()


def _note_of(store: Any, key: str, deadline: float) -> bytes:
    seconds = seconds_left(deadline)
    try:
        store.wait([key], datetime.timedelta(seconds=seconds))
    except RuntimeError as error:
        raise _native.StalledError(
            f"rank 0 did not come to the meeting within {seconds:.3g} s: {error}") from None
    note = bytes(store.get(key))
    if not _NOTE.fullmatch(note):
        raise _native.InvalidArgumentError(
            "what PyTorch's store has for rank 0 is not what rank 0 writes: another program writes "
            "into it, or another version of horovod_cpp; use another port or file")
    return note


@contextlib.contextmanager
def meeting_of_torchrun() -> Iterator[None]:
    """Lets the engine start under torchrun on several hosts, whose agent listens at MASTER_PORT; does
    nothing elsewhere, nor where HVD_RENDEZVOUS names a place."""
    global _inits
    launcher, rank, size = _native._launch_info()
    if (launcher != "torchrun" or rank is None or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
            or os.environ.get("LOCAL_WORLD_SIZE") == str(size)
            or os.environ.get("HVD_RENDEZVOUS", "env://") not in ("", "env://")):
        yield
        return
    from torch.distributed import TCPStore
    seconds = float(next(row["value"] for row in _native.config()
                         if row["name"] == "HOROVOD_START_TIMEOUT"))
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False,
                     timeout=datetime.timedelta(seconds=seconds))
    _inits += 1
    # The store outlives an attempt.
    key = f"horovod_cpp/init/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}/{_inits}"
    with (meeting_through(store, key, rank, time.monotonic() + seconds) as url,
          environment({"HVD_RENDEZVOUS": url})):
        yield
