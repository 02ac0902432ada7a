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

_LOGARITHMIC_FROM = 16  # this many times more ranks than the fewest
_AS_BARS = 2  # this many numbers of ranks at most
_ASIDE = 0.012  # of the axis, from one series to the next
_WHAT = "scaling draws {ranks: throughput}, or a dict of such dicts, label to measurements"


def scaling(measurements: Mapping[int, Any] | Mapping[str, Mapping[int, Any]], *,
            speedup: bool = False, baseline: float | None = None, unit: str = "samples/s",
            doubt: str | None = None, title: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw what more ranks gain: throughput or speed-up over ranks, with the ideal.

    Lines over the numbers of ranks; bars if there are one or two of them. Series stand side by side.
    The efficiency of a point is its value as a part of the ideal one; it is written beside the
    points of a single series, and for each series in the legend.

    Args:
        measurements: ``{ranks: throughput}``, or several as ``{label: {ranks: throughput}}``. Ranks
            are integers above 0. A throughput is a number above 0 in ``unit``, or a list of
            repetitions: then the median is drawn, with error bars from the least to the largest, as
            the axis says.
        speedup: draw how many times faster than ``baseline``.
        baseline: throughput of one rank, the same for all series. By default each series is
            compared with its own at the fewest ranks, divided by their number.
        unit: of the throughputs.
        doubt: why these numbers are not to be trusted, such as "the machine was busy": the picture
            says so, and is hatched (bars) or grey behind (lines).
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
    ideal = 1.0 if speedup else max(single.values())  # as throughputs that of the fastest
    draw = _draw_bars if len(ranks) <= _AS_BARS else _draw_lines
    draw(axes, [_Series(label, points, single[label], speedup) for label, points in series.items()],
         ranks, ideal)
    repeated = any(max(values) > min(values) for points in series.values()
                   for values in points.values())
    axes.set(xlabel="ranks" + ("\nerror bars: minimum to maximum of the repetitions" if repeated
                               else ""),
             ylabel="speed-up" if speedup else f"throughput ({unit})")
    if doubt is not None:
        _mark_doubt(axes, doubt)
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
        raise TypeError(f"{_WHAT}; {count!r} is not a number of ranks")
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


class _Series:
    """One of the series, as it is drawn."""

    def __init__(self, label: str, points: dict[int, list[float]], single: float,
                 speedup: bool) -> None:
        scale = 1 / single if speedup else 1.0
        self.counts = np.array(list(points))
        self.low, self.middle, self.high = (
            scale * np.array([pick(values) for values in points.values()])
            for pick in (min, np.median, max))
        self.efficiency = self.middle / (scale * single * self.counts)
        at = f"{self.counts[-1]} rank{'s' if self.counts[-1] > 1 else ''}"
        self.label = f"{label or 'measured'}: {100 * self.efficiency[-1]:.0f} % at {at}"

    def draw_errors(self, axes: "Axes", places: Any, colour: str) -> None:
        """From the least to the largest; ``places``: where on the horizontal axis."""
        if (self.high > self.low).any():
            axes.errorbar(places, self.middle, [self.middle - self.low, self.high - self.middle],
                          fmt="none", capsize=3, ecolor=colour, elinewidth=1, zorder=3)

    def write_efficiency(self, axes: "Axes", places: Any, colour: str, below: bool) -> None:
        """In percent, beside each point, or above what is highest there."""
        for x, y, part in zip(places, self.middle if below else self.high, self.efficiency):
            axes.annotate(f"{100 * part:.0f} %", (x, y), (6, -6) if below else (0, 3),
                          textcoords="offset points", color=colour,
                          horizontalalignment="left" if below else "center",
                          verticalalignment="top" if below else "bottom")


def _draw_lines(axes: "Axes", every: list[_Series], ranks: list[int], ideal: float) -> None:
    logarithmic = ranks[-1] >= _LOGARITHMIC_FROM * ranks[0]
    for number, series in enumerate(every):
        look = _style.line_look(number, number, len(series.counts))
        aside = _ASIDE * (number - (len(every) - 1) / 2)  # else error bars cover each other
        places = (series.counts * (ranks[-1] / ranks[0]) ** aside if logarithmic
                  else series.counts + aside * (ranks[-1] - ranks[0]))
        series.draw_errors(axes, places, look["color"])
        axes.plot(places, series.middle, label=series.label, **look)
        if len(every) == 1:
            series.write_efficiency(axes, places, look["color"], below=True)
    ends = np.array([ranks[0], ranks[-1]])
    axes.plot(ends, ideal * ends, color=_style.GREY, linestyle="--", linewidth=1.2, zorder=1,
              label="ideal: 100 %")
    _scale(axes, ranks, logarithmic)


def _draw_bars(axes: "Axes", every: list[_Series], ranks: list[int], ideal: float) -> None:
    width = 0.8 / len(every)
    for number, series in enumerate(every):
        groups = np.array([ranks.index(count) for count in series.counts])
        places = groups + width * (number - (len(every) - 1) / 2)
        colour = _style.line_look(number, 0, 1)["color"]
        axes.bar(places, series.middle, 0.9 * width, color=colour, label=series.label, zorder=2)
        series.draw_errors(axes, places, "#333333")
        if len(every) == 1:
            series.write_efficiency(axes, places, "black", below=False)
    axes.hlines([ideal * count for count in ranks], np.arange(len(ranks)) - 0.46,
                np.arange(len(ranks)) + 0.46, color=_style.GREY, linestyle="--", linewidth=1.2,
                label="ideal: 100 %", zorder=4)
    axes.set_xticks(range(len(ranks)), [str(count) for count in ranks])
    axes.set_xlim(-0.6, len(ranks) - 0.4)
    axes.margins(y=0.1)


def _mark_doubt(axes: "Axes", doubt: str) -> None:
    for bars in axes.containers:
        for bar in getattr(bars, "patches", []):
            bar.set(hatch="///", alpha=0.55, edgecolor="white")
    if not any(getattr(bars, "patches", []) for bars in axes.containers):
        axes.set_facecolor("#EEEEEE")
    axes.set_ylim(top=1.12 * axes.get_ylim()[1])  # for what is written
    axes.annotate(f"doubtful: {doubt}", (0.5, 0.98), xycoords="axes fraction", zorder=5,
                  horizontalalignment="center", verticalalignment="top", fontsize=9,
                  bbox={"facecolor": "white", "edgecolor": _style.GREY, "alpha": 0.9})


def _scale(axes: "Axes", ranks: list[int], logarithmic: bool) -> None:
    from matplotlib import ticker

    if logarithmic:
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
