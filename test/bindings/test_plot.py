"""hvd.plot: history and scaling; the timeline has a file of its own."""

import os
import pathlib
import subprocess
import sys

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
from matplotlib import colors, pyplot

import horovod_cpp as hvd

ONE = {"train_loss": [2.0, 1.0, 0.5], "test_loss": [2.5, 1.5, 1.0], "accuracy": [0.25, 0.5, 0.75]}
TWO = {name: [value / 2 for value in values] for name, values in ONE.items()}
# One a step; accuracy was measured after the second and the fourth.
ROWS = [{"epoch": 1 + step // 2, "step": 1 + step, "method": "ddp", "loss": 4.0 - step,
         "accuracy": 0.25 * step if step % 2 else None} for step in range(4)]


@pytest.fixture(autouse=True)
def closed_figures():
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before, "the global style changed"
    pyplot.close("all")


def lines_of(axes):
    """{label: [(x, y), ...]} of the lines that the legend names."""
    return {label: list(zip(*(part.tolist() for part in line.get_data())))
            for line, label in zip(*axes.get_legend_handles_labels())}


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def refused(draw, given, options, error, words):
    with pytest.raises(error) as caught:
        draw(given, **options)
    assert all(word in str(caught.value) for word in words), caught.value
    assert not pyplot.get_fignums()


def png_of(axes, path):
    axes.figure.savefig(path)
    return path.read_bytes()


def test_history_draws_every_value_of_a_run_with_a_panel_a_kind(tmp_path):
    losses, accuracies = hvd.plot.history(ONE)
    assert lines_of(losses) == {
        "train": [(1, 2.0), (2, 1.0), (3, 0.5)], "test": [(1, 2.5), (2, 1.5), (3, 1.0)]}
    assert (losses.get_xlabel(), losses.get_ylabel()) == ("epoch", "loss")
    assert accuracies.get_ylabel() == "accuracy (%)"
    line, = accuracies.get_lines()
    assert line.get_ydata().tolist() == [0.25, 0.5, 0.75]
    assert png_of(losses, tmp_path / "p.png").startswith(b"\x89PNG")
    ticks = [label.get_text() for label in accuracies.get_yticklabels()]
    assert "50" in ticks, ticks  # percent, as the label says


def test_history_compares_runs_in_one_legend_and_colours_of_their_own():
    losses, accuracies = hvd.plot.history({"1 rank": ONE, "2 ranks": TWO}, title="digits")
    assert set(lines_of(losses)) == {"1 rank, train", "1 rank, test", "2 ranks, train",
                                     "2 ranks, test"}
    assert lines_of(losses)["2 ranks, test"] == [(1, 1.25), (2, 0.75), (3, 0.5)]
    assert legend_of(accuracies) == [*lines_of(losses), "1 rank, accuracy", "2 ranks, accuracy"]
    assert losses.get_legend() is None
    looks = {(line.get_color(), line.get_linestyle()) for line in losses.get_lines()}
    assert len(looks) == 4 and len({colour for colour, _ in looks}) == 2
    assert losses.figure.get_suptitle() == "digits"


def test_history_takes_what_hvd_run_returns_rank_by_rank():
    axes, = hvd.plot.history([{"loss": [2.0, 1.0]}, {"loss": [4.0, 3.0]}])
    assert lines_of(axes) == {"rank 0": [(1, 2.0), (2, 1.0)], "rank 1": [(1, 4.0), (2, 3.0)]}
    assert legend_of(axes) == ["rank 0", "rank 1"]


def test_history_of_rows_leaves_out_what_was_not_measured_and_finds_the_steps():
    losses, accuracies = hvd.plot.history(ROWS)
    assert losses.get_xlabel() == "step"
    assert losses.get_lines()[0].get_xydata().tolist() == [[1, 4], [2, 3], [3, 2], [4, 1]]
    assert accuracies.get_lines()[0].get_xydata().tolist() == [[2, 0.25], [4, 0.75]]
    assert losses.get_legend() is None and accuracies.get_legend() is None  # nothing to tell apart
    by_epoch, = hvd.plot.history({"a": ROWS, "b": ROWS}, metrics="loss", x="epoch")
    assert by_epoch.get_xlabel() == "epoch"
    assert lines_of(by_epoch)["b"] == [(1, 4), (1, 3), (2, 2), (2, 1)]


def test_history_smooths_long_lines_and_keeps_the_measured_ones_behind():
    values = [float(i % 2) for i in range(100)]
    axes, = hvd.plot.history({"loss": values}, smooth=0.9)
    raw, smoothed = axes.get_lines()
    assert raw.get_ydata().tolist() == values
    assert raw.get_color() == smoothed.get_color() and raw.get_alpha() < 0.5
    means, weights = 0.0, 0.0
    for got, value in zip(smoothed.get_ydata(), values):
        means, weights = 0.9 * means + value, 0.9 * weights + 1
        assert got == pytest.approx(means / weights)
    short, = hvd.plot.history({"loss": values[:40]}, smooth=0.9)
    assert [line.get_ydata().tolist() for line in short.get_lines()] == [values[:40]]


def test_history_says_how_many_values_are_not_finite():
    axes, = hvd.plot.history({"a": {"loss": [1.0, float("nan"), float("inf"), 2.0]},
                              "b": {"loss": [1.0, 2.0]}})
    assert legend_of(axes) == ["a (2 of 4 not finite)", "b"]
    lost = next(line for line in axes.get_lines() if line.get_marker() == "x")
    assert lost.get_xdata().tolist() == [2, 3]  # the places
    losses, accuracies = hvd.plot.history({"loss": [2.0, 1.0] + [float("nan")] * 4,
                                           "accuracy": [0.1] * 6})
    assert legend_of(accuracies) == ["values (NaN from epoch 3)"]
    assert losses.get_xlim() == accuracies.get_xlim() and losses.get_xlim()[1] > 6
    _, accuracies = hvd.plot.history({"a": {"loss": [2.0, float("nan")], "accuracy": [0.1, 0.2]},
                                      "b": {"loss": [2.0, 1.0], "accuracy": [0.1, 0.2]}})
    assert legend_of(accuracies) == ["a (NaN from epoch 2)", "b"]  # once


def test_history_names_the_columns_that_it_does_not_draw():
    axes, = hvd.plot.history({"a": [{"epoch": 1, "loss": 1.0, "lr": 0.1, "host": "x"}]})
    assert axes.get_xlabel() == "epoch\nnot drawn: lr (see metrics=)"
    axes, = hvd.plot.history([{"epoch": 1, "loss": 1.0, "lr": 0.1}], metrics="loss")
    assert axes.get_xlabel() == "epoch"  # chosen


def test_many_runs_differ_in_colour_or_marker_and_their_legend_leaves_room():
    runs = {f"run {i}": {"loss": [1.0, 2.0], "test_loss": [2.0, 3.0], "accuracy": [0.1, 0.2]}
            for i in range(20)}
    losses, accuracies = hvd.plot.history(runs)
    looks = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in losses.get_lines()]
    assert len(set(looks)) == 40
    # Equal lines: thin, translucent, with hollow markers of different sizes.
    assert all(line.get_alpha() < 1 and line.get_linewidth() < 1.5 for line in losses.get_lines())
    assert len({line.get_markersize() for line in losses.get_lines()}) == 20
    assert accuracies.get_legend() is None
    legend, = losses.figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == [*runs, "loss", "test", "accuracy"]  # runs and kinds, not each pair
    losses.figure.canvas.draw()
    height = losses.figure.get_figheight() * losses.figure.dpi
    assert legend.get_window_extent().height < 0.45 * height < losses.get_window_extent().height * 1.2
    assert legend.get_window_extent().y0 >= 0


def test_seven_runs_differ_in_colour_and_marker():
    runs = {f"run {i}": {"loss": [i, i + 1.0]} for i in range(7)}
    axes, = hvd.plot.history(runs)
    lines = axes.get_lines()
    assert len({line.get_marker() for line in lines}) == 7
    found = np.array([colors.to_rgb(line.get_color()) for line in lines])
    apart = np.linalg.norm(found[:, None] - found[None], axis=2) + np.eye(7)
    assert apart.min() > 0.25, apart.min()


@pytest.mark.parametrize(("runs", "options", "error", "words"), [
    ([], {}, TypeError, ["list", "a run is a dict of lists"]),
    (3, {}, TypeError, ["int"]),
    ({"a": ONE, "b": 7}, {}, TypeError, ["'b'"]),
    ({"time": [1, 2]}, {}, ValueError, ["metrics=", "time"]),
    (ONE, {"metrics": ["lr"]}, ValueError, ["'lr'", "train_loss"]),
    (ONE, {"smooth": 1.0}, ValueError, ["smooth", "1.0"]),
    ({"epoch": [1, 2], "loss": [1.0]}, {}, ValueError, ["'loss' has 1", "'epoch' has 2"]),
    ({"train_loss": [1, 2], "test_loss": [1]}, {}, ValueError, ["'train_loss' has 2",
                                                               "'test_loss' has 1"]),
    ({"loss": [1, 2], "accuracy": [1]}, {"x": "step"}, ValueError, ["'accuracy' has 1", "None"]),
    (ONE, {"x": "nope"}, ValueError, ["x='nope'", "train_loss, test_loss"]),
    ([{"loss": 1}, {"loss": 2, "epoch": 5}], {}, ValueError, ["1 of 2 values of 'loss'",
                                                             "no 'epoch'"]),
    (ONE, {"metrics": 5}, TypeError, ["metrics", "5"]),
    (ONE, {"metrics": [5]}, TypeError, ["metrics", "[5]"]),
    (ONE, {"smooth": "a"}, TypeError, ["smooth", "'a'"]),
    ({"a": {"loss": [1.0]}, "b": {"loss": []}}, {}, ValueError, ["b: 'loss' has no value"]),
    ({"loss": [1.0, "high"]}, {}, TypeError, ["'loss'", "numbers"]),
    (ONE, {"ax": "left"}, TypeError, ["ax", "str"]),
])
def test_history_refuses_what_it_cannot_draw(runs, options, error, words):
    refused(hvd.plot.history, runs, options, error, words)


def test_axes_of_the_caller_are_drawn_on_and_returned():
    figure, grid = pyplot.subplots(2, 2)
    assert list(hvd.plot.history(ONE, ax=grid[0])) == list(grid[0])
    assert hvd.plot.scaling({1: 1, 2: 2}, ax=grid[1, 0]) is grid[1, 0]
    assert pyplot.get_fignums() == [figure.number]
    with pytest.raises(ValueError, match="needs 2 Axes.*ax has 1"):
        hvd.plot.history(ONE, ax=grid[1, 1])


def test_scaling_draws_throughput_efficiency_and_the_ideal_line(tmp_path):
    axes = hvd.plot.scaling({4: 300.0, 1: 100.0, 2: [150.0, 190.0, 180.0]}, unit="images/s")
    lines = lines_of(axes)
    assert lines == {"measured: 75 % at 4 ranks": [(1, 100), (2, 180), (4, 300)],
                     "ideal: 100 %": [(1, 100), (4, 400)]}
    assert axes.get_ylabel() == "throughput (images/s)"
    assert [text.get_text() for text in axes.texts] == ["100 %", "90 %", "75 %"]
    bars, = axes.collections
    assert axes.get_xlabel().startswith("ranks\nerror bars: minimum to maximum")
    assert [path.vertices[:, 1].tolist() for path in bars.get_paths()] \
        == [[100, 100], [150, 190], [300, 300]]
    assert axes.get_xticks().tolist() == [1, 2, 4]
    assert png_of(axes, tmp_path / "p.png").startswith(b"\x89PNG")


def test_scaling_compares_series_as_speed_ups_over_a_common_baseline():
    axes = hvd.plot.scaling({"gather": {2: 100.0}, "optimizer": {1: 80.0, 2: 160.0}},
                            speedup=True, baseline=100.0)
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}
    assert heights == {"gather: 50 % at 2 ranks": [1.0], "optimizer: 80 % at 2 ranks": [0.8, 1.6]}
    assert axes.get_ylabel() == "speed-up"
    own = hvd.plot.scaling({"a": {2: 100.0, 4: 150.0}, "b": {1: 10.0, 4: 20.0}}, speedup=True)
    lines = lines_of(own)
    assert [y for _, y in lines["a: 75 % at 4 ranks"]] == [2.0, 3.0]
    assert [y for _, y in lines["b: 50 % at 4 ranks"]] == [1.0, 2.0]
    # Side by side, close to their ranks.
    assert lines["a: 75 % at 4 ranks"][1][0] < 4 < lines["b: 50 % at 4 ranks"][1][0] < 4.1


def test_scaling_over_one_or_two_numbers_of_ranks_has_bars_that_do_not_cover_each_other():
    methods = {method: {1: [9.0, 10.0, 11.0], 2: [15.0, 18.0]} for method in "abcde"}
    axes = hvd.plot.scaling(methods)
    bars = [(bar.get_x(), bar.get_x() + bar.get_width()) for container in axes.containers
            for bar in getattr(container, "patches", [])]
    assert len(bars) == 10
    assert all(end <= start for (_, end), (start, _) in zip(sorted(bars), sorted(bars)[1:]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2"]
    assert axes.get_xlabel() == "ranks\nerror bars: minimum to maximum of the repetitions"
    assert legend_of(axes)[-1] == "e: 82 % at 2 ranks" and "ideal: 100 %" in legend_of(axes)
    alone = hvd.plot.scaling({1: 10.0, 2: 15.0})
    assert [text.get_text() for text in alone.texts] == ["100 %", "75 %"]
    assert alone.get_xlabel() == "ranks"  # nothing was repeated


@pytest.mark.parametrize("most", [2, 4])
def test_numbers_in_doubt_look_so_and_say_why(most):
    measured = {"a": {count: 10.0 * count for count in (1, 2, 4) if count <= most}}
    axes = hvd.plot.scaling(measured, doubt="the machine was busy")
    assert "doubtful: the machine was busy" in [text.get_text() for text in axes.texts]
    bars = [bar for container in axes.containers for bar in container]
    if most == 2:
        assert bars and all(bar.get_hatch() and bar.get_alpha() < 1 for bar in bars)
    else:
        assert colors.to_hex(axes.get_facecolor()) != "#ffffff"


def test_scaling_over_a_wide_range_is_logarithmic_with_the_measured_ranks_as_ticks():
    axes = hvd.plot.scaling({1: 10, 4: 40, 64: 500})
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xticks().tolist() == [1, 4, 64]
    axes.figure.canvas.draw()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "4", "64"]


@pytest.mark.parametrize(("measurements", "options", "error", "words"), [
    ({}, {}, TypeError, ["ranks: throughput"]),
    ([1, 2], {}, TypeError, ["list"]),
    ({"one": 5.0}, {}, TypeError, ["'one'"]),
    ({0: 5.0}, {}, ValueError, ["0 ranks"]),
    ({1: 0.0}, {}, ValueError, ["1 ranks", "0.0"]),
    ({1: float("nan")}, {}, ValueError, ["nan"]),
    ({1: []}, {}, ValueError, ["[]"]),
    ({1: 5.0}, {"baseline": -1}, ValueError, ["baseline", "-1"]),
])
def test_scaling_refuses_what_it_cannot_draw(measurements, options, error, words):
    refused(hvd.plot.scaling, measurements, options, error, words)


@pytest.fixture
def python_without_matplotlib(tmp_path):
    """A function that runs a program where every package of this Python is but matplotlib."""
    for folder in map(pathlib.Path, {os.path.dirname(np.__path__[0]),
                                     os.path.dirname(hvd.__path__[0])}):
        for entry in folder.iterdir():
            if "matplotlib" not in entry.name and not (tmp_path / entry.name).exists():
                (tmp_path / entry.name).symlink_to(entry)
    return lambda program: subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(tmp_path)!r})\n"
         + program], capture_output=True, text=True, timeout=60)


def test_matplotlib_is_imported_by_the_first_picture_and_not_by_the_package():
    program = ("import sys; import horovod_cpp as hvd; assert 'matplotlib' not in sys.modules; "
               "hvd.plot.scaling({1: 1.0}); assert 'matplotlib' in sys.modules")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_without_matplotlib_everything_but_pictures_works_and_they_say_what_to_install(
        python_without_matplotlib):
    for call in ("history({'loss': [1.0]})", "scaling({1: 1.0})", "timeline('nowhere.json')"):
        done = python_without_matplotlib(
            f"import horovod_cpp as hvd; hvd.init(); print(hvd.size()); hvd.plot.{call}")
        assert done.stdout == "1\n" and done.returncode == 1
        assert done.stderr.endswith("ImportError: hvd.plot draws with matplotlib, which is not "
                                    "installed: pip install matplotlib\n"), done.stderr
