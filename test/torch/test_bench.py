"""test/bench/pytorch.py, each measurement once: that it runs, and what its rows say.

In the first tests PyTorch is played by a script that answers like model_torch.py.
"""

import json
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

import horovod_cpp

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import model_peers  # noqa: E402

# Two ranks of ours need 2 ms, DistributedDataParallel and Horovod 8, who is alone 1.9.
PLAYED = """#!/bin/sh
case "$*" in
  -c*) exit ;;
  *--version) echo '{"version": "0.1", "mkl": true, "horovod": "0.27.0"}'; exit ;;
  *--hvd) wall=2.0 ;;
  *--ddp*) wall=8.0 ;;
  *) wall=1.9 ;;
esac
while read -r line; do echo '{"ms": [], "wall": ['$wall'], "loss": 0, "peak": 1}'; done
"""
# In the place of mpirun, which is one process to who asks.
HOROVOD = """#!/bin/sh
while read -r line; do echo '{"ms": [], "wall": [8.0], "loss": 0, "peak": 1}'; done
"""


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_every_target_has_a_row_with_what_was_measured(tmp_path):
    wheel, found = tmp_path / "some.whl", tmp_path / "rows.json"
    with zipfile.ZipFile(wheel, "w") as package:
        package.writestr("horovod_cpp/__init__.py", "")
    script(tmp_path / "mpirun", HOROVOD)
    done = subprocess.run(
        [sys.executable, BENCH / "pytorch.py", "--smoke", "--wheel", wheel, "--json", found, "--torch",
         script(tmp_path / "python", PLAYED)], text=True, timeout=120, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stdout
    rows = json.loads(found.read_text())
    assert len({row["what"] for row in rows}) == len(rows) == 9
    for row in rows:
        assert {"what", "unit", "ours", "theirs", "ratio", "target", "met"} <= row.keys()
        assert row["what"] in done.stdout and "PyTorch 0.1" in row["peer"]
    by = {row["what"]: row for row in rows}
    latency = by["allreduce_ of 1 KiB"]
    assert (latency["ours"], latency["theirs"], latency["target"], latency["met"]) == (2000, 8000, 40, False)
    assert latency["beside"] == [{"peer": "Horovod", "theirs": 8000, "ratio": 0.25}]
    efficiency = by["VGG-11, batch 32: scaling efficiency"]
    assert efficiency["ours"] == 0.95 and efficiency["theirs"] == 1.9 / 8 and efficiency["met"]
    assert by["MLP 784-256-256-10, batch 64: step of 2 ranks"]["ratio"] == 0.25
    assert "Horovod: 0.27.0" in done.stdout


def test_an_interpreter_without_torch_is_refused(tmp_path):
    without = script(tmp_path / "python", "#!/bin/sh\nexit 1\n")
    done = subprocess.run([sys.executable, BENCH / "pytorch.py", "--torch", without], text=True,
                          timeout=120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode != 0 and f"{without}: has no torch or no cloudpickle" in done.stdout


@pytest.mark.full
def test_ranks_train_and_reduce_as_they_are_asked(monkeypatch):
    """The real programs. Horovod is played by this package under its name."""
    monkeypatch.setattr(model_peers.glob, "glob", lambda pattern: [])  # any BLAS will do
    torch = model_peers.Torch(sys.executable)
    package = pathlib.Path(horovod_cpp.__file__).parent
    for start, answers in (
            (lambda: torch.start_hvd(package.parent), 2), (torch.start_ddp, 2),
            (lambda: torch.start_horovod(PYTHONPATH=str(package / "compat/packages")), 1)):
        ranks = start()
        for question, times in (("mlp", 2), ("allreduce/64", 3), ("mlp/plain", 1), ("mlp", 1)):
            walls = ranks.train(question, times)
            assert len(walls) == answers, walls
            assert all(len(each) == times and min(each) > 0 for each in walls), walls
        ranks.end()
