"""hvd.plot.timeline."""

import math
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from horovod_cpp._native import InvalidArgumentError
from horovod_cpp.plot import _style, _timeline_ranks, _timeline_tensors
from horovod_cpp.plot._lateness import lateness_of, step_ends
from horovod_cpp.plot._trace import Trace, read_trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Numbers: TypeAlias = NDArray[np.int64]  # of spans
_Window: TypeAlias = tuple[float, float]  # ms

_IDLE = 0.2  # of the time: a longer pause near an end is left out, with what is beyond it
_BEYOND = 0.1  # of the spans, at most
_STEPS = 60  # marks in a picture, at most


def timeline(trace: str | os.PathLike[str] | list[dict[str, Any]], *,
             window: tuple[float, float] | None = None, ranks: Iterable[int] | None = None,
             tensors: bool = False, max_spans: int = 10000, title: str | None = None,
             ax: "Axes | None" = None) -> "Axes":
    """Draw a timeline: when each rank waits for others and when it moves data.

    Each rank has two lanes, waiting and moving, and on the right a bar: how much later than the
    first rank it announced its tensors, on average. The rank with the long bar is the one that others
    wait for. White is computation without communication. Dotted lines: all gradients of a step are
    reduced, where the same tensors come again and again.

    With ``tensors=True`` each tensor has a lane, the same one on every rank. An operation waits until
    all ranks announced it (NEGOTIATE), then for earlier batches (QUEUE), and then runs (ALLREDUCE
    ...); PACK and UNPACK are the copies in that. A negotiation that had not ended when the recording
    did is hatched; an operation that failed has a cross. Tensors that take less than a hundredth of
    the longest one's time share the last lane.

    Args:
        trace: the file that ``HOROVOD_TIMELINE``, ``hvdrun --timeline-filename`` or
            ``start_timeline`` wrote, also while the job runs; or its events, ``load_timeline(file)``.
        window: (from, to) in ms of the recording, as on the horizontal axis. By default all of it,
            except a long pause near its beginning or end and the few spans beyond, which are
            counted below the axis.
        ranks: the ranks to draw; all otherwise.
        tensors: a lane for each tensor and colours for its phases.
        max_spans: with ``tensors``, draw no more than so many, of each rank and moment the longest,
            and say so below the axis. Reading takes about as long as ``json.load`` and keeps 40 bytes
            a span.
        title: of the axes.
        ax: matplotlib Axes to draw on; then there is no panel of lateness.

    Returns:
        The Axes of the lanes; the panel of lateness is ``axes.figure.axes[1]``.

    Raises:
        InvalidArgumentError: the trace is not a timeline of horovod_cpp, or has nothing in
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
    limits, remarks = _chosen_window(recorded, chosen, window)
    inside = _inside(recorded, chosen, limits)
    if tensors:
        spans = _thinned(recorded, chosen, inside, limits, max_spans)
        if len(spans) < len(inside):
            remarks.insert(0, f"{len(spans)} of {len(inside)} spans are drawn, the longest of each "
                              "moment; a smaller window has room for all")
        axes = _timeline_tensors.draw(recorded, chosen, spans, limits, ax)
    else:
        late = lateness_of(recorded, chosen, limits) if ax is None else {}
        axes = _timeline_ranks.draw(recorded, chosen, inside, limits, ax, late)
    _draw_steps(axes, step_ends(recorded, chosen[0], limits))
    axes.set_xlabel("\n".join(["time since the recording began (ms)", *remarks,
                               *recorded.remarks]))
    axes.ticklabel_format(axis="x", useOffset=False)
    if title is not None:
        axes.set_title(title, pad=14)
    return axes


def _draw_steps(axes: "Axes", ends: dict[int, float]) -> None:
    if len(ends) > _STEPS:
        return
    for number, end in ends.items():
        axes.axvline(end, color=_style.GREY, linestyle=":", linewidth=0.9, zorder=1)
        if len(ends) <= _STEPS // 2:
            axes.annotate(f"{'step ' if number == min(ends) else ''}{number}", (end, 1), (0, 2),
                          xycoords=("data", "axes fraction"), textcoords="offset points",
                          fontsize=7, color=_style.GREY, horizontalalignment="center",
                          annotation_clip=True)


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
