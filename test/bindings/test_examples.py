"""The examples, run as a user would."""

import ast
import difflib
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import horovod_cpp as hvd


@pytest.fixture
def train(ranks, examples):
    def run(np, *options, launcher="hvdrun"):
        done = ranks.launch([examples / "train_digits.py", *options], np, launcher=launcher)
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


@pytest.mark.parametrize("launcher", [pytest.param("mpirun", marks=pytest.mark.full), "hvdrun"])
def test_training_on_two_ranks_reaches_the_accuracy_and_equal_parameters(train, tmp_path, launcher):
    text = train(2, launcher=launcher)
    assert "parameters equal on all ranks" in text
    assert float(re.findall(r"test accuracy ([\d.]+)", text)[-1]) >= 0.97
    assert "samples/s" in text
    assert hvd.load(tmp_path / "digits.safetensors")["0.weight"].shape == (16, 1, 3, 3)


@pytest.mark.full
def test_one_rank_and_two_ranks_see_the_same_losses(train, tmp_path):
    for np_, batch in ((1, 64), (2, 32)):
        train(np_, "--epochs", 3, "--batch-size", batch, "--log-json", f"{np_}.json")
    one, two = (json.loads((tmp_path / f"{n}.json").read_text()) for n in (1, 2))
    assert len(one) == len(two) >= 50
    np.testing.assert_allclose(two[:50], one[:50], rtol=0, atol=1e-4)
    assert len(set(one)) == len(one)


@pytest.mark.full
def test_one_seed_gives_bitwise_equal_runs_and_another_seed_another_run(train, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        train(2, "--epochs", 2, "--seed", seed, "--checkpoint", name)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


@pytest.mark.full
def test_digits_in_files_train_like_those_in_memory(train, tmp_path, examples):
    subprocess.run([sys.executable, examples / "write_digits.py", tmp_path / "digits"], check=True)
    train(1, "--epochs", 1, "--log-json", "memory.json")
    train(1, "--epochs", 1, "--log-json", "files.json", "--data", tmp_path / "digits")
    assert (tmp_path / "memory.json").read_text() == (tmp_path / "files.json").read_text()


@pytest.mark.full
def test_the_learning_rate_scales_with_the_ranks_if_asked(train, tmp_path):
    train(2, "--epochs", 1, "--lr", 0.02, "--scale-lr", "--checkpoint", "scaled")
    train(2, "--epochs", 1, "--lr", 0.04, "--checkpoint", "given")
    assert (tmp_path / "scaled").read_bytes() == (tmp_path / "given").read_bytes()


@pytest.mark.parametrize("options", [["--data", "/nowhere"], ["--batch-size", "5000"],
                                     ["--epochs", "x"], ["--checkpoint", "/nowhere/model"]])
def test_wrong_options_end_with_a_message(ranks, examples, options):
    done = ranks.launch([examples / "train_digits.py", *options], 1)
    assert done.returncode != 0
    assert options[1] in done.stdout and "Traceback" not in done.stdout


def test_the_minimal_program_is_short_and_differs_in_five_lines_which_the_page_shows(examples):
    one, many = ((examples / name).read_text().splitlines()
                 for name in ("minimal_one_process.py", "minimal.py"))
    assert len(one) <= 40 and len(many) <= 40
    changed = [line for line in difflib.ndiff(one, many) if line[0] in "+-"]
    assert 0 < len(changed) <= 5
    page = (examples.parent / "docs" / "optimizer.md").read_text()
    shown = page.split("](../examples/minimal.py)", 1)[1].split("```diff\n", 1)[1].split("```")[0]
    assert sorted(shown.splitlines()) == sorted(line[0] + line[2:] for line in changed)


def test_the_minimal_program_reaches_the_accuracy_of_its_one_process_version(ranks, examples):
    digits = pathlib.Path(os.environ["HVD_DIGITS"])

    def accuracies(program, np_, launch=ranks.launch):
        done = launch([examples / program, digits], np_)
        assert done.returncode == 0, done.stdout
        return [float(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()
                if "test accuracy" in line]

    def without_launcher(command, np_):
        return subprocess.run([sys.executable, *command], capture_output=True, text=True,
                              timeout=120)

    one, = accuracies("minimal_one_process.py", 1, without_launcher)
    alone, = accuracies("minimal.py", 1, without_launcher)
    first, second = accuracies("minimal.py", 2)
    assert one >= 0.97 and alone >= 0.97 and abs(first - one) <= 0.02
    assert first == second  # every rank has the same parameters


@pytest.mark.parametrize("program", ["minimal.py", "minimal_one_process.py"])
def test_the_minimal_program_without_a_folder_says_how_to_get_one(ranks, examples, program):
    done = ranks.launch([examples / program], 1)
    assert done.returncode != 0
    assert "write_digits.py digits" in done.stdout and "Traceback" not in done.stdout


PROGRAMS = ["minimal.py", "minimal_one_process.py", "train_digits.py", "cifar_vgg11.py",
            "compare_models.py", "write_digits.py"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_explains_itself(examples, program):
    done = subprocess.run([sys.executable, examples / program, "--help"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert "usage:" in done.stdout and f"examples/{program}" in done.stdout, done.stdout


@pytest.mark.parametrize("script", ["examples/quickstart.sh", "bindings/build_wheel.sh",
                                    "test/run.sh", "test/bench/run.sh", "test/locks/renew.sh"])
def test_every_script_explains_itself(examples, script):
    done = subprocess.run(["bash", examples.parent / script, "--help"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done
    assert f"bash {script}" in done.stdout and "#" not in done.stdout, done.stdout


def test_the_quickstart_installs_what_its_programs_import(examples):
    packages = re.findall(r"^[\w-]+", (examples / "requirements.txt").read_text(), re.MULTILINE)
    imported = set()
    for program in ("write_digits.py", "train_digits.py"):
        for node in ast.walk(ast.parse((examples / program).read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.split(".")[0])
    others = imported - sys.stdlib_module_names - {"horovod_cpp", "write_digits"}
    assert {"numpy", "sklearn", "tqdm"} <= others
    assert others <= {{"scikit-learn": "sklearn"}.get(name, name) for name in packages}


def test_the_readme_has_a_row_for_every_example(examples):
    rows = [line for line in (examples / "README.md").read_text().splitlines()
            if line.startswith("| `")]
    files = [path.relative_to(examples) for path in examples.rglob("*")
             if path.suffix in (".py", ".cc", ".ipynb") and "__pycache__" not in path.parts
             and ".ipynb_checkpoints" not in path.parts]
    assert len(files) > 10
    for path in files:  # of a folder of C++ parts, the folder
        name = f"`{path}`" if path.parent.name in ("", "notebooks") else f"`{path.parent}/`"
        assert any(name in row for row in rows), name
