"""What the pictures share: colours, axes, legends."""

import importlib
import math
import textwrap
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from horovod_cpp._native import InvalidArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: An array of Axes, as pyplot.subplots makes them.
AxesArray: TypeAlias = NDArray[np.object_]

# M. Okabe, K. Ito, "Color Universal Design", 2008.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, YELLOW, BLACK = "#E69F00", "#56B4E9", "#F0E442", "#000000"
GREY = "#7F7F7F"  # for what is no data
WAIT = "#F6CD7E"  # a light orange: waiting is often harmless

_LINES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)  # yellow is too light on white
_DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))
_MARKERS = "osD^vPX"
_ROW = 0.24  # inches of a legend's row
_LEGEND = 28  # letters of a line; longer ones would take the room of the axes
BESIDE = 8  # entries of a legend beside the axes, at most
ALL_MARKED = 40  # points of a line that get a marker each; longer lines get a dozen


def pyplot() -> types.ModuleType:
    """matplotlib.pyplot, imported when a picture is drawn and no earlier."""
    try:
        found = importlib.import_module("matplotlib.pyplot")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise ImportError("hvd.plot draws with matplotlib, which is not installed: "
                          "pip install matplotlib", name="matplotlib") from None
    return found


def make_axes(ax: "Axes | Sequence[Axes] | AxesArray | None", count: int,
              size: tuple[float, float], **options: Any) -> AxesArray:
    """An array of ``count`` Axes: those of ``ax``, or of a new figure of ``size`` inches, with these
    ``options`` of pyplot.subplots."""
    if ax is None:
        _, axes = pyplot().subplots(1, count, figsize=size, layout="constrained", squeeze=False,
                                    **options)
        first: AxesArray = axes[0]
        return first
    pyplot()
    from matplotlib.axes import Axes

    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    for one in axes:
        if not isinstance(one, Axes):
            raise TypeError(f"ax takes matplotlib's Axes, got {type(one).__name__}")
    if len(axes) != count:
        raise InvalidArgumentError(f"the picture needs {count} Axes, one per panel; ax has "
                                   f"{len(axes)}")
    return axes


def line_look(colour: int, dash: int, points: int, colours: int = 1) -> dict[str, Any]:
    """Keyword arguments of Axes.plot for the line of these two numbers, with this many points.

    Colour and marker together tell 49 lines apart. More than two ``colours`` are thin and let others
    shine through, and their markers are hollow and ever smaller: those of equal lines lie in each
    other.
    """
    look = {"color": _LINES[colour % len(_LINES)], "linestyle": _DASHES[dash % len(_DASHES)],
            "marker": _MARKERS[(colour + colour // len(_LINES)) % len(_MARKERS)],
            "markersize": 4.5, "linewidth": 1.6,
            "markevery": 1 if points <= ALL_MARKED else points // 12}
    if colours > 2:
        look |= {"linewidth": 1.1, "alpha": 0.8, "markerfacecolor": "none",
                 "markersize": 4 + 7 * (1 - colour / (colours - 1))}
    return look


def keys_of(runs: Sequence[str], kinds: Sequence[str]) -> dict[str, Any]:
    """{label: a line for the legend}: runs by their colours and markers, kinds by their dashes."""
    from matplotlib.lines import Line2D

    entries = {run: Line2D([], [], **{**line_look(number, 0, 1), "markevery": None})
               for number, run in enumerate(runs)}
    return entries | {kind: Line2D([], [], color=BLACK, linestyle=_DASHES[number % len(_DASHES)])
                      for number, kind in enumerate(kinds)}


def add_legend(axes: "Axes", beside: bool, **options: Any) -> None:
    """Of what has a label. ``beside``: to the right of the axes, where it can cover no data; a long one
    below all axes of the figure, in columns."""
    from matplotlib.figure import Figure

    handles, labels = axes.get_legend_handles_labels()
    options = {"handles": handles, "labels": labels, **options}
    figure, count = axes.figure, len(options["labels"])
    if count == 0:
        return
    if beside and count > BESIDE and isinstance(figure, Figure):
        width, height = figure.get_size_inches()
        columns = max(2, int(width / 2.2))
        figure.set_figheight(height + _ROW * math.ceil(count / columns))
        figure.legend(**options, ncols=columns, loc="outside lower center", frameon=False)
        return
    if beside:
        options = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0,
                   "frameon": False, **options}
    for text in axes.legend(**options).get_texts():
        text.set_text(textwrap.fill(text.get_text(), _LEGEND))


def add_bars(axes: "Axes", bars: Sequence[tuple[float, float, float]], height: float, colour: str,
             label: str, hatch: str | None = None) -> None:
    """Rectangles (left, right, top) as one collection, which a legend names if there are any."""
    from matplotlib.collections import PolyCollection

    if not bars:
        return
    left, right, top = np.array(bars).T
    corners = np.stack([[left, top], [right, top], [right, top + height], [left, top + height]])
    axes.add_collection(PolyCollection(
        list(corners.transpose(2, 0, 1)), facecolor=colour, label=label, linewidth=0, hatch=hatch,
        edgecolor="black", zorder=2, snap=False), autolim=False)


def mark_failures(axes: "Axes", places: Sequence[tuple[float, float]]) -> None:
    """A cross at each (time, row)."""
    if places:
        axes.plot(*zip(*places), "X", color=VERMILLION, markeredgecolor="white", markersize=9,
                  label="failed", linestyle="none", zorder=4)


def band(axes: "Axes", bands: Sequence[tuple[float, float]]) -> None:
    """Every other (top, bottom) is grey."""
    for top, bottom in bands[1::2]:
        axes.axhspan(top, bottom, color="#F2F2F2", zorder=0, linewidth=0)


def light_grid(axes: "Axes") -> None:
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
