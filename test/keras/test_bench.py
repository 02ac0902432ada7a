"""test/bench/keras_fit.py: what its rows say, and that its programs answer."""

import os
import pathlib
import sys

import pytest

import horovod_cpp

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import keras_fit  # noqa: E402
import model_peers  # noqa: E402


def test_every_target_has_a_row_with_what_was_measured():
    medians = {(whose, model): wall for whose, wall in (("alone", 1.0), ("ours", 1.25), ("mwms", 2.5))
               for model in keras_fit.NAMES}
    medians |= {("one", "mlp"): 1.01, ("one", "mlp/plain"): 1.0}
    for size in keras_fit.SIZES:
        medians |= {("ours", f"allreduce/{size}/{way}"): 0.05 for way in keras_fit.WAYS}
        medians["mwms", f"allreduce/{size}/graph"] = 1.0
    rows = keras_fit.target_rows(medians)
    assert [row["what"] for row in rows] == [
        "allreduce of 1 KiB, inside a tf.function", "allreduce of 64 MiB, inside a tf.function",
        "Keras MLP 784-256-256-10, batch 64: step of 2 ranks", "Keras MLP 784-256-256-10, batch 64: step of one rank"]
    assert all(row["met"] for row in rows)
    assert [row["target"] for row in rows] == [60, "ratio 1.3", "ratio 1.4", "ratio 1.02"]
    assert [row["theirs"] for row in rows[0]["beside"]] == [50, 1000]
    assert rows[0]["beside"][1] == {"peer": keras_fit.STRATEGY, "theirs": 1000, "ratio": 0.05}
    assert rows[2]["ratio"] == 1.25 and rows[2]["beside"][0]["ratio"] == 0.5
    assert "| 1 KiB | 50 | 50 | 50 | 50 | 50 | 1000 |" in keras_fit.tables(medians)


@pytest.mark.full
def test_processes_train_and_reduce_as_they_are_asked():
    python = model_peers.Interpreter(sys.executable, BENCH / "model_keras.py")
    package = pathlib.Path(horovod_cpp.__file__).parents[1]
    peers = [(lambda: python.start_hvd(package), keras_fit.WAYS, ("mlp", "mlp/plain"))]
    if os.environ.get("HVD_TEST_LONG"):  # takes half a minute to start
        peers.append((lambda: python.start_on_each_core("--mwms"), ("graph",), ("mlp", "cnn")))
    for start, ways, models in peers:
        ranks = start()
        for question in (*models, *(f"allreduce/64/{way}" for way in ways), models[0]):
            walls = ranks.train(question, 2)
            assert len(walls) == 2 and all(len(each) == 2 and min(each) > 0 for each in walls), walls
        ranks.end()
