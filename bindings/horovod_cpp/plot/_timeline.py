"""hvd.plot.timeline."""

import heapq
import math
import os
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from horovod_cpp._native import InvalidArgumentError
from horovod_cpp.plot import _style
from horovod_cpp.plot._trace import (
    COLLECTIVE,
    NEGOTIATE,
    PACK,
    QUEUE,
    UNFINISHED,
    UNPACK,
    Trace,
    read_trace,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Numbers: TypeAlias = NDArray[np.int64]  # of spans
_Window: TypeAlias = tuple[float, float]  # ms
_Rows: TypeAlias = dict[int, float]  # operation -> row
_Bands: TypeAlias = dict[int, tuple[float, float]]  # rank -> (top, bottom)

_COLOURS = {NEGOTIATE: _style.ORANGE, UNFINISHED: _style.ORANGE, QUEUE: _style.YELLOW,
            COLLECTIVE: _style.BLUE, PACK: _style.PURPLE, UNPACK: _style.GREEN}
_ON_COLOUR = {NEGOTIATE: "black", UNFINISHED: "black", QUEUE: "black", COLLECTIVE: "white"}
_GAP = 0.6  # rows between the bands of two ranks
_MARGIN = 0.08  # of a row, above and below
_COPY = 0.24  # of a row, for PACK and UNPACK
_LANE = 0.16  # inches that an operation's row has, if there is room
_HEIGHT = (2.4, 9.0)  # inches of a figure, least and most
_NAME_SIZE = 7  # points
_LETTER = 0.62  # width of a letter as a part of its size, on the safe side
_COLUMNS = 1500  # a span is at least one of so many columns wide
_SHORTEST = 8  # letters of a name that is cut
_NAMES = 400  # most names in a picture
_IDLE = 0.2  # of the time: a longer pause near an end is left out, with what is beyond it
_BEYOND = 0.1  # of the spans, at most


def timeline(trace: str | os.PathLike[str] | list[dict[str, Any]], *,
             window: tuple[float, float] | None = None, ranks: Iterable[int] | None = None,
             max_spans: int = 10000, title: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw a timeline: a band for each rank, a row for each operation under way, phases as colours.

    An operation waits until all ranks announced it (NEGOTIATE), then for earlier batches (QUEUE),
    and then runs (ALLREDUCE ...); PACK and UNPACK are the copies in that. A negotiation that had
    not ended when the recording did is hatched; an operation that failed has a cross. Names of
    tensors stand where they fit.

    Args:
        trace: the file that ``HOROVOD_TIMELINE``, ``hvdrun --timeline-filename`` or
            ``start_timeline`` wrote, also while the job runs; or its events, ``json.load(file)``.
        window: (from, to) in ms of the recording, as on the horizontal axis. By default all of it,
            but for a long pause near its beginning or end and the few spans beyond, which are
            counted below the axis.
        ranks: the ranks to draw; all otherwise.
        max_spans: draw no more than so many, of each rank and moment the longest, and say so below
            the axis. Reading takes about as long as ``json.load`` and keeps 40 bytes a span.
        title: of the axes.
        ax: matplotlib Axes to draw on.

    Returns:
        The Axes.

    Raises:
        InvalidArgumentError: the trace is cut short, no timeline of horovod_cpp, or has nothing in
            ``window`` or of ``ranks``; ``window`` ends before it begins.
        TypeError: ``trace`` or ``window`` is none of the above.
        OSError: the file cannot be read.
        ImportError: matplotlib is not installed.
    """
    if max_spans < 1:
        raise InvalidArgumentError(f"timeline: max_spans is {max_spans}, must be at least 1")
    _style.pyplot()  # whether it is there, before a large file is read
    recorded = read_trace(trace)
    chosen = _chosen_ranks(recorded, ranks)
    limits, beyond = _chosen_window(recorded, chosen, window)
    inside = _inside(recorded, chosen, limits)
    spans = _thinned(recorded, chosen, inside, limits, max_spans)
    rows, bands = _rows(recorded, chosen, spans)
    bottom = bands[chosen[-1]][1]
    height = min(max(_HEIGHT[0], 1.2 + _LANE * bottom), _HEIGHT[1])
    axes: "Axes" = _style.make_axes(ax, 1, (11, height))[0]
    _draw_bands(axes, bands)
    axes.set(xlim=limits, ylim=(bottom, 0))  # rank 0 on top
    _draw_spans(axes, recorded, spans, rows, (limits[1] - limits[0]) / _COLUMNS)
    _draw_failures(axes, recorded, rows)
    _draw_names(axes, recorded, spans, rows, limits)
    remarks = [*beyond, *recorded.remarks]
    if len(spans) < len(inside):
        remarks.insert(0, f"{len(spans)} of {len(inside)} spans are drawn, the longest of each "
                          "moment; a smaller window has room for all")
    axes.set_xlabel("\n".join(["time since the recording began (ms)", *remarks]))
    axes.ticklabel_format(axis="x", useOffset=False)
    if title is not None:
        axes.set_title(title)
    _style.add_legend(axes, beside=True)
    return axes


def _chosen_ranks(trace: Trace, ranks: Iterable[int] | None) -> list[int]:
    chosen = trace.ranks if ranks is None else sorted({int(rank) for rank in ranks})
    for rank in chosen:
        if rank not in trace.ranks:
            raise InvalidArgumentError(f"timeline: rank {rank} is not in the trace, which has "
                                       f"{', '.join(map(str, trace.ranks))}")
    if not chosen:
        raise InvalidArgumentError("timeline: ranks is empty")
    return chosen


def _chosen_window(trace: Trace, ranks: list[int],
                   window: _Window | None) -> tuple[_Window, list[str]]:
    """The times between which the picture is, and what is to be said of them."""
    if window is None:
        return _active(trace, ranks)
    try:
        start, end = map(float, window)
    except (TypeError, ValueError):
        raise TypeError("timeline: window must be two numbers, (from, to) in ms, "
                        f"got {window!r}") from None
    if not (math.isfinite(start) and math.isfinite(end) and start < end):
        raise InvalidArgumentError(f"timeline: window is {window!r}, must be (from, to) in ms")
    return (start, end), []


def _active(trace: Trace, ranks: list[int]) -> tuple[_Window, list[str]]:
    """Without long pauses near the ends: a barrier at the end would squeeze all the rest."""
    own = np.isin(trace.rank[trace.operation], ranks)
    if not own.any():
        return (trace.first, trace.last), []
    order = np.argsort(trace.start[own], kind="stable")
    start, end = trace.start[own][order], np.maximum.accumulate(trace.end[own][order])
    count, whole = len(start), (float(start[0]), float(end[-1]))
    pauses = np.flatnonzero(start[1:] - end[:-1] > _IDLE * (whole[1] - whole[0])) + 1
    first = max((int(place) for place in pauses if place <= _BEYOND * count), default=0)
    last = min((int(place) for place in pauses if count - place <= _BEYOND * count), default=count)
    failed = [time for operation, time, _ in trace.failures if trace.rank[operation] in ranks]
    left, right = min([start[first], *failed]), max([end[last - 1], *failed])
    beyond = int((end < left).sum() + (start > right).sum())
    margin = 0.01 * (right - left) or 1.0
    remarks = [f"{beyond} spans beyond a long pause are left out; window=({math.floor(whole[0])}, "
               f"{math.ceil(whole[1])}) shows all"] if beyond else []
    return (float(left - margin), float(right + margin)), remarks


def _inside(trace: Trace, ranks: list[int], window: _Window) -> _Numbers:
    """Numbers of the spans that are to be seen."""
    seen = (trace.end >= window[0]) & (trace.start <= window[1])
    inside = np.flatnonzero(seen & np.isin(trace.rank[trace.operation], ranks))
    if len(inside) == 0:
        raise InvalidArgumentError(
            f"timeline: nothing happens from {window[0]:g} to {window[1]:g} ms on the chosen "
            f"ranks; the trace goes from {trace.first:.1f} to {trace.last:.1f} ms")
    return inside


def _thinned(trace: Trace, ranks: list[int], inside: _Numbers, window: _Window,
             most: int) -> _Numbers:
    """At most ``most`` of the spans, of every rank and every part of the window the longest."""
    if len(inside) <= most:
        return inside
    share = max(1, most // len(ranks))
    parts = max(1, share // 8)
    kept = []
    for rank in ranks:
        own = inside[trace.rank[trace.operation[inside]] == rank]
        length = trace.end[own] - trace.start[own]
        part = np.floor(parts * (trace.start[own] - window[0]) / (window[1] - window[0]))
        order = np.lexsort((-length, part))
        _, first, count = np.unique(part[order], return_index=True, return_counts=True)
        place = np.arange(len(own)) - np.repeat(first, count)  # 0: the longest of its part
        kept.append(own[order[np.argsort(place, kind="stable")[:share]]])
    return np.sort(np.concatenate(kept))


def _rows(trace: Trace, ranks: list[int], spans: _Numbers) -> tuple[_Rows, _Bands]:
    """{operation: row} with the fewest rows in which no two overlap, and {rank: (top, bottom)}."""
    rows: _Rows = {}
    bands: _Bands = {}
    top = 0.0
    for rank in ranks:
        own = spans[trace.rank[trace.operation[spans]] == rank]
        operations, place = np.unique(trace.operation[own], return_inverse=True)
        begin = np.full(len(operations), np.inf)
        end = np.full(len(operations), -np.inf)
        np.minimum.at(begin, place, trace.start[own])
        np.maximum.at(end, place, trace.end[own])
        busy: list[tuple[float, int]] = []  # a heap of (end, lane)
        free: list[int] = []  # a heap of lanes
        lanes = 0
        for index in np.argsort(begin, kind="stable"):
            while busy and busy[0][0] <= begin[index]:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if not free:
                free, lanes = [lanes], lanes + 1
            lane = heapq.heappop(free)
            heapq.heappush(busy, (end[index], lane))
            rows[int(operations[index])] = top + _GAP / 2 + lane
        bands[rank] = (top, top + max(lanes, 1) + _GAP)
        top = bands[rank][1]
    return rows, bands


def _draw_bands(axes: "Axes", bands: _Bands) -> None:
    for number, (top, bottom) in enumerate(bands.values()):
        if number % 2:
            axes.axhspan(top, bottom, color="#F2F2F2", zorder=0, linewidth=0)
    axes.set_yticks([(top + bottom) / 2 for top, bottom in bands.values()],
                    [f"rank {rank}" for rank in bands])
    axes.tick_params(axis="y", length=0)


def _draw_spans(axes: "Axes", trace: Trace, spans: _Numbers, rows: _Rows,
                least: float) -> None:
    """``least``: width in ms below which a span could not be seen, and is drawn so wide."""
    from matplotlib.collections import PolyCollection

    kinds = {trace.kind[operation] for operation in trace.operation[spans]} - {""}
    labels = {NEGOTIATE: "NEGOTIATE: waits for ranks", UNFINISHED: "NEGOTIATE, not ended",
              QUEUE: "QUEUE: waits for batches",
              COLLECTIVE: textwrap.fill(", ".join(sorted(kinds)), 26),
              PACK: "PACK", UNPACK: "UNPACK"}
    row = np.array([rows[int(operation)] for operation in trace.operation[spans]])
    for phase, label in labels.items():
        own = trace.phase[spans] == phase
        if not own.any():
            continue
        left = trace.start[spans[own]]
        right = np.maximum(trace.end[spans[own]], left + least)
        top, bottom = row[own] + _MARGIN, row[own] + 1 - _MARGIN
        if phase in (PACK, UNPACK):
            top = bottom - _COPY  # the collective around them stays visible, with its name
        corners = np.stack([[left, top], [right, top], [right, bottom], [left, bottom]])
        axes.add_collection(PolyCollection(
            list(corners.transpose(2, 0, 1)), facecolor=_COLOURS[phase], label=label, linewidth=0,
            hatch="////" if phase == UNFINISHED else None, edgecolor="black", zorder=2,
            snap=False), autolim=False)


def _draw_failures(axes: "Axes", trace: Trace, rows: _Rows) -> None:
    failed = [(time, rows[operation] + 0.5) for operation, time, _ in trace.failures
              if operation in rows]
    if failed:
        axes.plot(*zip(*failed), "X", color=_style.VERMILLION, markeredgecolor="white",
                  markersize=9, label="failed", zorder=4)


def _draw_names(axes: "Axes", trace: Trace, spans: _Numbers, rows: _Rows,
                window: _Window) -> None:
    """In the longest part of an operation that can be seen, if the name fits into it."""
    box = axes.get_window_extent()
    points = 72 / axes.figure.dpi
    width = 0.9 * points * box.width / (window[1] - window[0])  # of a ms; the layout may move
    if 0.9 * points * box.height / axes.get_ylim()[0] < _NAME_SIZE:
        return
    widest: dict[int, tuple[float, float, int]] = {}  # operation -> (length, middle, phase)
    for span in spans[np.isin(trace.phase[spans], list(_ON_COLOUR))]:
        left, right = max(trace.start[span], window[0]), min(trace.end[span], window[1])
        operation = int(trace.operation[span])
        if right - left > widest.get(operation, (0.0, 0.0, 0))[0]:
            widest[operation] = (right - left, (left + right) / 2, int(trace.phase[span]))
    longest = sorted(widest.items(), key=lambda item: -item[1][0])[:_NAMES]
    for operation, (length, middle, phase) in longest:
        name = _fitting(trace.name[operation], int(length * width / (_LETTER * _NAME_SIZE)))
        if not name:
            continue
        above = _COPY / 2 if phase == COLLECTIVE else 0
        # What is hatched is no ground for letters.
        ground = {"facecolor": _COLOURS[phase], "linewidth": 0, "pad": 1}
        axes.text(middle, rows[operation] + 0.5 - above, name, fontsize=_NAME_SIZE, clip_on=True,
                  color=_ON_COLOUR[phase], horizontalalignment="center", zorder=3,
                  verticalalignment="center", bbox=ground if phase == UNFINISHED else None)


def _fitting(name: str, letters: int) -> str:
    """The name, its last two parts, or its end; the collective it begins with is in colour.

    Calls without a name are "barrier.noname.0" and so on: then the collective says most.
    """
    parts = name.split(".")
    unnamed = parts[1:2] == ["noname"]
    for shown in parts[:1] if unnamed else (".".join(parts[1:]), ".".join(parts[-2:])):
        if 0 < len(shown) <= letters:
            return shown
    return "" if unnamed or letters < _SHORTEST else "…" + name[1 - letters:].lstrip("._")
