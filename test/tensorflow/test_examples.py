"""The examples, run as a user would."""

import difflib
import os
import pathlib
import re
import subprocess
import sys

from pages import ROOT
from ranks import hvdrun

V1, V2 = ([ROOT / "examples" / f"{name}{version}.py" for version in ("_one_process", "")]
          for name in ("tensorflow_v1_minimal", "tensorflow_minimal"))
DIGITS = pathlib.Path(os.environ.get("HVD_DIGITS", "build/data/digits")).resolve()


def test_the_page_shows_what_makes_the_program_distributed():
    changed = [line[0] + line[2:] for line in difflib.ndiff(
        *(program.read_text().splitlines() for program in V1)) if line[0] in "+-"]
    page = (ROOT / "docs" / "tensorflow.md").read_text()
    assert page.split("```diff\n", 1)[1].split("```")[0].splitlines() == changed


def printed(what, *command):
    done = subprocess.run([*map(str, command)], text=True, timeout=240, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    return [float(number) for number in re.findall(rf"{what} (\S+)", done.stdout)]


def test_a_loop_with_the_tape_reaches_the_accuracy_of_its_one_process_version():
    alone, several = V2
    one, = printed("test accuracy", sys.executable, alone, DIGITS)
    first, second = printed("test accuracy", hvdrun(), "-np", 2, sys.executable, several, DIGITS)
    assert one >= 0.96 and abs(first - one) <= 0.03
    assert first == second  # every rank has the same parameters


def test_two_ranks_equal_one_process_with_the_whole_batch():
    alone, several = V1  # the learning rate and the steps are for one rank: see the page
    one, = printed("test loss", sys.executable, alone, DIGITS, "--steps", 20, "--batch-size", 64,
                  "--learning-rate", 0.1)
    first, second = printed("test loss", hvdrun(), "-np", 2, sys.executable, several, DIGITS,
                            "--steps", 40)
    assert first == second and abs(first - one) <= 1e-6
