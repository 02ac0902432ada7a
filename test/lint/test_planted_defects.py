"""The table of planted_defects.py fits the sources."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).with_name("planted_defects.py")


def test_every_defect_can_be_planted():
    done = subprocess.run([sys.executable, SCRIPT, "list"], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
