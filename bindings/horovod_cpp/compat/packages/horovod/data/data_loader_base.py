"""horovod.data.data_loader_base"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from horovod_cpp.engine_thread import start_engine_thread

_END = object()


class BaseDataLoader:
    """A loader; derive from it with ``__len__`` and ``_iterate``."""

    def __len__(self) -> int:
        """Batches in one pass."""
        raise NotImplementedError

    def _iterate(self) -> Iterable[Any]:
        """The batches of one pass."""
        raise NotImplementedError

    def _process_batch(self, batch: Any) -> Any:
        """What the program gets of a batch; runs on its thread."""
        return batch

    def __iter__(self) -> Iterator[Any]:
        """Start a pass."""
        for batch in self._iterate():
            yield self._process_batch(batch)


class _Pass:
    """One pass that a thread reads ahead, at most ``size`` batches."""

    def __init__(self, iterate: Callable[[], Iterable[Any]], size: int) -> None:
        self._iterate = iterate
        self._batches: queue.Queue[Any] = queue.Queue(size)
        self._ended = threading.Event()
        start_engine_thread(self._read, name="AsyncDataLoader")

    def _read(self) -> None:
        try:
            for batch in self._iterate():
                if self._ended.is_set():
                    return
                self._batches.put((batch, None))
            last: tuple[Any, BaseException | None] = (_END, None)
        except BaseException as error:  # for the thread that takes the batches
            last = (_END, error)
        if not self._ended.is_set():
            self._batches.put(last)

    def __iter__(self) -> Iterator[Any]:
        while not self._ended.is_set():
            batch, error = self._batches.get()
            if error is not None:
                raise error
            if batch is _END:
                return
            yield batch

    def end(self) -> None:
        """The reader stops after the batch that it is at: its put() finds room, and it looks then."""
        self._ended.set()
        while True:
            try:
                self._batches.get_nowait()
            except queue.Empty:
                break


class AsyncDataLoaderMixin:
    """In front of a BaseDataLoader: a thread reads each pass ahead.

        class Ahead(AsyncDataLoaderMixin, Loader): ...

    Args:
        async_loader_queue_size: how many batches; 0: no thread.
        debug_data_loader: Horovod's; not looked at.
    """

    def __init__(self, async_loader_queue_size: int = 64, debug_data_loader: bool = False,
                 *args: Any, **kwargs: Any) -> None:
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self._pass: _Pass | None = None
        super().__init__(*args, **kwargs)

    def close_async_loader(self) -> None:
        """End the pass that is being read, if there is one."""
        ended, self._pass = self._pass, None
        if ended is not None:
            ended.end()

    def __iter__(self) -> Iterator[Any]:
        """Start a pass; the one before ends."""
        self.close_async_loader()
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()  # type: ignore[misc]  # the loader's
            return
        reading = self._pass = _Pass(self._iterate, self.async_loader_queue_size)  # type: ignore[attr-defined]
        try:
            for batch in reading:
                yield self._process_batch(batch)  # type: ignore[attr-defined]
        finally:
            reading.end()
