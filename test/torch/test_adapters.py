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
FRONT_ENDS = {"cpp": [PROGRAM], "native": [sys.executable, JOB, "native"], "torch": [sys.executable, JOB, "torch"]}
RANKS = 3

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

INVALID = [  # and what the error names
    ("backward_passes_per_step=0", "backward_passes_per_step"),
    ("gradient_predivide_factor=0", "gradient_predivide_factor"),
    ("gradient_predivide_factor=2 op=sum", "gradient_predivide_factor"),
    ("clip_grad_norm=-1", "clip_grad_norm"),
    ("overlap_step=1 clip_grad_norm=1", "overlap_step"),
    ("overlap_step=1 op=adasum", "overlap_step"),
    ("num_groups=-1", "groups"),
    ("change_passes=rank", "the ranks differ in backward_passes_per_step; rank {rank} has {passes}"),
]

START = np.concatenate([np.arange(15), np.arange(4), np.arange(12)]) / 8


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folders of the three front ends, each of which has trained with every list of options in turn."""
    words = " / ".join([*OPTIONS, *(words for words, _ in INVALID)]).split()
    folders = {}
    for front_end, command in FRONT_ENDS.items():
        folders[front_end] = tmp_path_factory.mktemp(front_end)
        done = subprocess.run([hvdrun(), "-np", str(RANKS), *command, folders[front_end], *words], text=True,
                              timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
    return folders


@pytest.mark.parametrize("number", range(len(OPTIONS)), ids=lambda number: OPTIONS[number] or "defaults")
def test_the_same_options_train_the_same_parameters(trained, number):
    for rank in range(RANKS):
        for folder in trained.values():
            error = folder / f"{number}.{rank}.error"
            assert not error.exists(), (folder.name, error.read_text())
        expected, *others = (np.loadtxt(folder / f"{number}.{rank}") for folder in trained.values())
        assert expected.shape == (31,) and np.abs(expected - START).max() > 0.01  # it has trained
        for front_end, parameters in zip(list(trained)[1:], others, strict=True):
            np.testing.assert_allclose(parameters, expected, rtol=1e-5, atol=1e-6,
                                       err_msg=f"{front_end}, rank {rank}")


@pytest.mark.parametrize("front_end", FRONT_ENDS)
@pytest.mark.parametrize("number", range(len(INVALID)), ids=lambda number: INVALID[number][0])
def test_invalid_options_are_one_error_on_every_rank(trained, front_end, number):
    for rank in range(RANKS):
        text = (trained[front_end] / f"{len(OPTIONS) + number}.{rank}.error").read_text()
        assert INVALID[number][1].format(rank=rank, passes=rank + 1) in text
