"""The CIFAR example in Python on a few made-up images."""

import csv
import json

import pytest

pytestmark = pytest.mark.full

SMALL = ["--synthetic", "--examples", "24", "--batch-size", "8", "--lr", "0.01"]
# Sums of gradients in another order, and what three steps make of that.
TOLERANCE = 1e-4


def train(ranks, examples, np, *options):
    done = ranks.launch([examples / "cifar_vgg11.py", *SMALL, *options], np)
    assert done.returncode == 0, done.stdout
    return done.stdout


def losses_of(ranks, examples, folder, method, np, *options):
    """Of three steps."""
    train(ranks, examples, np, "--method", method, "--steps", 3, "--history", f"{method}.csv",
          "--plot", "", *options)
    with open(folder / f"{method}.csv") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 3 and 0 <= float(rows[-1]["test_accuracy"]) <= 1
    return [float(row["loss"]) for row in rows]


def test_all_six_methods_give_the_same_losses(ranks, examples, tmp_path):
    want = losses_of(ranks, examples, tmp_path, "dp", 1, "--replicas", 2)
    for method in ("gather", "p2p", "allreduce", "ddp", "optimizer"):
        got = losses_of(ranks, examples, tmp_path, method, 2)
        assert got == pytest.approx(want, rel=0, abs=TOLERANCE), method


def test_one_rank_writes_history_curves_and_model(ranks, examples, tmp_path):
    text = train(ranks, examples, 1, "--steps", 4, "--history", "h.json", "--checkpoint",
                 "vgg.safetensors")
    rows = json.loads((tmp_path / "h.json").read_text())
    assert [row["epoch"] for row in rows] == [1, 1, 1, 2]
    assert (tmp_path / "cifar_vgg11.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "vgg.safetensors").exists() and "samples/s" in text


@pytest.mark.parametrize("options", [[], ["--sync-bn"]])
def test_statistics_of_ranks_differ_without_sync_batch_norm_and_agree_with_it(
        ranks, examples, tmp_path, options):
    train(ranks, examples, 2, "--steps", 2, "--checkpoint", "vgg.safetensors", "--save-per-rank",
          "--plot", "", *options)
    done = ranks.launch([examples / "compare_models.py", "vgg.rank0.safetensors",
                         "vgg.rank1.safetensors"], 1, launcher="mpirun")
    assert f"{0 if options else 16} of 58 tensors differ" in done.stdout
    assert (done.returncode != 0) == (not options)
    assert ("running_mean" in done.stdout) == (not options)
    assert ".weight" not in done.stdout


def test_models_of_other_shapes_and_names_differ(ranks, examples, tmp_path):
    import horovod_cpp as hvd

    hvd.save(tmp_path / "a", {"w": hvd.zeros((2,)), "x": hvd.ones((3,)), "only": hvd.zeros(())})
    hvd.save(tmp_path / "b", {"w": hvd.zeros((3,)), "x": hvd.tensor([1.0, 1.5, 1.0])})
    done = ranks.launch([examples / "compare_models.py", "a", "b"], 1, launcher="mpirun")
    assert done.returncode == 1
    for word in ("float32 [2] against float32 [3]", "largest difference 0.5", "missing in b",
                 "3 of 3 tensors differ"):
        assert word in done.stdout, done.stdout


def test_without_the_files_it_says_which_to_get(ranks, examples, tmp_path):
    done = ranks.launch([examples / "cifar_vgg11.py"], 1, environment={"HVD_DATA_DIR": "/nowhere"})
    assert done.returncode != 0 and "Traceback" not in done.stdout
    for word in ("/nowhere", "cifar-10-binary.tar.gz", "test_batch.bin", "HVD_DATA_DIR"):
        assert word in done.stdout, done.stdout


@pytest.mark.parametrize("option", ["--history", "--plot", "--checkpoint"])
def test_a_folder_that_is_not_there_is_found_before_the_training(ranks, examples, option):
    path = "/nowhere/cifar.csv"
    done = ranks.launch([examples / "cifar_vgg11.py", *SMALL, option, path], 1)
    assert done.returncode != 0
    assert f"{option} {path}: there is no folder /nowhere" in done.stdout
    assert "accuracy" not in done.stdout
