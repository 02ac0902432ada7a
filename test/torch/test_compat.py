"""Scripts that import horovod, as they are."""

import pathlib
import re
import subprocess
import sys

import pytest

COMPAT = ["-m", "horovod_cpp.compat"]
SCRIPT = pathlib.Path(__file__).with_name("horovod_script.py")


def python(folder, *command):
    return subprocess.run([sys.executable, *map(str, command)], cwd=folder, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_an_unchanged_script_trains_with_workers_that_import_it(ranks):
    done = ranks.launch([*COMPAT, SCRIPT, "--epochs", 3, "--fp16-allreduce"], 2)
    assert done.returncode == 0, done.stdout
    assert float(re.findall(r"accuracy ([\d.]+)", done.stdout)[-1]) >= 0.9


def test_nothing_is_installed_unless_it_is_asked_for(tmp_path):
    done = python(tmp_path, "-c", """
import horovod_cpp, horovod_cpp.compat, sys
before = list(sys.path)
try:
    import horovod
except ModuleNotFoundError:
    print("not there")
horovod_cpp.compat.install()
horovod_cpp.compat.install()
assert len(sys.path) == len(before) + 1
import horovod
horovod_cpp.compat.install()
assert horovod.__version__.endswith(horovod_cpp.__version__), horovod.__version__
assert "torch" not in sys.modules  # only with horovod.torch
import horovod.common.process_sets, horovod.runner
assert horovod.runner.run is horovod.run
assert horovod.common.process_sets.ProcessSet is horovod_cpp.ProcessSet
for missing in ("horovod.tensorflow.keras", "horovod.spark"):
    try:
        __import__(missing)
    except ModuleNotFoundError as error:
        assert "horovod_cpp.compat has horovod.torch" in str(error), error
""")
    assert done.returncode == 0 and done.stdout == "not there\n", done.stdout


def test_every_name_is_that_of_horovod_cpp(tmp_path):
    done = python(tmp_path, "-c", """
import horovod_cpp.compat
horovod_cpp.compat.install()
import horovod.torch as hvd
import horovod.torch.functions, horovod.torch.optimizer, horovod.torch.sync_batch_norm
from horovod.torch.compression import Compression
import horovod_cpp.torch as ours
import types
names = [name for name, value in vars(ours).items()
         if not name.startswith("_") and not isinstance(value, types.ModuleType)]
assert len(names) > 80
assert all(getattr(hvd, name) is getattr(ours, name) for name in names)
assert Compression.fp16 is ours.Compression.fp16 and hvd.mpi_ops.allreduce is ours.allreduce
assert hvd.optimizer.DistributedOptimizer is ours.DistributedOptimizer
for use in (lambda: hvd.elastic.run, lambda: __import__("horovod.torch.elastic")):
    try:
        use()
    except (AttributeError, ImportError) as error:
        assert "elastic jobs" in str(error), error
    else:
        raise AssertionError("elastic is there")

import horovod

def sum_of_ranks(start, factor=1):
    import torch
    import horovod.torch as hvd
    hvd.init()
    return hvd.allreduce(torch.tensor([factor * (start + hvd.rank())]), op=hvd.Sum).tolist()

assert horovod.run(sum_of_ranks, (5,), np=2) == [[11], [11]]
assert horovod.run(sum_of_ranks, (5,), {"factor": 3}) == [[15]]  # on one rank
""")
    assert done.returncode == 0, done.stdout


@pytest.fixture
def real_horovod(tmp_path):
    """A folder in which Horovod itself is installed, as far as Python can tell."""
    package = tmp_path / "horovod"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '0.1'\n")
    about = tmp_path / "horovod-0.27.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.27.0\n")
    (tmp_path / "script.py").write_text(
        "import sys\nimport horovod\nprint(horovod.__version__, __name__, *sys.argv[1:])\n")
    return tmp_path


def test_horovod_itself_is_not_hidden_silently(real_horovod):
    refused = python(real_horovod, "-c", """
import sys
import horovod_cpp.compat
try:
    horovod_cpp.compat.install()
except ValueError as error:
    assert "Horovod 0.27.0 itself is installed" in str(error) and "instead=True" in str(error), error
import horovod
assert horovod.__version__ == "0.1"
try:
    horovod_cpp.compat.install(instead=True)
except ValueError as error:
    print(error)
""")
    assert refused.returncode == 0 and "has been imported already" in refused.stdout, refused.stdout
    refused = python(real_horovod, *COMPAT, "script.py")
    assert refused.returncode != 0 and "Horovod 0.27.0 itself is installed" in refused.stdout
    assert "Traceback" not in refused.stdout
    hidden = python(real_horovod, *COMPAT, "--instead", "script.py", "--lr", "0.1")
    assert hidden.returncode == 0 and hidden.stdout.startswith("0.28.1+horovod.cpp."), hidden.stdout
    assert hidden.stdout.split()[1:] == ["__main__", "--lr", "0.1"]


def test_scripts_and_modules_run_as_python_runs_them(tmp_path):
    folder = tmp_path / "of_the_script"
    folder.mkdir()
    (folder / "beside.py").write_text("value = 7\n")
    (folder / "script.py").write_text(
        "import sys, beside, horovod\n"
        "assert __name__ == '__main__' and __file__.endswith('script.py')\n"
        "print(beside.value, sys.argv)\nsys.exit(3)\n")
    done = python(tmp_path, *COMPAT, folder / "script.py", "-m", "x")
    assert done.returncode == 3 and done.stdout == f"7 ['{folder}/script.py', '-m', 'x']\n"
    (tmp_path / "module.py").write_text("import sys, horovod\nprint(sys.argv[1:], __name__)\n")
    done = python(tmp_path, *COMPAT, "-m", "module", "--more")
    assert done.returncode == 0 and done.stdout == "['--more'] __main__\n", done.stdout
    done = python(tmp_path, *COMPAT, "nowhere.py")
    assert done.returncode == 2 and "no file nowhere.py" in done.stdout
