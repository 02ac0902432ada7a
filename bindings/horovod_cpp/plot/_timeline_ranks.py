"""The compact timeline: a lane for each rank and kind, and who is late."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from horovod_cpp.plot import _style
from horovod_cpp.plot._trace import COLLECTIVE, NEGOTIATE, UNFINISHED, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS = (("waits for other ranks", (NEGOTIATE, UNFINISHED), _style.WAIT),
          ("moves data", (COLLECTIVE,), _style.BLUE))
_RANK = 2.7  # lanes of a rank's band: two, and the gap to the next
_LANE = 0.2  # inches
_HEIGHT = (2.2, 9.0)  # inches of a figure, least and most
_COLUMNS = 1500  # a span is at least one of so many columns wide


def draw(trace: Trace, ranks: list[int], spans: NDArray[np.int64], window: tuple[float, float],
         ax: "Axes | None", late: dict[int, float]) -> "Axes":
    """``late``: what the panel on the right shows, {rank: ms}; empty: there is none."""
    height = min(max(_HEIGHT[0], 1.1 + _LANE * _RANK * len(ranks)), _HEIGHT[1])
    axes, panel = _axes(ax, height, bool(late))
    axes.set(xlim=window, ylim=(_RANK * len(ranks), 0))  # rank 0 on top
    for lane, (label, phases, colour) in enumerate(_KINDS):
        bars = []
        for place, rank in enumerate(ranks):
            own = spans[(trace.rank[trace.operation[spans]] == rank)
                        & np.isin(trace.phase[spans], phases)]
            top = _RANK * place + 0.35 + lane
            bars += [(left, right, top) for left, right in
                     _union(trace.start[own], trace.end[own], (window[1] - window[0]) / _COLUMNS)]
        _style.add_bars(axes, bars, 0.92, colour, label)
    failed = [(time, _RANK * ranks.index(int(trace.rank[operation])) + 0.8)
              for operation, time, _ in trace.failures if trace.rank[operation] in ranks]
    _style.mark_failures(axes, failed)
    middles = [_RANK * place + 0.35 + 1 for place in range(len(ranks))]
    _style.band(axes, [(_RANK * place, _RANK * (place + 1)) for place in range(len(ranks))])
    axes.set_yticks(middles, [f"rank {rank}" for rank in ranks])
    axes.tick_params(axis="y", length=0)
    if panel is not None:
        panel.barh(middles, [late.get(rank, np.nan) for rank in ranks], height=1.2,
                   color=_style.VERMILLION)
        panel.set_title("late by (ms, mean)", fontsize=9)
        panel.tick_params(axis="y", length=0, labelleft=False)
        panel.margins(x=0.35)
        for middle, rank in zip(middles, ranks):
            if rank in late:
                panel.annotate(f"{late[rank]:.1f}", (late[rank], middle), (3, 0),
                               textcoords="offset points", fontsize=8, verticalalignment="center")
    if ax is None and axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12 - 0.5 / height), ncols=3,
                    frameon=False)
    elif axes.get_legend_handles_labels()[0]:
        _style.add_legend(axes, beside=True)
    return axes


def _axes(ax: "Axes | None", height: float, with_panel: bool) -> tuple["Axes", "Axes | None"]:
    if ax is not None or not with_panel:
        axes: "Axes" = _style.make_axes(ax, 1, (11, height))[0]
        return axes, None
    _, both = _style.pyplot().subplots(1, 2, figsize=(11, height), layout="constrained", sharey=True,
                                       width_ratios=(6, 1))
    return both[0], both[1]


def _union(start: NDArray[np.float64], end: NDArray[np.float64],
           least: float) -> list[tuple[float, float]]:
    """The times that at least one of the spans covers; pauses that could not be seen count too."""
    united: list[tuple[float, float]] = []
    for place in np.argsort(start, kind="stable"):
        left, right = float(start[place]), max(float(end[place]), float(start[place]) + least)
        if united and left <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], right))
        else:
            united.append((left, right))
    return united
