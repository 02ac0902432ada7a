"""hvd.plot.timeline."""

import math
import os
import re
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from horovod_cpp._native import InvalidArgumentError
from horovod_cpp.plot import _style, _trace
from horovod_cpp.plot._trace import Phase, Spans, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Window: TypeAlias = tuple[float, float]  # ms

_IDLE = 0.2  # of the time: a longer pause near an end is left out, with what is beyond it
_BEYOND = 0.1  # of the spans, at most
_STEPS = 60  # marks in a picture, at most
_HIGHEST = 9.0  # inches of a figure
_COLUMNS = 1500  # a span is at least one of this many columns wide

# Of the compact picture.
_KINDS = (("waits for other ranks", (Phase.NEGOTIATE, Phase.UNFINISHED), _style.WAIT),
          ("moves data", (Phase.COLLECTIVE,), _style.BLUE))
_RANK = 2.7  # lanes of a rank's band: two, and the gap to the next
_RANK_LANE = 0.2  # inches

# Of the one with a lane for each tensor.
_PHASES = {Phase.NEGOTIATE: ("NEGOTIATE: waits for ranks", _style.WAIT),
           Phase.UNFINISHED: ("NEGOTIATE, not ended", _style.WAIT),
           Phase.QUEUE: ("QUEUE: waits for batches", _style.YELLOW),
           Phase.COLLECTIVE: ("", _style.BLUE),  # what the operations of the picture are
           Phase.PACK: ("PACK: copies", _style.PURPLE),
           Phase.UNPACK: ("UNPACK: copies", _style.GREEN)}
_GAP = 0.6  # lanes between the bands of two ranks
_MARGIN = 0.08  # of a lane, above and below
_COPY = 0.24  # of a lane, for PACK and UNPACK
_LANE = 0.16  # inches that a lane has, if there is room
_NAME_SIZE = 7  # points
_SEEN = 500  # what is narrower than one of this many columns is not in the legend
_SEEN_TOGETHER = 0.01  # of the width; unless all of it together takes so much
_RARE = 0.01  # of the longest tensor's time: tensors with less share a lane
_OWN_LANES = 48  # tensors with a lane of their own, at most
_LABEL = 30  # letters of a tensor's name
_OURS = {"MAKE_ARENA": "memory that ranks share"}  # words of the engine


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
        max_spans: with ``tensors``, draw at most this many, of each rank and moment the longest,
            and say so below the axis. Reading takes about as long as ``json.load`` and keeps 40 bytes per
            span.
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
    recorded = _trace.read_trace(trace)
    chosen = _chosen_ranks(recorded, ranks)
    limits, remarks = _chosen_window(recorded, chosen, window)
    inside = _inside(recorded, chosen, limits)
    if tensors:
        spans = _thinned(chosen, inside, limits, max_spans)
        if len(spans) < len(inside):
            remarks.insert(0, f"{len(spans)} of {len(inside)} spans are drawn, the longest of each "
                              "moment; a smaller window has room for all")
        axes = _draw_tensors(recorded, chosen, spans, limits, ax)
    else:
        late = _trace.lateness_of(recorded, chosen, limits) if ax is None else {}
        axes = _draw_ranks(recorded, chosen, inside, limits, ax, late)
    _draw_steps(axes, _trace.step_ends(recorded, chosen[0], limits))
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
    own = trace.spans[np.isin(trace.spans["rank"], ranks)]
    if len(own) == 0:
        return (trace.first, trace.last), []
    own = own[np.argsort(own["start"], kind="stable")]
    start, end = own["start"], np.maximum.accumulate(own["end"])
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


def _inside(trace: Trace, ranks: list[int], window: _Window) -> Spans:
    """The spans that are to be seen."""
    spans = trace.spans
    inside = spans[(spans["end"] >= window[0]) & (spans["start"] <= window[1])
                   & np.isin(spans["rank"], ranks)]
    if len(inside) == 0:
        raise InvalidArgumentError(
            f"timeline: nothing happens from {window[0]:g} to {window[1]:g} ms on the chosen "
            f"ranks; the trace goes from {trace.first:.1f} to {trace.last:.1f} ms")
    return inside


def _thinned(ranks: list[int], inside: Spans, window: _Window, most: int) -> Spans:
    """At most ``most`` of the spans, of every rank and every part of the window the longest."""
    if len(inside) <= most:
        return inside
    share = max(1, most // len(ranks))
    parts = max(1, share // 8)
    kept = []
    for rank in ranks:
        own = np.flatnonzero(inside["rank"] == rank)
        start, length = inside["start"][own], inside["end"][own] - inside["start"][own]
        part = np.floor(parts * (start - window[0]) / (window[1] - window[0]))
        order = np.lexsort((-length, part))
        _, first, count = np.unique(part[order], return_index=True, return_counts=True)
        place = np.arange(len(own)) - np.repeat(first, count)  # 0: the longest of its part
        kept.append(own[order[np.argsort(place, kind="stable")[:share]]])
    return inside[np.sort(np.concatenate(kept))]


def _draw_ranks(trace: Trace, ranks: list[int], spans: Spans, window: _Window, ax: "Axes | None",
                late: dict[int, float]) -> "Axes":
    """A lane for each rank and kind. ``late``: what the panel on the right shows, {rank: ms}; empty:
    there is none."""
    height = min(max(2.2, 1.1 + _RANK_LANE * _RANK * len(ranks)), _HIGHEST)
    count = 2 if late else 1
    both = _style.make_axes(ax, count, (11, height), sharey=True, width_ratios=(6, 1)[:count])
    axes: "Axes" = both[0]
    axes.set(xlim=window, ylim=(_RANK * len(ranks), 0))  # rank 0 on top
    for lane, (label, phases, colour) in enumerate(_KINDS):
        bars = []
        for place, rank in enumerate(ranks):
            own = spans[(spans["rank"] == rank) & np.isin(spans["phase"], phases)]
            top = _RANK * place + 0.35 + lane
            bars += [(left, right, top)
                     for left, right in _union(own, (window[1] - window[0]) / _COLUMNS)]
        _style.add_bars(axes, bars, 0.92, colour, label)
    failed = [(time, _RANK * ranks.index(trace.rank[operation]) + 0.8)
              for operation, time, _ in trace.failures if trace.rank[operation] in ranks]
    _style.mark_failures(axes, failed)
    middles = [_RANK * place + 0.35 + 1 for place in range(len(ranks))]
    _style.band(axes, [(_RANK * place, _RANK * (place + 1)) for place in range(len(ranks))])
    axes.set_yticks(middles, [f"rank {rank}" for rank in ranks])
    axes.tick_params(axis="y", length=0)
    for panel in both[1:]:
        lengths = panel.barh(middles, [late.get(rank, np.nan) for rank in ranks], height=1.2,
                             color=_style.VERMILLION)
        panel.bar_label(lengths, fmt="%.1f", padding=3, fontsize=8)
        panel.set_title("late by (ms, mean)", fontsize=9)
        panel.tick_params(axis="y", length=0, labelleft=False)
        panel.margins(x=0.35)
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12 - 0.5 / height), "ncols": 3,
             "frameon": False} if ax is None else {}
    _style.add_legend(axes, beside=not below, **below)
    return axes


def _union(spans: Spans, least: float) -> Iterable[tuple[float, float]]:
    """The times that at least one of the spans covers; pauses that could not be seen count too."""
    if len(spans) == 0:
        return ()
    spans = spans[np.argsort(spans["start"], kind="stable")]
    ends = np.maximum.accumulate(np.maximum(spans["end"], spans["start"] + least))
    begins = np.flatnonzero(spans["start"][1:] > ends[:-1]) + 1
    return zip(spans["start"][[0, *begins]], ends[[*(begins - 1), -1]])


def _draw_tensors(trace: Trace, ranks: list[int], spans: Spans, window: _Window,
                  ax: "Axes | None") -> "Axes":
    """A lane for each tensor, the same one on all ranks."""
    lanes, labels = _lanes(trace, ranks, spans)
    count = max(len(labels), 1)
    tops = {rank: (count + _GAP) * place for place, rank in enumerate(ranks)}
    bottom = (count + _GAP) * len(ranks)
    height = min(max(2.4, 1.2 + _LANE * bottom), _HIGHEST)
    axes: "Axes" = _style.make_axes(ax, 1, (11, height))[0]
    axes.set(xlim=window, ylim=(bottom, 0))  # rank 0 on top
    _style.band(axes, [(top, top + count + _GAP) for top in tops.values()])
    rows = {int(operation): tops[trace.rank[operation]] + _GAP / 2
            + lanes[_key(trace.name[operation])] for operation in np.unique(spans["operation"])}
    _draw_spans(axes, trace, spans, rows, window)
    _style.mark_failures(axes, [(time, rows[operation] + 0.5)
                                for operation, time, _ in trace.failures if operation in rows])
    _label(axes, tops, count, labels)
    _style.add_legend(axes, beside=True, bbox_to_anchor=(1.05, 1))  # past the ranks
    return axes


def _key(name: str) -> str:
    """Calls without a name are numbered, "allreduce.noname.7": they have one lane for each kind."""
    return re.sub(r"\.noname\.\d+", "", name)


def _lanes(trace: Trace, ranks: list[int], spans: Spans) -> tuple[dict[str, int], list[str]]:
    """{name: lane} in the order in which the first of the ranks has them, and the lanes' labels."""
    total: dict[str, float] = {}
    first: dict[str, tuple[int, float]] = {}
    for operation, rank, _, start, end in spans.tolist():
        name, begin = _key(trace.name[operation]), (ranks.index(rank), start)
        total[name] = total.get(name, 0.0) + end - start
        first[name] = min(first.get(name, begin), begin)
    longest = max(total.values(), default=0.0)
    by_time = sorted(total, key=lambda name: -total[name])
    own = {name for name in by_time[:_OWN_LANES] if total[name] >= _RARE * longest}
    shared = [name for name in total if name not in own]
    if len(shared) == 1:
        own.add(shared.pop())
    ordered = sorted(own, key=lambda name: first[name])
    lanes = {name: lane for lane, name in enumerate(ordered)}
    lanes |= dict.fromkeys(shared, len(ordered))
    return lanes, _labels(ordered) + ([f"{len(shared)} short ones"] if shared else [])


def _labels(names: list[str]) -> list[str]:
    """What differs: without the parts with which all begin or end, and cut in the middle.

    The collective, with which names begin, is in the legend.
    """
    bare = [name.partition(".")[2] or name for name in names]
    names = bare if len(set(bare)) == len(bare) else names
    if len(names) > 1:
        heads = os.path.commonprefix([name.split(".") for name in names])
        tails = os.path.commonprefix([re.split(r"(?=[.( ])", name)[::-1] for name in names])
        head, tail = len(".".join([*heads, ""])) if heads else 0, len("".join(tails))
        cut = [name[head:len(name) - tail] for name in names]
        names = cut if all(cut) else names
    return [name if len(name) <= _LABEL else f"{name[:_LABEL // 2]}…{name[1 - _LABEL // 2:]}"
            for name in names]


def _label(axes: "Axes", tops: dict[int, float], count: int, labels: list[str]) -> None:
    """Names of tensors beside their lanes where they fit; ranks beside them, or alone."""
    points = axes.get_window_extent().height * 72 / axes.figure.dpi
    fits = 0.95 * points / max(axes.get_ylim()[0], 1) >= 0.9 * _NAME_SIZE
    middles = [top + (count + _GAP) / 2 for top in tops.values()]
    names = [f"rank {rank}" for rank in tops]
    axes.tick_params(axis="y", length=0)
    if not fits:
        axes.set_yticks(middles, names)
        return
    axes.set_yticks([top + _GAP / 2 + lane + 0.5 for top in tops.values() for lane in range(count)],
                    labels * len(tops), fontsize=_NAME_SIZE)
    for middle, name in zip(middles, names):
        axes.annotate(name, (1, middle), (4, 0), xycoords=("axes fraction", "data"), rotation=270,
                      textcoords="offset points", verticalalignment="center", annotation_clip=False)


def _draw_spans(axes: "Axes", trace: Trace, spans: Spans, rows: dict[int, float],
                window: _Window) -> None:
    kinds = {trace.kind[operation] for operation in spans["operation"]} - {""}
    what = ", ".join(sorted(_OURS.get(kind, kind) for kind in kinds))
    width = window[1] - window[0]
    for phase, (label, colour) in _PHASES.items():
        own = spans[spans["phase"] == phase]
        if len(own) == 0:
            continue
        copies = phase in (Phase.PACK, Phase.UNPACK)  # the collective around them stays visible
        top = 1 - _MARGIN - _COPY if copies else _MARGIN
        bars = [(start, max(end, start + width / _COLUMNS), rows[operation] + top)
                for operation, _, _, start, end in own.tolist()]
        length = np.minimum(own["end"], window[1]) - np.maximum(own["start"], window[0])
        seen = length.max() >= width / _SEEN or length.sum() >= _SEEN_TOGETHER * width
        label = label or textwrap.fill(what, 26)
        _style.add_bars(axes, bars, _COPY if copies else 1 - 2 * _MARGIN, colour,
                        label if seen else f"_{label}",  # matplotlib's sign for: not in the legend
                        hatch="////" if phase == Phase.UNFINISHED else None)
