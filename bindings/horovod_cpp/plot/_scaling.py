"""hvd.plot.scaling."""

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from horovod_cpp._native import InvalidArgumentError
from horovod_cpp.plot import _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOGARITHMIC_FROM = 16  # so many times more ranks than the fewest
_WHAT = "scaling draws {ranks: throughput}, or a dict of such dicts, label to measurements"


def scaling(measurements: Mapping[int, Any] | Mapping[str, Mapping[int, Any]], *,
            speedup: bool = False, baseline: float | None = None, unit: str = "samples/s",
            title: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw what more ranks bring: throughput or speed-up over ranks, with the ideal line.

    The efficiency of a point is its value as a part of the ideal one; it is written beside the
    points of a single series, and for each series in the legend.

    Args:
        measurements: ``{ranks: throughput}``, or several as ``{label: {ranks: throughput}}``. Ranks
            are integers above 0. A throughput is a number above 0 in ``unit``, or a list of
            repetitions: then the median is drawn, with bars from the least to the largest.
        speedup: draw how many times faster than ``baseline``.
        baseline: throughput of one rank, the same for all series. By default each series is
            compared with its own at the fewest ranks, divided by their number.
        unit: of the throughputs.
        title: of the axes.
        ax: matplotlib Axes to draw on.

    Returns:
        The Axes. Both are logarithmic if the ranks differ 16 times or more.

    Raises:
        InvalidArgumentError: a number of ranks or a throughput is out of range.
        TypeError: ``measurements`` is none of the above.
        ImportError: matplotlib is not installed.
    """
    series = _series(measurements)
    if baseline is not None and not _is_positive(baseline):
        raise InvalidArgumentError(f"scaling: baseline is {baseline!r}, must be a number above 0")
    axes: "Axes" = _style.make_axes(ax, 1, (8.0, 4.2))[0]
    ranks = sorted({count for points in series.values() for count in points})
    single = {label: baseline or float(np.median(points[min(points)])) / min(points)
              for label, points in series.items()}
    for number, (label, points) in enumerate(series.items()):
        _draw(axes, number, label, points, single[label], speedup, alone=len(series) == 1)
    # Several baselines have one ideal as speed-ups; as throughputs it is that of the fastest.
    _draw_ideal(axes, ranks, 1.0 if speedup else max(single.values()))
    _scale(axes, ranks)
    axes.set(xlabel="ranks", ylabel="speed-up" if speedup else f"throughput ({unit})")
    if title is not None:
        axes.set_title(title)
    _style.light_grid(axes)
    _style.add_legend(axes, beside=ax is None)
    return axes


def _series(measurements: Any) -> dict[str, dict[int, list[float]]]:
    """{label: {ranks: list of throughputs}}, checked."""
    if not isinstance(measurements, Mapping) or not measurements:
        raise TypeError(f"{_WHAT}; got {type(measurements).__name__}")
    several = all(isinstance(points, Mapping) and points for points in measurements.values())
    series = measurements if several else {"": measurements}
    return {str(label): {_ranks(count): _repetitions(count, value)
                         for count, value in sorted(points.items())}
            for label, points in series.items()}


def _ranks(count: Any) -> int:
    if not isinstance(count, numbers.Integral) or isinstance(count, bool):
        raise TypeError(f"{_WHAT}; {count!r} is no number of ranks")
    if count < 1:
        raise InvalidArgumentError(f"scaling: {count} ranks, must be at least 1")
    return int(count)


def _repetitions(count: Any, value: Any) -> list[float]:
    values = list(value) if isinstance(value, (Sequence, np.ndarray)) else [value]
    if not values or not all(_is_positive(each) for each in values):
        raise InvalidArgumentError(f"scaling: the throughput of {count} ranks is {value!r}, must "
                                   "be a number above 0 or a list of such numbers")
    return [float(each) for each in values]


def _is_positive(value: Any) -> TypeGuard[float]:
    return (isinstance(value, numbers.Real) and not isinstance(value, bool)
            and math.isfinite(value) and float(value) > 0)


def _draw(axes: "Axes", number: int, label: str, points: dict[int, list[float]], single: float,
          speedup: bool, alone: bool) -> None:
    counts = np.array(list(points))
    scale = 1 / single if speedup else 1.0
    low, middle, high = (scale * np.array([pick(values) for values in points.values()])
                         for pick in (min, np.median, max))
    efficiency = middle / (scale * single * counts)
    look = _style.line_look(number, number, len(counts))
    if (high > low).any():
        axes.errorbar(counts, middle, [middle - low, high - middle], fmt="none", capsize=3,
                      ecolor=look["color"], elinewidth=1)
    at = f"{counts[-1]} rank{'s' if counts[-1] > 1 else ''}"
    axes.plot(counts, middle, **look,
              label=f"{label or 'measured'}: {100 * efficiency[-1]:.0f} % at {at}")
    if alone:
        for x, y, part in zip(counts, middle, efficiency):
            axes.annotate(f"{100 * part:.0f} %", (x, y), (6, -6), textcoords="offset points",
                          verticalalignment="top", color=look["color"])


def _draw_ideal(axes: "Axes", ranks: list[int], slope: float) -> None:
    ends = np.array([ranks[0], ranks[-1]])
    axes.plot(ends, slope * ends, color=_style.GREY, linestyle="--", linewidth=1.2, zorder=1,
              label="ideal: 100 %")


def _scale(axes: "Axes", ranks: list[int]) -> None:
    from matplotlib import ticker

    if ranks[-1] >= _LOGARITHMIC_FROM * ranks[0]:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
        axes.margins(0.12)  # for what is written beside the first and the last point
    else:
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=min(ranks[0], 1) - 0.05 * ranks[-1], right=1.12 * ranks[-1])
    axes.xaxis.set_major_locator(ticker.FixedLocator(ranks))
    axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
