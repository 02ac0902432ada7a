"""The options of DistributedOptimizer in C++, in the built-in layer of Python and in PyTorch: the same words train
the same parameters. Run by test/run.sh with HVD_BUILD (the build folder)."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from ranks import hvdrun

JOB = pathlib.Path(__file__).parent / "adapters" / "job.py"
PROGRAM = pathlib.Path(os.environ["HVD_BUILD"]) / "test" / "adapter_job"
FRONTS = {"cpp": [PROGRAM], "native": [sys.executable, JOB, "native"], "torch": [sys.executable, JOB, "torch"]}

OPTIONS = [
    "",
    "op=sum", "op=min", "op=max", "op=product", "op=adasum",
    "compression=fp16", "compression=bf16", "compression=int8", "compression=powersgd",
    "backward_passes_per_step=3", "backward_passes_per_step=2 average_aggregated_gradients=1",
    "backward_passes_per_step=3 no_sync=1", "change_passes=2",
    "gradient_predivide_factor=4",
    "num_groups=2", "groups=0,2", "groups=0,2+1",
    "clip_grad_norm=0.5", "clip_grad_norm=0.5 clip_when=before",
    "packed=1", "packed=1 compression=fp16", "overlap_step=1", "overlap_step=1 num_groups=2",
    "synchronize=1", "synchronize=1 clip_grad_norm=0.5",
    "ranks=0,2", "ranks=0,2 op=sum backward_passes_per_step=2",
]

START = np.concatenate([np.arange(15), np.arange(4), np.arange(12)]) / 8


def run(folder, front, words, ranks):
    return subprocess.run([hvdrun(), "-np", str(ranks), *FRONTS[front], *words.split(), f"out={folder / front}."],
                          text=True, timeout=120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.parametrize("words", OPTIONS)
def test_the_same_options_train_the_same_parameters(tmp_path, words):
    for front in FRONTS:
        done = run(tmp_path, front, words, 3)
        assert done.returncode == 0, (front, done.stdout)
    for rank in range(3):
        expected = np.loadtxt(tmp_path / f"cpp.{rank}")
        assert expected.shape == (31,) and np.abs(expected - START).max() > 0.01  # it has trained
        for front in ("native", "torch"):
            np.testing.assert_allclose(np.loadtxt(tmp_path / f"{front}.{rank}"), expected, rtol=1e-5, atol=1e-6,
                                       err_msg=f"{front}, rank {rank}")


@pytest.mark.parametrize("front", FRONTS)
def test_ranks_that_change_the_number_of_passes_differently_are_told(tmp_path, front):
    done = run(tmp_path, front, "change_passes=rank", 2)
    assert done.returncode != 0 and not list(tmp_path.glob(f"{front}.*"))
    assert "backward_passes_per_step" in done.stdout, done.stdout
    assert "1" in done.stdout and "2" in done.stdout


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("words, named", [
    ("backward_passes_per_step=0", "backward_passes_per_step"),
    ("gradient_predivide_factor=0", "gradient_predivide_factor"),
    ("gradient_predivide_factor=2 op=sum", "gradient_predivide_factor"),
    ("clip_grad_norm=-1", "clip_grad_norm"),
    ("overlap_step=1 clip_grad_norm=1", "overlap_step"),
    ("overlap_step=1 op=adasum", "overlap_step"),
    ("num_groups=-1", "groups"),
])
def test_options_that_make_no_sense_are_named(tmp_path, front, words, named):
    done = run(tmp_path, front, words, 2)
    assert done.returncode != 0 and named in done.stdout, done.stdout
