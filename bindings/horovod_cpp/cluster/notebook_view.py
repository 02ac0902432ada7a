"""What ranks print and display, in a notebook."""

import dataclasses
import importlib.util
import sys
import time
from collections.abc import Mapping
from typing import Any

from IPython.display import DisplayHandle, clear_output, display, publish_display_data

from horovod_cpp.cluster.output import WIDGET, Item, StreamView, Text, widget_in

_UPDATE = 0.1  # seconds between two updates of the lines that change
# Of widgets on ranks, which are here under the same numbers.
_comms: dict[str, Any] = {}
_frames: dict[str, list[Any]] = {}  # what stands around one that was displayed: box and label


def _without_widget(data: dict[str, Any]) -> dict[str, Any]:
    """Where there is another form: the notebook does not know this one."""
    return {kind: content for kind, content in data.items()
            if kind != WIDGET or len(data) == 1}


def _show_widget(rank: int, data: Mapping[str, Any]) -> bool:
    """Displays a widget with the rank in front of it. Returns False if ``data`` has none that the
    notebook knows."""
    name = widget_in(data)
    if name is None or name not in _comms:
        return False
    import ipywidgets

    label = ipywidgets.Label(f"[{rank}]")
    box = ipywidgets.HBox([label])
    # A child of whose state this kernel knows nothing.
    box.comm.send({"method": "update", "state": {
        "children": [f"IPY_MODEL_{part}" for part in (label.model_id, name)]}})
    _frames[name] = [box, label]
    display({**data, WIDGET: {**data[WIDGET], "model_id": box.model_id},
             "text/plain": f"[{rank}] {data.get('text/plain', '')}"}, raw=True)
    return True


@dataclasses.dataclass(eq=False)
class _Row:
    """A line that changes, or did."""

    rank: int
    stream: str
    turn: int  # how many this rank had before
    text: str = ""
    is_open: bool = True


class NotebookView(StreamView):
    """Lines that change, such as progress bars, are one display that is updated in place, with a
    row for each rank."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[_Row] = []  # of the display
        self._display: DisplayHandle | None = None
        self._updated = 0.0
        self._is_stale = False
        self._wrote_since = False  # something below the display

    def show(self, rank: int | None, item: Item) -> None:
        if isinstance(item, Text):
            self.write(rank, item.stream, item.line)
            return
        if rank is not None and _show_widget(rank, item.data):
            self._wrote_since, self._all = True, False
            return
        data = _without_widget(item.data)
        plain_only = set(data) <= {"text/plain"} and not item.transient
        if plain_only:
            self.write(rank, "stdout", data.get("text/plain", ""))
            return
        if not item.update:
            self._head(rank)
        transient = dict(item.transient)
        if "display_id" in transient:  # ranks may use the same
            transient["display_id"] = f"hvd-{rank}-{transient['display_id']}"
        publish_display_data(data, item.metadata, transient=transient, update=item.update)

    def live(self, rank: int, stream: str, text: str) -> None:
        row = self._row(rank, stream)
        row.text = text
        self._is_stale = True
        self.flush_due(time.monotonic())

    def end_live(self, rank: int, stream: str, text: str) -> None:
        row = self._row(rank, stream)
        row.text, row.is_open = text, False
        if not text.strip():
            self._rows.remove(row)
        self._is_stale = True

    def clear(self, wait: bool) -> None:
        clear_output(wait)

    def comm(self, kind: str, name: str, data: Any, metadata: Any, buffers: list[bytes],
             keys: Mapping[str, Any]) -> None:
        """Passes on what a widget says: "comm_open", then "comm_msg" again and again, "comm_close"."""
        if any(importlib.util.find_spec(package) is None for package in ("comm", "ipywidgets")):
            return
        import comm

        content = {"data": data, "metadata": metadata, "buffers": buffers}
        if kind == "comm_open":
            _comms[name] = comm.create_comm(comm_id=name, **content, **keys)
        elif kind == "comm_msg" and name in _comms:
            _comms[name].send(**content)
        elif name in _comms:
            _comms.pop(name).close(**content)
            for part in _frames.pop(name, []):
                part.close()

    def due(self) -> float | None:
        return self._updated + _UPDATE if self._is_stale else None

    def flush_due(self, now: float) -> None:
        if self._is_stale and now >= self._updated + _UPDATE:
            self._update(now)

    def finish(self) -> None:
        if self._is_stale:
            self._update(time.monotonic())
        self._rows, self._display, self._all = [], None, False

    def write(self, rank: int | None, stream: str, text: str) -> None:
        self._wrote_since = True
        super().write(rank, stream, text)

    def _head(self, rank: int | None) -> None:
        """What comes is of this rank."""
        self._wrote_since = True
        if rank is not None or not self._all:
            sys.stdout.write("all ranks:\n" if rank is None else f"[{rank}]\n")
        self._all = rank is None
        sys.stdout.flush()

    def _row(self, rank: int, stream: str) -> _Row:
        for row in self._rows:
            if row.is_open and (row.rank, row.stream) == (rank, stream):
                return row
        if self._wrote_since and not any(row.is_open for row in self._rows):
            if self._is_stale:
                self._update(time.monotonic())
            self._rows, self._display = [], None  # a new one, below
        row = _Row(rank, stream, sum(row.rank == rank for row in self._rows))
        self._rows.append(row)
        self._rows.sort(key=lambda row: (row.turn, row.rank))
        return row

    def _update(self, now: float) -> None:
        self._updated, self._is_stale = now, False
        content = {"text/plain": "\n".join(f"[{row.rank}] {row.text}" for row in self._rows)}
        if self._display is None:
            self._wrote_since = False
            self._display = display(content, raw=True, display_id=True)
        else:
            self._display.update(content, raw=True)
