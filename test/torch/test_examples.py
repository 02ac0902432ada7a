"""The examples, run as a user would."""

import csv
import difflib
import os
import pathlib
import re
import subprocess
import sys

import pytest

DIGITS = pathlib.Path(os.environ.get("HVD_DIGITS", "build/data/digits")).resolve()


@pytest.mark.parametrize("np, options, accuracy", [
    pytest.param(1, ["--data", DIGITS], 0.9, id="one-rank", marks=pytest.mark.full),
    pytest.param(2, ["--data", DIGITS], 0.9, id="digits"),
    pytest.param(2, ["--fp16-allreduce", "--gradient-predivide-factor", 2.0], 0.95, id="fp16", marks=pytest.mark.full),
    pytest.param(2, ["--use-adasum"], 0.95, id="adasum", marks=pytest.mark.full)])
def test_the_usual_script_trains(ranks, examples, np, options, accuracy):
    done = ranks.launch([examples / "torch_mnist.py", *options], np)
    assert done.returncode == 0, done.stdout
    assert float(re.findall(r"accuracy ([\d.]+)", done.stdout)[-1]) >= accuracy


def test_the_minimal_program_differs_in_five_lines_which_the_page_shows(examples):
    one, many = ((examples / name).read_text().splitlines()
                 for name in ("torch_minimal_one_process.py", "torch_minimal.py"))
    changed = [line for line in difflib.ndiff(one, many) if line[0] in "+-"]
    assert len([line for line in changed if line[0] == "+"]) == 5
    assert len([line for line in changed if line[0] == "-"]) == 1  # the one that the fifth replaces
    page = (examples.parent / "docs" / "optimizer.md").read_text()
    shown = page.split("](../examples/torch_minimal.py)", 1)[1].split("```diff\n", 1)[1].split("```")[0]
    assert sorted(shown.splitlines()) == sorted(line[0] + line[2:] for line in changed)


def test_the_minimal_program_reaches_the_accuracy_of_its_one_process_version(ranks, examples):
    alone = subprocess.run([sys.executable, examples / "torch_minimal_one_process.py", DIGITS],
                           stdout=subprocess.PIPE, text=True, timeout=120)
    together = ranks.launch([examples / "torch_minimal.py", DIGITS], 2)
    (one,), (first, second) = ([float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                                if "test accuracy" in line]
                               for text in (alone.stdout, together.stdout))
    assert one >= 0.97 and abs(first - one) <= 0.02
    assert first == second  # every rank has the same parameters


@pytest.mark.parametrize("program", ["torch_minimal.py", *(
    pytest.param(program, marks=pytest.mark.full) for program in (
        "torch_minimal_one_process.py", "torch_mnist.py", "torch_ddp.py", "torch_cifar_vgg11.py"))])
def test_every_program_explains_itself(examples, program):
    done = subprocess.run([sys.executable, examples / program, "--help"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert "usage:" in done.stdout and f"examples/{program}" in done.stdout, done.stdout


@pytest.mark.full
def test_a_plain_ddp_script_learns_the_same_with_any_launcher(ranks, examples):
    losses = {}
    for launcher in ("hvdrun", "mpirun"):
        done = ranks.launch([examples / "torch_ddp.py", "--epochs", 2], 2, launcher)
        assert done.returncode == 0, done.stdout
        losses[launcher] = re.findall(r"loss (\S+),", done.stdout)
    assert losses["hvdrun"] == losses["mpirun"] and len(losses["hvdrun"]) == 2
    assert float(losses["hvdrun"][1]) < float(losses["hvdrun"][0])


def test_vgg11_learns_the_same_by_every_method(ranks, examples, tmp_path):
    methods = ("gather", "p2p", "allreduce", "ddp", "optimizer")
    ranks.prologue = ""  # the example begins and ends its process group, five times
    ranks.check(f"""
import runpy
import sys
for method in {methods}:
    sys.argv = ["torch_cifar_vgg11.py", "--method", method, "--synthetic", "--steps", "20",
                "--batch-size", "16", "--width", "8", "--examples", "160", "--plot", "",
                "--history", f"{tmp_path}/{{method}}.csv"]
    runpy.run_path("{examples / 'torch_cifar_vgg11.py'}", run_name="__main__")
""")
    losses = {}
    for method in methods:
        with (tmp_path / f"{method}.csv").open() as history:
            losses[method] = [float(row["loss"]) for row in csv.DictReader(history)]
    assert len(losses["ddp"]) == 20 and losses["ddp"][-1] < losses["ddp"][0]
    for method, values in losses.items():
        assert values == pytest.approx(losses["optimizer"], abs=1e-4), method
