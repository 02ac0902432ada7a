"""The notebooks of examples/notebooks, executed by a real kernel, as they are except TIMERS."""

import base64
import json
import os
import pathlib
import re
import struct

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from waiting import wait_for
from widgets import bar_in

import horovod_cpp as hvd

pytestmark = pytest.mark.full

NOTEBOOKS = ("compare_methods", "failures", "first_steps", "keras")  # the last one: test/keras
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# What the cells show must come first, on a machine however busy; Client presses the stop button.
TIMERS = {'_TIME_SECONDS"] = "2"': '_TIME_SECONDS"] = "0.5"', "timeout=5)": "timeout=8)",
          "threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()": ""}


class Client(NotebookClient):
    """Interrupts the long training, once, when its bar shows the first steps."""

    has_stopped = False

    def process_message(self, message, cell, cell_index):
        if not self.has_stopped and re.search(r"[1-9]\d*/10000", str(message["content"])):
            self.has_stopped = True
            self.km.interrupt_kernel()
        return super().process_message(message, cell, cell_index)


class Executed:
    """What a notebook showed."""

    def __init__(self, notebook):
        self.notebook = notebook
        self.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]

    def text(self, cells=None):
        """All that was printed, updated in place or raised."""
        parts = []
        for output in self.outputs(cells):
            bar = bar_in(self.notebook, output)
            if output.output_type == "error":
                parts += output.traceback
            elif bar is not None:
                parts.append(f"{bar[0]} {bar[1]}")
            else:
                parts.append(output.get("text") or output.data.get("text/plain", ""))
        return COLOURS.sub("", "\n".join(parts))

    def outputs(self, cells=None):
        return [output for cell in (self.cells if cells is None else cells)
                for output in cell.outputs]

    def errors(self):
        return [output.ename for output in self.outputs() if output.output_type == "error"]

    def after(self, source):
        """Text of the cell that contains this, and of the next cell."""
        number, = [i for i, cell in enumerate(self.cells) if source in cell.source]
        return [self.text([cell]) for cell in self.cells[number:number + 2]]

    def picture_sizes(self):
        """(width, height) of every picture, in pixels, from the header of its PNG."""
        pngs = [base64.b64decode(output.data["image/png"]) for output in self.outputs()
                if "image/png" in output.get("data", {})]
        assert all(png.startswith(b"\x89PNG") for png in pngs)
        return [struct.unpack(">II", png[16:24]) for png in pngs]


def left_segments(before):
    """New segments of processes that have ended."""
    made = {path for path in pathlib.Path("/dev/shm").glob("hvd-*")} - before
    return [path for path in made if not os.path.exists(f"/proc/{path.name.split('-')[1]}")]


def files_of(folder):
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


@pytest.fixture
def execute(marked_processes, kernel_manager, monkeypatch, examples, tmp_path):
    """Executes a notebook in its own folder, and looks for what it left behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "60")  # no cell waits for long

    def run(name):
        notebook = nbformat.read(examples / "notebooks" / f"{name}.ipynb", as_version=4)
        for cell in notebook.cells:
            for timer, other in TIMERS.items():
                cell.source = cell.source.replace(timer, other)
        segments = set(pathlib.Path("/dev/shm").glob("hvd-*"))
        files = files_of(examples)
        try:
            Client(notebook, km=kernel_manager, timeout=120, resources={
                "metadata": {"path": str(examples / "notebooks")}}).execute()
        finally:
            kernel_manager.shutdown_kernel()
        executed = Executed(notebook)
        wait_for(marked_processes, [])
        assert left_segments(segments) == []
        assert files_of(examples) == files
        assert list(tmp_path.glob("tmp*")) == []
        return executed

    return run


def test_first_steps_trains_on_one_and_two_ranks_and_plots(execute):
    shown = execute("first_steps")
    accuracies = re.search(r"test accuracy on 1 rank (\S+), on 2 ranks (\S+)", shown.text())
    assert all(float(accuracy) >= 0.93 for accuracy in accuracies.groups())
    assert "4 tensors are equal on both ranks" in shown.text()
    assert "[0] epochs: 100%" in shown.text() and "[1] epochs" not in shown.text()
    assert len(shown.picture_sizes()) == 3 and min(shown.picture_sizes())[0] > 400
    assert shown.errors() == []


def test_compare_methods_measures_five_methods_that_agree_and_draws_a_timeline(execute):
    shown = execute("compare_methods")
    text = shown.text()
    for method in ("one rank", "gather", "p2p", "allreduce", "ddp", "optimizer"):
        assert re.search(rf"\[0\] {method} *: 100%", text), text
    differences = re.findall(r"(\w+) +differs from allreduce by at most (\S+)", text)
    assert len(differences) == 5
    assert all(float(difference) <= 1e-2 for _, difference in differences), differences
    assert re.search(r"one rank alone: [1-9]\d* images/s", text)
    pictures = shown.picture_sizes()  # images, losses, speed-up, timeline, a part of it
    assert len(pictures) == 5 and min(width for width, _ in pictures) > 400
    assert shown.errors() == []


@pytest.mark.parametrize("alone, said", [(4.0, "250 % of what is ideal"), (9.0, "111 %"),
                                         (10.0, "")])
def test_compare_methods_says_that_the_machine_was_busy_when_two_ranks_beat_the_ideal(
        examples, monkeypatch, capsys, alone, said):
    notebook = nbformat.read(examples / "notebooks" / "compare_methods.ipynb", as_version=4)
    cell, = [cell.source for cell in notebook.cells if "def images_per_second" in cell.source]
    monkeypatch.setattr(hvd.plot, "scaling", lambda *args, **options: None)
    exec(cell, {"np": np, "hvd": hvd, "BATCH": 8, "single": [alone] * 6,
                "results": {"ddp": [{"seconds": [0.8] * 6}] * 2}})
    shown = capsys.readouterr().out
    assert said in shown and ("was busy" in shown) == bool(said)


def test_compare_methods_takes_cifar_if_it_is_there(execute, tmp_path, monkeypatch):
    record = bytes([6]) + bytes(range(256)) * 12  # a frog, by its label
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    for name in names:
        (tmp_path / name).write_bytes(record * 300)
    monkeypatch.setenv("HVD_DATA_DIR", str(tmp_path))
    shown = execute("compare_methods")
    assert "CIFAR-10: 1500 images" in shown.text() and shown.errors() == []


def test_failures_shows_the_promised_messages_and_the_cluster_goes_on(execute):
    shown = execute("failures")
    raised, kept = shown.after("values[7] = 0")
    assert "rank 1 raised IndexError: index 7 is out of bounds" in raised
    assert "----> 3     values[7] = 0" in raised
    assert kept.split() == ("[0] made by rank 0 at the beginning "
                            "[1] made by rank 1 at the beginning").split()
    differ, caught = shown.after("hvd.allreduce(np.ones(2 + hvd.rank())")
    assert "'shapes' (allreduce): ranks disagree about the shape" in differ
    assert "[2] on rank 0, [3] on rank 1" in differ
    assert "[100000] on rank 0, [100001] on rank 1" in caught
    waited, killed = shown.after('name="alone"')
    assert "s: rank 1 is late" in waited and "waiting in 'alone' (allreduce) for rank 1" in waited
    assert "TimeoutError: the call took longer than 8 s" in waited
    assert "rank 1 was killed by SIGKILL during the call" in killed
    _, after = shown.after("os.kill(os.getpid(), signal.SIGKILL)")
    assert "[0] made by rank 0" in after and "[1] nothing was made here yet" in after
    stopped, goes_on = shown.after("def long_training")
    assert "KeyboardInterrupt" in stopped and "[0] steps:" in stopped
    assert "the sum over the ranks is 3.0" in goes_on
    assert shown.errors() == ["RankError", "RankError", "TimeoutError", "RankError",
                              "KeyboardInterrupt"]
    assert len(shown.picture_sizes()) == 1
    assert "no ranks are running" in shown.text(shown.cells[-1:])


def test_notebooks_are_stored_without_outputs_and_belong_to_a_test(examples):
    folder = examples / "notebooks"
    assert sorted(path.stem for path in folder.glob("*.ipynb")) == sorted(NOTEBOOKS)
    for name in NOTEBOOKS:
        notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
        nbformat.validate(notebook)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                assert cell.outputs == [] and cell.execution_count is None, name
    text = (folder / "failures.ipynb").read_text()
    assert all(text.count(json.dumps(timer)[1:-1]) == 1 for timer in TIMERS)
