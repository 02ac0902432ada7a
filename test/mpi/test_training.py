"""The digits example in C++: what several ranks compute is what one rank would, bit for bit again.

Run by test/run.sh with HVD_BUILD (the build folder) and HVD_DIGITS (a folder from write_digits.py).
"""

import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

PROGRAM = pathlib.Path(os.environ["HVD_BUILD"]) / "examples" / "train_digits"
DIGITS = os.environ["HVD_DIGITS"]
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def train(ranks, folder, *options):
    """Trains and returns (output, losses of every step, bytes of the checkpoint)."""
    folder.mkdir()
    command = [PROGRAM, "--data", DIGITS, "--checkpoint", folder / "digits.safetensors",
               "--log-json", folder / "losses.json", *options]
    if ranks > 1:
        command = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *command]
    done = subprocess.run(list(map(str, command)), env=ENVIRONMENT, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    losses = json.loads((folder / "losses.json").read_text())
    return done.stdout, losses, (folder / "digits.safetensors").read_bytes()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_number_of_ranks_learns_the_digits(ranks, tmp_path):
    output, losses, _ = train(ranks, tmp_path / "run", "--batch-size", str(64 // ranks))
    assert "parameters equal on all ranks" in output
    assert float(re.search(r"test accuracy ([\d.]+)\s*$", output).group(1)) >= 0.97
    assert losses[-1] < 0.2 * losses[0]


def test_two_ranks_take_the_steps_of_one_rank_with_the_whole_batch(tmp_path):
    _, alone, _ = train(1, tmp_path / "one", "--batch-size", "64", "--epochs", "3")
    _, together, _ = train(2, tmp_path / "two", "--batch-size", "32", "--epochs", "3")
    assert len(alone) == len(together) >= 50
    np.testing.assert_allclose(together[:50], alone[:50], rtol=0, atol=1e-4)


def test_two_runs_with_one_seed_are_bitwise_equal(tmp_path):
    runs = [train(2, tmp_path / name, "--epochs", "3", "--seed", "5") for name in ("a", "b")]
    assert runs[0][1] == runs[1][1]
    assert runs[0][2] == runs[1][2]


def test_another_seed_is_another_run(tmp_path):
    runs = [train(2, tmp_path / seed, "--epochs", "1", "--seed", seed) for seed in ("5", "6")]
    assert runs[0][2] != runs[1][2]


@pytest.mark.parametrize("options, named", [
    (["--data", "/nowhere"], "/nowhere"),
    (["--data", DIGITS, "--batch-size", "100000"], "100000"),
    (["--data", DIGITS, "--epochs", "0"], "--epochs 0"),
    (["--data", DIGITS, "--no-such-option"], "no-such-option"),
    (["--data", DIGITS, "stray"], "too many positional"),
])
def test_bad_input_is_named(options, named, tmp_path):
    done = subprocess.run([PROGRAM, *options], env=ENVIRONMENT, text=True,
                          cwd=tmp_path, timeout=60, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode != 0
    assert named in done.stdout
