"""The example in the style of TensorFlow 1, run as a user would."""

import difflib
import os
import pathlib
import re
import subprocess
import sys

from pages import ROOT
from ranks import hvdrun

PROGRAMS = [ROOT / "examples" / name
            for name in ("tensorflow_v1_minimal_one_process.py", "tensorflow_v1_minimal.py")]
DIGITS = pathlib.Path(os.environ.get("HVD_DIGITS", "build/data/digits")).resolve()


def test_the_page_shows_what_makes_the_program_distributed():
    changed = [line[0] + line[2:] for line in difflib.ndiff(
        *(program.read_text().splitlines() for program in PROGRAMS)) if line[0] in "+-"]
    page = (ROOT / "docs" / "tensorflow.md").read_text()
    assert page.split("```diff\n", 1)[1].split("```")[0].splitlines() == changed


def test_two_ranks_equal_one_process_with_the_whole_batch():
    def losses(*command):
        done = subprocess.run([*map(str, command)], text=True, timeout=240, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        assert done.returncode == 0, done.stderr
        return [float(loss) for loss in re.findall(r"test loss (\S+)", done.stdout)]

    alone, several = PROGRAMS  # the learning rate and the steps are for one rank: see the page
    one, = losses(sys.executable, alone, DIGITS, "--steps", 20, "--batch-size", 64,
                  "--learning-rate", 0.1)
    first, second = losses(hvdrun(), "-np", 2, sys.executable, several, DIGITS, "--steps", 40)
    assert first == second and abs(first - one) <= 1e-6
