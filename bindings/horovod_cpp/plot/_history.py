"""hvd.plot.history."""

import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from horovod_cpp._native import InvalidArgumentError
from horovod_cpp.plot import _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Table: TypeAlias = dict[str, list[Any]]
_Points: TypeAlias = NDArray[np.float64]
_Curve: TypeAlias = tuple[_Points, _Points, str, int, int]  # xs, ys, label, colour, dash
# The word of a metric's name that decides its panel.
_PANELS = {"loss": "loss", "accuracy": "accuracy", "acc": "accuracy"}
_WHAT = ("a run is a dict of lists, {'loss': [2.3, 1.1], 'accuracy': [0.2, 0.6]}, or a list of "
         "dicts, one per step or epoch; several are a dict of runs or a list of runs, one per rank")


def history(runs: Mapping[str, Any] | Sequence[Any], *, metrics: str | Sequence[str] | None = None,
            x: str | None = None, smooth: float = 0.0, title: str | None = None,
            ax: "Axes | Sequence[Axes] | _style.AxesArray | None" = None) -> _style.AxesArray:
    """Draw the curves of a training: a panel of losses and one of accuracies.

    A run is a dict of lists, ``{"loss": [...], "test_accuracy": [...]}``, or a list of dicts, one per
    step or epoch, ``[{"epoch": 1, "loss": 2.1, "test_accuracy": None}, ...]``; None stands where
    nothing was measured.

    Args:
        runs: a run; or several as a dict, label to run; or a list of runs, one per rank, as
            ``hvd.run`` returns them.
        metrics: the names to draw. By default all with "loss", "accuracy" or "acc" among their
            words. Names that share such a word share a panel.
            What is not drawn then is named below the axis.
        x: the name of the horizontal axis; by default "step" or "epoch" if all runs have it. Values
            of a run without it are numbered from 1, and so are all if no run has "step" or "epoch".
        smooth: from 0, as measured, to below 1: the weight of the past in an exponential mean. What
            was measured stays visible behind it. Lines of up to 40 points stay as measured.
        title: of the figure, or of the first of ``ax``.
        ax: matplotlib Axes to draw on, as many as there are panels.

    Returns:
        An array of Axes, one per panel, with one horizontal axis if they are new. Accuracies up to 1
        are shown in percent. Where values are not finite there is a cross below, and the legend says
        from where on.

    Raises:
        InvalidArgumentError: no run has such a metric or ``x``; what is drawn of a run has unequal
            lengths, or a place without its ``x``; ``smooth`` is out of range; ``ax`` has another
            number of Axes.
        TypeError: ``runs`` is none of the above; ``metrics`` or ``smooth`` has a wrong type.
        ImportError: matplotlib is not installed.
    """
    if not isinstance(smooth, numbers.Real):
        raise TypeError(f"history: smooth must be a number, got {smooth!r}")
    if not 0 <= smooth < 1:
        raise InvalidArgumentError(f"history: smooth is {smooth}, must be at least 0 and below 1")
    tables = _tables(runs)
    if isinstance(metrics, str):
        metrics = [metrics]
    panels = _panels(tables, metrics)
    x = _chosen_x(tables, x)
    for run, table in tables.items():
        _check_lengths(run, table, [name for names in panels.values() for name in names], x)
    kinds = [""]  # "train" and "test", if a panel has both
    if any(len(names) > 1 for names in panels.values()):
        kinds = list(dict.fromkeys(_kind(name) for names in panels.values() for name in names))
    curves = [_curves(tables, names, kinds, x) for names in panels.values()]
    axes = _style.make_axes(ax, len(panels), (4.2 * len(panels) + 1.2, 3.4), sharex=True)
    notes: dict[str, list[str]] = {}  # by label: where its values are not finite
    for panel, (word, names), lines in zip(axes, panels.items(), curves):
        for line in lines:
            _draw(panel, x, *line, smooth, len(tables), notes)
        _label(panel, word, names, x, lines)
    left = _left_out(tables, panels, x) if metrics is None else []
    if left:
        axes[-1].set_xlabel(f"{axes[-1].get_xlabel()}\nnot drawn: {', '.join(left)} (see metrics=)")
    _add_legend(axes, ax is None, list(tables), kinds, notes)
    if title is not None:
        if ax is None:
            axes[0].figure.suptitle(title)
        else:
            axes[0].set_title(title)
    return axes


def _tables(runs: Any) -> dict[str, _Table]:
    """{label: {name: list}} of everything that ``runs`` may be."""
    alone = _table(runs)
    if alone is not None:
        return {"": alone}
    if isinstance(runs, Mapping):
        parts = {str(label): run for label, run in runs.items()}
    elif isinstance(runs, Sequence) and not isinstance(runs, str):
        parts = {f"rank {rank}": run for rank, run in enumerate(runs)}
    else:
        raise TypeError(f"history: {_WHAT}; got {type(runs).__name__}")
    tables = {}
    for label, run in parts.items():
        table = _table(run)
        if table is None:
            raise TypeError(f"history: {_WHAT}; '{label}' is neither")
        tables[label] = table
    if not tables:
        raise TypeError(f"history: {_WHAT}; got an empty {type(runs).__name__}")
    return tables


def _table(run: Any) -> _Table | None:
    """{name: list} of one run; None if it is none."""
    if isinstance(run, Mapping) and run and all(_is_column(values) for values in run.values()):
        return {str(name): list(values) for name, values in run.items()}
    if not isinstance(run, Sequence) or isinstance(run, str) or len(run) == 0:
        return None
    if not all(isinstance(row, Mapping) and all(_is_cell(value) for value in row.values())
               for row in run):
        return None
    names = dict.fromkeys(name for row in run for name in row)
    return {str(name): [row.get(name) for row in run] for name in names}


def _known(tables: dict[str, _Table]) -> list[str]:
    """The names that any run has."""
    return list(dict.fromkeys(name for table in tables.values() for name in table))


def _chosen_x(tables: dict[str, _Table], x: str | None) -> str:
    if x is None:
        return next((name for name in ("step", "epoch")
                     if all(name in table for table in tables.values())), "epoch")
    known = _known(tables)
    if x not in known and x not in ("step", "epoch"):  # these number the values from 1
        raise InvalidArgumentError(f"history: no run has x='{x}', they have {', '.join(known)}")
    return x


def _check_lengths(run: str, table: _Table, names: Sequence[str], x: str) -> None:
    """All that is drawn of a run, and its x, must be columns of one table."""
    drawn = [name for name in dict.fromkeys([*names, x]) if name in table]
    for name in drawn[1:]:
        if len(table[name]) != len(table[drawn[0]]):
            raise InvalidArgumentError(
                f"history: {_of(run)}'{drawn[0]}' has {len(table[drawn[0]])} values, '{name}' has "
                f"{len(table[name])}; put None where nothing was measured")


def _of(run: str) -> str:
    return f"{run}: " if run else ""


def _is_cell(value: Any) -> bool:
    return value is None or isinstance(value, (numbers.Number, str, np.generic))


def _is_column(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.ndim == 1
    return (isinstance(values, Sequence) and not isinstance(values, str)
            and all(_is_cell(value) for value in values))


def _words(name: str) -> list[str]:
    return re.split(r"[\W_]+", name.lower())


def _panels(tables: dict[str, _Table], metrics: Any) -> dict[str, list[str]]:
    """{the word they share, or the name: [names of metrics]}, in the order of the runs."""
    known = _known(tables)
    wanted = metrics
    if metrics is None:
        wanted = [name for name in known if any(word in _PANELS for word in _words(name))]
    elif not (isinstance(metrics, Sequence) and all(isinstance(name, str) for name in metrics)):
        raise TypeError(f"history: metrics must be a name or a list of names, got {metrics!r}")
    for name in wanted:
        if name not in known:
            raise InvalidArgumentError(f"history: no run has '{name}', they have "
                                       + ", ".join(known))
    if not wanted:
        raise InvalidArgumentError("history: no name has the word loss or accuracy, choose some "
                                   f"with metrics=: {', '.join(known)}")
    panels: dict[str, list[str]] = {}
    for name in wanted:
        word = next((_PANELS[word] for word in _words(name) if word in _PANELS), name)
        panels.setdefault(word, []).append(name)
    return panels


def _kind(name: str) -> str:
    """'train' of 'train_loss'; 'loss' stays."""
    return " ".join(word for word in _words(name) if word not in _PANELS) or name


def _curves(tables: dict[str, _Table], names: list[str], kinds: list[str],
            x: str) -> list[_Curve]:
    """Of a panel; one of ``kinds`` looks the same in all panels."""
    curves = []
    for number, (run, table) in enumerate(tables.items()):
        for name in names:
            if name in table:
                kind = kinds.index(_kind(name)) if len(kinds) > 1 else 0
                label = ", ".join(part for part in (run, kinds[kind]) if part)
                colour = number if len(tables) > 1 else kind
                xs, ys = _points(run, table, x, name)
                curves.append((xs, ys, label, colour, kind))
    return curves


def _label(panel: "Axes", word: str, names: list[str], x: str, curves: list[_Curve]) -> None:
    from matplotlib import ticker

    text = (names[0] if len(names) == 1 else word).replace("_", " ")
    if word == "accuracy":
        text += " (%)"
        if all(np.nanmax(ys) <= 1 for _, ys, *_ in curves if not np.isnan(ys).all()):
            panel.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, symbol=""))
    panel.set(xlabel=x.replace("_", " "), ylabel=text)
    whole = all((xs == np.round(xs)).all() for xs, *_ in curves)
    if whole and panel.get_xscale() == "linear":  # no epoch 2.5
        panel.xaxis.set_major_locator(ticker.MaxNLocator("auto", integer=True, min_n_ticks=1))
    _style.light_grid(panel)


def _points(run: str, table: _Table, x: str, name: str) -> tuple[_Points, _Points]:
    """Arrays of the places where ``name`` was measured and of what was measured."""
    ys = table[name]
    xs = table.get(x) or list(range(1, len(ys) + 1))
    points = [(a, b) for a, b in zip(xs, ys) if b is not None]
    if not points:
        raise InvalidArgumentError(f"history: {_of(run)}'{name}' has no value")
    lost = sum(a is None for a, _ in points)
    if lost:
        raise InvalidArgumentError(f"history: {_of(run)}{lost} of {len(points)} values of '{name}' "
                                   f"have no '{x}'; give it to all, or choose another with x=")
    try:
        both = np.array(points, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"history: '{name}' and '{x}' must be numbers") from None
    return both[:, 0], both[:, 1]


def _draw(panel: "Axes", x: str, xs: _Points, ys: _Points, label: str, colour: int, dash: int,
          smooth: float, runs: int, notes: dict[str, list[str]]) -> None:
    lost = ~np.isfinite(ys)
    look = _style.line_look(colour, dash, len(xs), runs)
    if lost.any():  # a gap alone would say too little, and at the end there is none
        label = label or "values"
        notes.setdefault(label, []).append(_not_finite(ys, lost, xs, x))
        panel.plot(xs[lost], np.full(int(lost.sum()), 0.02), "x", color=look["color"], markersize=6,
                   transform=panel.get_xaxis_transform(), clip_on=False, zorder=4)
    if smooth and len(xs) > _style.ALL_MARKED:
        panel.plot(xs, ys, color=look["color"], linewidth=0.8, alpha=0.3)
        ys = _smoothed(ys, smooth)
    panel.plot(xs, ys, label=label or None, **look)


def _not_finite(ys: _Points, lost: NDArray[np.bool_], xs: _Points, x: str) -> str:
    """Where, if all are lost from some place on; else how many."""
    first = int(lost.argmax())
    if not lost[first:].all():
        return f"{int(lost.sum())} of {len(ys)} not finite"
    what = "NaN" if np.isnan(ys[first:]).all() else "not finite"
    return f"{what} from {x.replace('_', ' ')} {xs[first]:g}"


def _left_out(tables: dict[str, _Table], panels: dict[str, list[str]], x: str) -> list[str]:
    """Names of the columns of numbers that no panel has."""
    drawn = {name for names in panels.values() for name in names} | {x, "step", "epoch"}
    return [name for name in _known(tables)
            if name not in drawn and any(
                isinstance(value, numbers.Real) and not isinstance(value, bool)
                for table in tables.values() for value in table.get(name, []))]


def _smoothed(ys: Iterable[float], weight: float) -> _Points:
    """Exponential mean without a bias to its first value: divided by the sum of its weights."""
    mean, total = 0.0, 0.0
    result = []
    for y in ys:
        if math.isfinite(y):
            mean = weight * mean + (1 - weight) * y
            total = weight * total + (1 - weight)
        result.append(mean / total if math.isfinite(y) else math.nan)
    return np.array(result)


def _add_legend(axes: _style.AxesArray, own: bool, runs: list[str], kinds: list[str],
                notes: dict[str, list[str]]) -> None:
    """One for all panels, beside the last, or below if it is long; with Axes of the caller's, in the
    last. Of many runs of several kinds it names runs and kinds, not each pair."""
    entries: dict[str, Any] = {}
    for panel in axes:
        for line, label in zip(*panel.get_legend_handles_labels()):
            entries.setdefault(label, line)
    if len(entries) > _style.BESIDE and len(runs) > 1 and len(kinds) > 1:
        unusual = {label: line for label, line in entries.items() if label in notes}
        entries = {**_style.keys_of(runs, kinds), **unusual}
    # Panels have one entry in common, and often lose their values at one place.
    said = {label: f" ({', '.join(dict.fromkeys(texts))})" for label, texts in notes.items()}
    _style.add_legend(axes[-1], beside=own, handles=list(entries.values()),
                      labels=[label + said.get(label, "") for label in entries])
