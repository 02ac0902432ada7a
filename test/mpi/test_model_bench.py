"""test/bench/model.py, each measurement once: that it runs, and what its rows say.

Run by test/run.sh with HVD_BUILD (the build folder). PyTorch is played by a script that answers like
model_torch.py, so that the rows with a peer are there without one.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import model  # noqa: E402
import report  # noqa: E402

pytestmark = pytest.mark.full

ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
MILLISECONDS = 1e6  # of a step of the peer, and its MiB

PLAYED = """#!/bin/sh
case "$*" in
  -c*) ;;
  *--version) echo '{"version": "VERSION", "mkl": true, "horovod": null}' ;;
  *) while read -r line; do echo '{"ms": [1e6], "wall": [1e6], "loss": 0, "peak": 1e6}'; done ;;
esac
"""


def played_torch(folder, version):
    path = folder / f"torch-{version}"
    path.write_text(PLAYED.replace("VERSION", version))
    path.chmod(0o755)
    return path


def run(*options):
    command = [sys.executable, BENCH / "model.py", "--smoke", "--build", os.environ["HVD_BUILD"],
               *options]
    return subprocess.run(list(map(str, command)), env=ENVIRONMENT, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_every_target_has_a_row_with_what_was_measured(tmp_path):
    found = tmp_path / "rows.json"
    done = run("--torch", played_torch(tmp_path, "0.1"), "--torch", played_torch(tmp_path, "0.2"),
               "--json", found)
    assert done.returncode == 0, done.stdout
    rows = json.loads(found.read_text())
    assert len({row["what"] for row in rows}) == len(rows) == 14
    for row in rows:
        assert {"what", "unit", "ours", "theirs", "ratio", "target", "met"} <= row.keys()
        assert row["what"] in done.stdout
        if "no AMX" in row["peer"]:
            assert (row["ours"], row["theirs"], row["ratio"], row["met"]) == (None,) * 4
            continue
        assert row["ours"] > 0 and row["met"] in (True, False)
        if "PyTorch" in row["peer"]:
            assert row["theirs"] == MILLISECONDS and row["ratio"] == row["ours"] / MILLISECONDS
            assert [other["peer"] for other in row["beside"]] == ["PyTorch 0.2"]
    assert sum("PyTorch 0.1" in row["peer"] for row in rows) >= 7
    assert "Peers: PyTorch 0.1, its own BLAS; PyTorch 0.2" in done.stdout


def test_an_interpreter_without_torch_is_refused(tmp_path):
    without = tmp_path / "python"
    without.write_text("#!/bin/sh\nexit 1\n")
    without.chmod(0o755)
    done = run("--torch", without)
    assert done.returncode != 0 and f"--torch {without}: has no torch" in done.stdout


@pytest.mark.parametrize("ours, target, compare, met", [
    (2, 3, "ours", True), (4, 3, "ours", False), (2, 0.5, "ratio", True), (3, 0.5, "ratio", False),
    (3, 3, "least", True), (2, 3, "least", False), (None, 3, "least", None), (None, 1, "ratio", None)])
def test_a_row_tells_met_from_missed_and_from_not_measured(ours, target, compare, met):
    assert report.row("x", "ms", ours, 4, target, "peer", compare)["met"] is met


def test_bf16_is_compared_with_ours_f32_and_with_the_fastest_bf16_of_pytorch(monkeypatch):
    class Peer:
        name = label = "PyTorch"

    peer = Peer()
    medians = {("ours", "vgg11"): 4.0, ("ours", "vgg11_bf16"): 2.0, (peer, "vgg11/bf16"): 8.0,
               (peer, "vgg11/bf16/foreach/channels_last"): 5.0}
    monkeypatch.setattr(model, "has_amx", lambda: True)
    rows = model.bf16_rows([peer], medians)
    assert [(row["ratio"], row["met"]) for row in rows] == [(0.5, True), (0.4, True)]
    monkeypatch.setattr(model, "has_amx", lambda: False)
    rows = model.bf16_rows([peer], medians)
    assert [(row["ratio"], row["met"]) for row in rows] == [(None, None)] * 2
