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


def test_a_script_gets_all_its_arguments(tmp_path):
    (tmp_path / "script.py").write_text("import sys; print(sys.argv)")
    done = python(tmp_path, *COMPAT, "--instead", "script.py", "--", "-m", "--", "script.py")
    assert done.stdout == "['script.py', '--', '-m', '--', 'script.py']\n"


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
for missing in ("horovod.mxnet", "horovod.spark"):
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
assert [name for name in names if getattr(hvd, name) is not getattr(ours, name)] == [
    "broadcast_optimizer_state"]  # which leaves zero gradients
assert hvd.functions.broadcast_optimizer_state is hvd.broadcast_optimizer_state
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


def test_the_state_of_a_new_optimizer_leaves_zero_gradients_as_horovods_does(ranks):
    (ranks.folder / "horovod_state.py").write_text("""
import torch
import horovod.torch as hvd

hvd.init()
layer, table = torch.nn.Linear(2, 1), torch.nn.Embedding(4, 2, sparse=True)
model = torch.nn.ModuleList([layer, table])
layer.bias.requires_grad_(False)
optimizer = torch.optim.SGD([{"params": layer.parameters(), "momentum": 0.5},
                             {"params": table.parameters()}], lr=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=model)
assert layer.weight.grad.tolist() == [[0.0, 0.0]] and layer.bias.grad is None
assert table.weight.grad.is_sparse and table.weight.grad.to_dense().abs().sum() == 0
before = layer.weight.detach().clone()
layer.weight.grad.zero_()  # what scripts do that rely on it
for group in optimizer.param_groups:
    assert all(p.grad is not None for p in group["params"] if p.requires_grad)
(layer(torch.ones(1, 2)) + table(torch.tensor([1])).sum()).sum().backward()
optimizer.step()
assert torch.equal(layer.weight, before - 0.5)
layer.weight.grad = None
hvd.broadcast_optimizer_state(optimizer, root_rank=0)  # there is a state now
assert layer.weight.grad is None
""")
    done = ranks.launch([*COMPAT, "horovod_state.py"], 2)
    assert done.returncode == 0, done.stdout


def test_horovod_common_util_and_horovod_data_have_what_scripts_use(tmp_path):
    done = python(tmp_path, "-c", """
import os
import horovod_cpp.compat
horovod_cpp.compat.install()
from horovod.common import util
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader
import horovod.data.data_loader_base
import horovod.torch as hvd

assert util.extension_available("torch") and not util.extension_available("tensorflow")
assert util.gpu_available("torch", verbose=False) in (True, False) and not util.gpu_available("mxnet")
assert util.mpi_built() == bool(hvd.mpi_built()) and util.gloo_built() and util.nccl_built() == hvd.nccl_built()
assert not (util.ddl_built() or util.ccl_built() or util.rocm_built())
assert util.split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
assert [n for n in range(-1, 9) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8]
assert util.is_iterable("ab") and not util.is_iterable(5)
os.environ["KEPT"] = "1"
with util.env(KEPT="2", NEW="3", LEFT=None):
    assert (os.environ["KEPT"], os.environ["NEW"]) == ("2", "3") and "LEFT" not in os.environ
assert os.environ["KEPT"] == "1" and "NEW" not in os.environ
chosen = util.get_average_backwards_compatibility_fun(hvd)
assert [chosen(None, None), chosen(None, False), chosen(hvd.Max, None)] == [hvd.Average, hvd.Sum, hvd.Max]

class Loader(BaseDataLoader):
    def __init__(self, count):
        self.count, self.made = count, 0
    def __len__(self):
        return self.count
    def _iterate(self):
        for batch in range(self.count):
            self.made += 1
            yield batch
        if self.count == 3:
            raise OSError("the disk is gone")
    def _process_batch(self, batch):
        return 10 * batch

class Ahead(AsyncDataLoaderMixin, Loader):
    pass

for size in (0, 1, 64):
    loader = Ahead(size, False, count=5)
    assert len(loader) == 5
    for epoch in range(2):
        assert list(loader) == [0, 10, 20, 30, 40]
    passing = iter(loader)
    assert next(passing) == 0
    loader.close_async_loader()
    assert list(loader) == [0, 10, 20, 30, 40]  # a new pass begins at the begin
    try:
        list(Ahead(async_loader_queue_size=size, count=3))
    except OSError as error:
        assert "disk" in str(error)
    else:
        raise AssertionError("the error of a thread was lost")
many = Ahead(2, count=10**9)  # never more than is asked for
for batch in many:
    if batch == 50:
        break
assert many.made <= 12
""")
    assert done.returncode == 0, done.stdout


def test_horovodrun_is_written_on_request_and_replaces_nothing_of_others(tmp_path, ranks):
    commands = tmp_path / "a folder"
    commands.mkdir()
    command = commands / "horovodrun"
    for _ in range(2):  # ours may be replaced
        done = python(tmp_path, *COMPAT, "--install-horovodrun", commands)
        assert done.returncode == 0 and f"{command} is there" in done.stdout, done.stdout
    assert [each.name for each in commands.iterdir()] == ["horovodrun"]
    (tmp_path / "script.py").write_text(
        "import sys, horovod.torch as hvd\nhvd.init()\nprint(hvd.rank(), hvd.size(), sys.argv[1:])\n")

    def run(*arguments):
        return subprocess.run([command, *arguments], cwd=tmp_path, text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    done = run("-np", "2", sys.executable, "script.py", "--lr", "a b")
    assert done.returncode == 0, done.stdout
    assert "0 2 ['--lr', 'a b']" in done.stdout and "1 2 ['--lr', 'a b']" in done.stdout
    assert run("-np", "1", sys.executable, "-c", "raise SystemExit(7)").returncode == 7
    done = run("--help")
    assert done.returncode == 0 and "import horovod.torch" in done.stdout
    assert f"delete {command}" in done.stdout and "--timeline-filename" in done.stdout

    for other in ("#!/usr/bin/python3\nprint('the real one')\n", None):
        command.unlink()
        if other is None:
            command.symlink_to("/bin/true")
        else:
            command.write_text(other)
        done = python(tmp_path, *COMPAT, "--install-horovodrun", commands)
        assert done.returncode != 0 and "is not of horovod_cpp" in done.stdout, done.stdout
        assert command.is_symlink() if other is None else command.read_text() == other
    done = python(tmp_path, *COMPAT, "--install-horovodrun", tmp_path / "nowhere")
    assert done.returncode != 0 and "there is no folder" in done.stdout, done.stdout
    assert "which script" in python(tmp_path, *COMPAT).stdout


def test_horovodrun_does_not_hide_horovod_itself(real_horovod):
    done = python(real_horovod, *COMPAT, "--install-horovodrun", real_horovod)
    assert done.returncode != 0 and "Horovod 0.27.0 itself is installed" in done.stdout
    assert not (real_horovod / "horovodrun").exists()


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
