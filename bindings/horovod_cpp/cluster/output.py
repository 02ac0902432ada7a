"""How the caller of ranks shows what they print and display."""

import codecs
import dataclasses
import itertools
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TextIO, TypeAlias

_PARTIAL = 0.1  # seconds until a line without an end is shown
_EQUAL_LINE = 0.5  # seconds that a line waits for the same one of the other ranks
_EQUAL_DISPLAY = 2.0  # ... that a picture does
_AHEAD = 20  # items of a rank that are compared with what others have first
_TAIL = 20  # last lines that are kept of each rank
_LONGEST = 100_000  # characters; a longer line is cut
_LIVE = 1000  # last characters that are shown of a line that changes
WIDGET = "application/vnd.jupyter.widget-view+json"
_ERASE = "\r\x1b[K"  # the line of a terminal


class Text(NamedTuple):  # compares fast
    """A line."""

    stream: str  # "stdout" or "stderr"
    line: str


@dataclasses.dataclass(frozen=True)
class Display:
    """What IPython displays: MIME types and their contents."""

    data: dict[str, Any]
    metadata: dict[str, Any]
    transient: dict[str, Any]
    update: bool
    is_result: bool = False  # of a cell's last expression

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Display) and self._looks() == other._looks()

    def _looks(self) -> tuple[Any, ...]:
        """Without the text of something richer: that often has an address in it."""
        rich = {kind: content for kind, content in self.data.items() if kind != "text/plain"}
        return rich or self.data, self.transient, self.update


#: What a rank shows.
Item: TypeAlias = Text | Display


def widget_in(data: Mapping[str, Any]) -> str | None:
    """The number of the widget that is displayed; None if there is none."""
    view = data.get(WIDGET)
    return view.get("model_id") if isinstance(view, dict) else None


class _Line:
    """What a rank wrote to a stream since the last end of a line."""

    def __init__(self) -> None:
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.text = ""
        self.since: float | None = None  # when it began; None: nothing is there
        self.shown = False  # by the view, as a line that still changes
        self.changes = False  # it has a carriage return

    def append(self, text: str) -> None:
        """Keeps what follows the last carriage return that something follows."""
        self.changes |= "\r" in text
        body = text.rstrip("\r")
        start = body.rfind("\r")
        if start >= 0:
            self.text = text[start:]
        elif body and self.text.endswith("\r"):
            self.text = "\r" + text
        else:
            self.text += text

    def current(self) -> str:
        """As a terminal would show it: what follows the last carriage return."""
        return self.text.rstrip("\r").rpartition("\r")[2]


class Printer:
    """Cuts the bytes of ranks into lines and gives these to a view, for one caller's call.

    With ``collapse``, what all ranks write equally is shown once: a line waits a moment for its
    like, and a cell's result until all ranks have theirs.
    """

    def __init__(self, view: "StreamView", ranks: Iterable[int], collapse: bool = False) -> None:
        self._view = view
        self._ranks = tuple(ranks)
        self._collapse = collapse and len(self._ranks) > 1
        self._lines: dict[tuple[int, str], _Line] = {}  # by rank and stream
        self._held: dict[int, deque[tuple[Item, float]]] = {  # until when
            rank: deque() for rank in self._ranks}
        self._tails: dict[int, list[str]] = {}

    def tail(self, rank: int) -> str:
        """Its last lines, as one text."""
        partial = [line.current() for (of, _), line in self._lines.items() if of == rank]
        return "\n".join([*self._tails.get(rank, []), *filter(None, partial)])

    def feed(self, rank: int, stream: str, data: bytes) -> None:
        line = self._lines.setdefault((rank, stream), _Line())
        *whole, rest = line.decode(data).split("\n")
        for text in whole:
            line.append(text)
            self._end(rank, stream, line)
        line.append(rest)
        if len(line.text) >= _LONGEST:
            self._end(rank, stream, line)
        if not line.text:
            return
        if line.since is None:
            line.since = time.monotonic()
        if line.shown or line.changes:
            self._show_partial(rank, stream, line)

    def take(self, rank: int, kind: str, content: Sequence[Any]) -> bool:
        """A message of a rank. Returns whether it was one of something to show."""
        if kind == "display":
            self._add(rank, Display(*content))
        elif kind == "clear":
            self._view.clear(*content)
        elif kind == "comm":
            if content[0] == "comm_close":
                self._forget_widget(rank, content[1])
            self._view.comm(*content)
        else:
            return False
        return True

    def _forget_widget(self, rank: int, name: str) -> None:
        """It was closed before it could be shown."""
        if rank in self._held:
            self._held[rank] = deque((item, until) for item, until in self._held[rank]
                                     if isinstance(item, Text) or widget_in(item.data) != name)

    def due(self) -> float | None:
        """When flush_due() has something to do next; None while nothing waits."""
        times = [line.since + _PARTIAL for line in self._lines.values()
                 if line.since is not None and not line.shown]
        times += [held[0][1] for held in self._held.values() if held]
        view = self._view.due()
        first = min([*times, view] if view is not None else times, default=None)
        return None if first == float("inf") else first

    def flush_due(self) -> None:
        now = time.monotonic()
        for (rank, stream), line in self._lines.items():
            if line.since is not None and not line.shown and line.since + _PARTIAL <= now:
                self._show_partial(rank, stream, line)
        self._settle(now)
        self._view.flush_due(now)

    def finish(self) -> None:
        """The call is over."""
        for (rank, stream), line in self._lines.items():
            line.append(line.decode(b"", True))
            if line.shown or line.current():
                self._end(rank, stream, line)
        self._settle(float("inf"))
        self._view.finish()

    def _show_partial(self, rank: int, stream: str, line: _Line) -> None:
        line.shown = True
        self._view.live(rank, stream, line.current()[-_LIVE:])

    def _end(self, rank: int, stream: str, line: _Line) -> None:
        text = line.current()
        self._tails[rank] = [*self._tails.get(rank, [])[1 - _TAIL:], text]
        if line.shown:
            self._view.end_live(rank, stream, text)
        else:
            self._add(rank, Text(stream, text))
        line.text, line.since, line.shown, line.changes = "", None, False, False

    def _add(self, rank: int, item: Item) -> None:
        if not self._collapse or rank not in self._held:
            self._view.show(rank, item)
            return
        wait = _EQUAL_LINE
        if isinstance(item, Display):
            wait = float("inf") if item.is_result else _EQUAL_DISPLAY
            if WIDGET in item.data:
                wait = 0.0  # no two are equal
        self._held[rank].append((item, time.monotonic() + wait))
        self._settle(float("-inf"))

    def _settle(self, now: float) -> None:
        """Shows what all ranks have at the front of their queues, and what waited long enough."""
        while True:
            heads = {rank: held[0] for rank, held in self._held.items() if held}
            items = [item for item, _ in heads.values()]
            if items and len(items) == len(self._ranks) and items.count(items[0]) == len(items):
                self._pop(self._ranks, True)
                continue
            late = [rank for rank, (_, until) in heads.items() if until <= now]
            ranks = self._before_equals(heads) or late
            if not ranks:
                return
            self._pop(ranks, False)

    def _before_equals(self, heads: Mapping[int, tuple[Item, float]]) -> list[int]:
        """A rank whose first item stands before what all others have: none is its like."""
        for rank, held in self._held.items():
            others = [head for other, (head, _) in heads.items() if other != rank]
            if 0 < len(others) == len(self._ranks) - 1 == others.count(others[0]) and others[0] in [
                    item for item, _ in itertools.islice(held, 1, _AHEAD)]:
                return [rank]
        return []

    def _pop(self, ranks: Sequence[int], together: bool) -> None:
        items = [(rank, self._held[rank].popleft()[0]) for rank in ranks]
        if together:
            self._view.show(None, items[0][1])
            return
        for rank, item in items:
            self._view.show(rank, item)


def write_text(stream: TextIO, text: str) -> None:
    """Characters that the stream's encoding does not have appear as escapes."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


class StreamView:
    """On standard output and standard error, with the rank in front of each line. A line that
    changes is rewritten in place on a terminal; elsewhere only its end is shown."""

    def __init__(self) -> None:
        self._all = False  # whether the last line was one of all ranks
        self._open: set[str] = set()  # streams with an unfinished line

    def show(self, rank: int | None, item: Item) -> None:
        """``rank``: None = all of them."""
        if isinstance(item, Text):
            self.write(rank, item.stream, item.line)
        else:
            self.write(rank, "stdout", item.data.get("text/plain", ", ".join(item.data)))

    def live(self, rank: int, stream: str, text: str) -> None:
        """The unfinished line of a rank is now this."""
        target = getattr(sys, stream)
        if target.isatty():
            write_text(target, f"{_ERASE}[{rank}] {text}")
            target.flush()
            self._open.add(stream)

    def end_live(self, rank: int, stream: str, text: str) -> None:
        """It is finished."""
        self.write(rank, stream, text)

    def clear(self, wait: bool) -> None:
        """What a rank wants cleared stays: others may have written it."""

    def comm(self, kind: str, name: str, data: Any, metadata: Any, buffers: list[bytes],
             keys: Mapping[str, Any]) -> None:
        """What a widget says that only a notebook can draw."""

    def due(self) -> float | None:
        """As Printer.due()."""
        return None

    def flush_due(self, now: float) -> None:
        """As Printer.flush_due()."""

    def finish(self) -> None:
        for stream in self._open:
            getattr(sys, stream).write("\n")
        self._open.clear()
        self._all = False

    def write(self, rank: int | None, stream: str, text: str) -> None:
        """Some lines."""
        target = getattr(sys, stream)
        if stream in self._open:
            target.write(_ERASE)
            self._open.remove(stream)
        if rank is None and not self._all:
            target.write("all ranks:\n")
        self._all = rank is None
        prefix = "" if rank is None else f"[{rank}] "
        write_text(target, "".join(f"{prefix}{line}\n" for line in text.split("\n")))
        target.flush()


class SilentView(StreamView):
    """Nowhere."""

    def live(self, rank: int, stream: str, text: str) -> None:
        pass

    def write(self, rank: int | None, stream: str, text: str) -> None:
        pass
