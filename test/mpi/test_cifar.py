"""The CIFAR example in C++ on a few made-up images: all methods compute the same."""

import csv
import json
import os
import pathlib
import subprocess

import pytest

pytestmark = pytest.mark.full

EXAMPLES = pathlib.Path(os.environ["HVD_BUILD"]) / "examples"
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
SMALL = ["--synthetic", "--examples", "24", "--batch-size", "8", "--lr", "0.01"]
# Sums of gradients in another order, and what three steps make of that.
TOLERANCE = 1e-4


def run(command, folder, ranks=1, environment=ENVIRONMENT):
    if ranks > 1:
        command = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *command]
    return subprocess.run(list(map(str, command)), cwd=folder, env=environment, text=True,
                          timeout=120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def losses_of(method, ranks, folder, *options):
    """Of three steps."""
    done = run([EXAMPLES / "cifar_vgg11", "--method", method, *SMALL, "--steps", "3", "--history",
                f"{method}.csv", *options], folder, ranks)
    assert done.returncode == 0, done.stdout
    with open(folder / f"{method}.csv") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["step"] for row in rows] == ["1", "2", "3"]
    assert 0 <= float(rows[-1]["test_accuracy"]) <= 1
    return [float(row["loss"]) for row in rows]


def test_all_six_methods_give_the_same_losses(tmp_path):
    want = losses_of("dp", 1, tmp_path, "--replicas", "2")
    for method in ("gather", "p2p", "allreduce", "ddp", "optimizer"):
        got = losses_of(method, 2, tmp_path)
        assert got == pytest.approx(want, rel=0, abs=TOLERANCE), method
    assert len(set(want)) == 3


def test_one_rank_trains_by_every_method_alike(tmp_path):
    want = losses_of("optimizer", 1, tmp_path)
    for method in ("gather", "p2p", "ddp"):
        assert losses_of(method, 1, tmp_path) == pytest.approx(want, rel=0, abs=TOLERANCE), method


@pytest.mark.parametrize("options", [[], ["--sync-bn"]])
def test_statistics_of_ranks_differ_without_sync_batch_norm_and_agree_with_it(tmp_path, options):
    losses_of("optimizer", 2, tmp_path, "--checkpoint", "vgg.safetensors", "--save-per-rank",
              *options)
    done = run([EXAMPLES / "compare_models", "vgg.rank0.safetensors", "vgg.rank1.safetensors"],
               tmp_path)
    lines = done.stdout.splitlines()
    if options:
        assert (done.returncode, lines) == (0, ["0 of 58 tensors differ"])
        return
    assert done.returncode == 1 and lines.pop() == "16 of 58 tensors differ"
    assert all(".running_mean " in line or ".running_var " in line for line in lines), lines
    done = run([EXAMPLES / "compare_models", "vgg.rank0.safetensors", "vgg.rank1.safetensors",
                "--tolerance", "1000"], tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_history_can_be_json(tmp_path):
    done = run([EXAMPLES / "cifar_vgg11", *SMALL, "--steps", "4", "--history", "h.json"], tmp_path)
    assert done.returncode == 0, done.stdout
    rows = json.loads((tmp_path / "h.json").read_text())
    assert [row["epoch"] for row in rows] == [1, 1, 1, 2]
    assert rows[0]["test_accuracy"] is None and 0 <= rows[2]["test_accuracy"] <= 1
    assert 0 < rows[0]["lr"] <= 0.01


def test_without_the_files_it_says_which_to_get(tmp_path):
    without = {key: value for key, value in ENVIRONMENT.items() if key != "HVD_DATA_DIR"}
    for environment in (without, dict(without, HVD_DATA_DIR=str(tmp_path))):
        done = run([EXAMPLES / "cifar_vgg11"], tmp_path, environment=environment)
        assert done.returncode == 1
        for word in ("cifar-10-binary.tar.gz", "kriz/cifar.html", "test_batch.bin", "HVD_DATA_DIR"):
            assert word in done.stdout, done.stdout
    assert str(tmp_path) in done.stdout


@pytest.mark.parametrize("options, word", [
    (["--method", "magic"], "--method magic"), (["--replicas", "0"], "--replicas 0"),
    (["--method", "dp", "--replicas", "3"], "does not divide by 3 replicas"),
    (["--batch-size", "32"], "more than the 24 training images"), (["--history", "x.txt"], "x.txt"),
    (["--save-per-rank"], "--checkpoint"), (["--schedule", "x"], "--schedule x"),
    (["--method", "dp", "--sync-bn"], "--sync-bn")])
def test_wrong_options_end_with_a_message(tmp_path, options, word):
    values = {**dict(zip(SMALL[1::2], SMALL[2::2]))}
    given = [part for name, value in values.items() if name not in options for part in (name, value)]
    done = run([EXAMPLES / "cifar_vgg11", "--synthetic", *given, *options], tmp_path)
    assert done.returncode == 1 and word in done.stdout, done.stdout


def test_help_teaches_and_models_that_cannot_be_read_are_an_error(tmp_path):
    for program, word in (("cifar_vgg11", "DistributedDataParallel"), ("compare_models", "--sync-bn")):
        done = run([EXAMPLES / program, "--help"], tmp_path)
        assert done.returncode == 0 and word in done.stdout
    done = run([EXAMPLES / "compare_models", "a", "b"], tmp_path)
    assert done.returncode == 2 and "a" in done.stdout
    assert run([EXAMPLES / "compare_models", "a"], tmp_path).returncode == 2
