"""The timeline in detail: a lane for each tensor, the same one on all ranks."""

import os
import re
import textwrap
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from horovod_cpp.plot import _style
from horovod_cpp.plot._trace import (
    COLLECTIVE,
    NEGOTIATE,
    PACK,
    QUEUE,
    UNFINISHED,
    UNPACK,
    Trace,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Numbers: TypeAlias = NDArray[np.int64]  # of spans
_Window: TypeAlias = tuple[float, float]  # ms
_Lanes: TypeAlias = dict[str, int]  # name of a tensor -> its lane

_COLOURS = {NEGOTIATE: _style.WAIT, UNFINISHED: _style.WAIT, QUEUE: _style.YELLOW,
            COLLECTIVE: _style.BLUE, PACK: _style.PURPLE, UNPACK: _style.GREEN}
_GAP = 0.6  # lanes between the bands of two ranks
_MARGIN = 0.08  # of a lane, above and below
_COPY = 0.24  # of a lane, for PACK and UNPACK
_LANE = 0.16  # inches that a lane has, if there is room
_HEIGHT = (2.4, 9.0)  # inches of a figure, least and most
_NAME_SIZE = 7  # points
_COLUMNS = 1500  # a span is at least one of so many columns wide
_SEEN = 500  # what is narrower than one of so many columns is not in the legend
_SEEN_TOGETHER = 0.01  # of the width; unless all of it together takes so much
_RARE = 0.01  # of the longest tensor's time: tensors with less share a lane
_OWN_LANES = 48  # tensors with a lane of their own, at most
_LABEL = 30  # letters of a tensor's name
_OURS = {"MAKE_ARENA": "memory that ranks share"}  # words of the engine


def draw(trace: Trace, ranks: list[int], spans: _Numbers, window: _Window,
         ax: "Axes | None") -> "Axes":
    """The spans on new Axes or ``ax``."""
    lanes, labels = _lanes(trace, ranks, spans)
    count = max(len(labels), 1)
    tops = {rank: (count + _GAP) * place for place, rank in enumerate(ranks)}
    bottom = (count + _GAP) * len(ranks)
    height = min(max(_HEIGHT[0], 1.2 + _LANE * bottom), _HEIGHT[1])
    axes: "Axes" = _style.make_axes(ax, 1, (11, height))[0]
    axes.set(xlim=window, ylim=(bottom, 0))  # rank 0 on top
    _style.band(axes, [(top, top + count + _GAP) for top in tops.values()])
    rows = {int(operation): tops[int(trace.rank[operation])] + _GAP / 2
            + lanes[_key(trace.name[operation])]
            for operation in np.unique(trace.operation[spans])}
    _draw_spans(axes, trace, spans, rows, window)
    _style.mark_failures(axes, [(time, rows[operation] + 0.5)
                                for operation, time, _ in trace.failures if operation in rows])
    _label(axes, tops, count, labels)
    if axes.get_legend_handles_labels()[0]:
        _style.add_legend(axes, beside=True, bbox_to_anchor=(1.05, 1))  # past the ranks
    return axes


def _key(name: str) -> str:
    """Calls without a name are numbered, "allreduce.noname.7": they have one lane for each kind."""
    return re.sub(r"\.noname\.\d+", "", name)


def _lanes(trace: Trace, ranks: list[int], spans: _Numbers) -> tuple[_Lanes, list[str]]:
    """{name: lane} in the order in which the first of the ranks has them, and the lanes' labels."""
    total: dict[str, float] = {}
    first: dict[str, tuple[int, float]] = {}
    for span in spans:
        operation = int(trace.operation[span])
        name, place = _key(trace.name[operation]), ranks.index(int(trace.rank[operation]))
        total[name] = total.get(name, 0.0) + float(trace.end[span] - trace.start[span])
        first[name] = min(first.get(name, (place, np.inf)), (place, float(trace.start[span])))
    longest = max(total.values(), default=0.0)
    by_time = sorted(total, key=lambda name: -total[name])
    own = {name for name in by_time[:_OWN_LANES] if total[name] >= _RARE * longest}
    shared = [name for name in total if name not in own]
    if len(shared) == 1:
        own.add(shared.pop())
    ordered = sorted(own, key=lambda name: first[name])
    lanes = {name: lane for lane, name in enumerate(ordered)}
    lanes |= dict.fromkeys(shared, len(ordered))
    labels = _labels(ordered)
    return lanes, labels + ([f"{len(shared)} short ones"] if shared else [])


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


def _draw_spans(axes: "Axes", trace: Trace, spans: _Numbers, rows: dict[int, float],
                window: _Window) -> None:
    kinds = {trace.kind[operation] for operation in trace.operation[spans]} - {""}
    what = ", ".join(sorted(_OURS.get(kind, kind) for kind in kinds))
    labels = {NEGOTIATE: "NEGOTIATE: waits for ranks", UNFINISHED: "NEGOTIATE, not ended",
              QUEUE: "QUEUE: waits for batches", COLLECTIVE: textwrap.fill(what, 26),
              PACK: "PACK: copies", UNPACK: "UNPACK: copies"}
    width = window[1] - window[0]
    for phase, label in labels.items():
        own = spans[trace.phase[spans] == phase]
        if len(own) == 0:
            continue
        copies = phase in (PACK, UNPACK)  # the collective around them stays visible
        top = 1 - _MARGIN - _COPY if copies else _MARGIN
        bars = [(left, max(right, left + width / _COLUMNS), rows[int(operation)] + top)
                for left, right, operation in zip(trace.start[own], trace.end[own],
                                                  trace.operation[own])]
        length = np.minimum(trace.end[own], window[1]) - np.maximum(trace.start[own], window[0])
        seen = length.max() >= width / _SEEN or length.sum() >= _SEEN_TOGETHER * width
        _style.add_bars(axes, bars, _COPY if copies else 1 - 2 * _MARGIN, _COLOURS[phase],
                        label if seen else f"_{label}",  # matplotlib's sign for: not in the legend
                        hatch="////" if phase == UNFINISHED else None)
