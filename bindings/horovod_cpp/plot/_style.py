"""What the pictures share: colours, axes, legends."""

import importlib
import textwrap
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from horovod_cpp._native import InvalidArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

#: An array of Axes, as pyplot.subplots makes them.
AxesArray: TypeAlias = NDArray[np.object_]

# M. Okabe, K. Ito, "Color Universal Design", 2008.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, YELLOW, BLACK = "#E69F00", "#56B4E9", "#F0E442", "#000000"
GREY = "#7F7F7F"  # for what is no data

_LINES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)  # yellow is too light on white
_DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))
_MARKERS = "osD^vPX"
_LEGEND = 28  # letters of a line; longer ones would take the room of the axes
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
              size: tuple[float, float]) -> AxesArray:
    """An array of ``count`` Axes: those of ``ax``, or of a new figure of ``size`` inches."""
    if ax is None:
        _, axes = pyplot().subplots(1, count, figsize=size, layout="constrained", squeeze=False)
        first: AxesArray = axes[0]
        return first
    pyplot()
    from matplotlib.axes import Axes

    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    for one in axes:
        if not isinstance(one, Axes):
            raise TypeError(f"ax takes matplotlib's Axes, got {type(one).__name__}")
    if len(axes) != count:
        raise InvalidArgumentError(f"the picture needs {count} Axes, one a panel; ax has "
                                   f"{len(axes)}")
    return axes


def line_look(colour: int, dash: int, points: int) -> dict[str, Any]:
    """Keyword arguments of Axes.plot for the line of these two numbers, with so many points."""
    return {"color": _LINES[colour % len(_LINES)], "linestyle": _DASHES[dash % len(_DASHES)],
            "marker": _MARKERS[colour % len(_MARKERS)], "markersize": 4.5, "linewidth": 1.6,
            "markevery": 1 if points <= ALL_MARKED else points // 12}


def add_legend(axes: "Axes", beside: bool, **options: Any) -> "Legend":
    """``beside``: to the right of the axes, where it can cover no data."""
    if beside:
        options = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0,
                   "frameon": False, **options}
    legend: "Legend" = axes.legend(**options)
    for text in legend.get_texts():
        text.set_text(textwrap.fill(text.get_text(), _LEGEND))
    return legend


def light_grid(axes: "Axes") -> None:
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
