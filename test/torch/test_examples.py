"""The example, run as a user would."""

import os
import pathlib

import pytest

DIGITS = pathlib.Path(os.environ.get("HVD_DIGITS", "build/data/digits")).resolve()


@pytest.mark.parametrize("np, options, accuracy", [
    (1, ["--data", DIGITS], 0.9), (2, ["--data", DIGITS], 0.9),
    (2, ["--fp16-allreduce", "--gradient-predivide-factor", 2.0], 0.95), (2, ["--use-adasum"], 0.95)],
    ids=["one-rank", "digits", "fp16", "adasum"])
def test_the_usual_script_trains(ranks, examples, np, options, accuracy):
    done = ranks.launch([examples / "torch_mnist.py", *options], np)
    assert done.returncode == 0, done.stdout
    assert float(done.stdout.strip().rsplit("accuracy ", 1)[1]) >= accuracy
