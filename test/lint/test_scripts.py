"""Shell scripts are read as they run: a mistake in a branch that is seldom taken is found late."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_script_parses():
    scripts = [path for folder in ("bindings", "examples", "test") for path in (ROOT / folder).rglob("*.sh")]
    assert len(scripts) > 10
    for script in scripts:
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
