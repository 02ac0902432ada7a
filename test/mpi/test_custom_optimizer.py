"""The example with an optimizer of its own, in C++."""

import os
import pathlib
import re
import subprocess

import pytest

PROGRAM = pathlib.Path(os.environ["HVD_BUILD"]) / "examples" / "custom_optimizer"
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


@pytest.mark.parametrize("ranks", [1, 2])
def test_it_learns_on_every_number_of_ranks(ranks):
    command = [str(PROGRAM)]
    if ranks > 1:
        command = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *command]
    done = subprocess.run(command, env=ENVIRONMENT, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)$", done.stdout, re.M)]
    assert len(losses) == 4 and losses[-1] < 0.05 * losses[0], done.stdout
