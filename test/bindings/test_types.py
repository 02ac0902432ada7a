"""Types: complete, accepted by mypy, and able to tell mistakes."""

import ast
import configparser
import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest
from public_names import public_modules, public_objects

import horovod_cpp as hvd

pytestmark = pytest.mark.full

SAMPLES = pathlib.Path(__file__).parent / "types"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where no other horovod_cpp than the installed one is found, with mypy's cache."""
    return tmp_path_factory.mktemp("types")


def check(folder, *arguments):
    command = [sys.executable, "-m", *arguments]
    environment = {**os.environ, "MYPY_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_package_says_that_it_has_types():
    package = pathlib.Path(hvd.__file__).parent
    assert (package / "py.typed").exists()
    assert (package / "_native" / "__init__.pyi").exists()


def test_the_package_itself_passes_strictly(folder):
    result = check(folder, "mypy", "--strict", "--config-file", str(SAMPLES / "mypy.ini"),
                   "-p", "horovod_cpp")
    assert result.returncode == 0, result.stdout + result.stderr


def test_nothing_of_the_package_is_excepted():
    settings = configparser.ConfigParser()
    settings.read(SAMPLES / "mypy.ini")
    assert "horovod_cpp" not in "".join(settings.sections())
    assert dict(settings["mypy"]) == {}


WITH_PYTORCH = """
import horovod_cpp.torch as hvd
import torch

hvd.init()
layer = torch.nn.Linear(2, 2)
hvd.broadcast_parameters(layer.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(layer.parameters(), lr=0.1), layer.named_parameters(), op=hvd.Average)
mean: torch.Tensor = hvd.allreduce(torch.ones(2), name="ones", compression=hvd.Compression.fp16)
output, splits = hvd.alltoall(torch.ones(1), splits=[1])
hvd.reducescatter_async(mean, op="sum").synchronize()
print(hvd.rank(), hvd.__version__, hvd.SyncBatchNorm(3))
"""


def test_a_program_with_pytorch_passes_strictly(folder):
    result = check(folder, "mypy", "--strict", "--config-file", str(SAMPLES / "mypy.ini"),
                   "-c", WITH_PYTORCH)
    assert result.returncode == 0, result.stdout + result.stderr


def test_what_is_written_in_python_is_annotated():
    bare = []
    for name, value in public_objects().items():
        function = inspect.unwrap(value) if callable(value) else value
        if not inspect.isfunction(function) or not function.__module__.startswith("horovod_cpp"):
            continue
        parameters = inspect.signature(function).parameters.values()
        missing = [p.name for p in parameters
                   if p.annotation is p.empty and p.name not in ("self", "cls")]
        if missing or "return" not in function.__annotations__:
            bare.append(f"{name}: {missing}")
    assert bare == []


# What Python says of the rest is what mypy reads. stubtest imports everything, and PyTorch is not here.
COMPARED = ["._native", ".autograd", ".built", ".call_site", ".cluster.cluster",
            ".cluster.run", ".data", ".dtypes", ".io", ".models", ".nn", ".objects", ".optim", ".plot",
            ".rank_zero", ".typing"]

# What stubtest says of every class that pybind11 made.
OF_PYBIND11 = ("metaclass differs", '.__init__ is inconsistent, stub does not have *args parameter "args"',
               "__pybind11_native_enum__ is not present in stub")


def test_stubs_have_every_name_and_no_other(folder):
    modules = [f"horovod_cpp{name}" for name in COMPARED]
    result = check(folder, "mypy.stubtest", *modules, "--concise", "--ignore-disjoint-bases",
                   "--mypy-config-file", str(SAMPLES / "mypy.ini"))
    lines = result.stdout.splitlines()
    assert any(line.endswith(OF_PYBIND11) for line in lines), result.stdout + result.stderr
    assert [line for line in lines if not line.endswith(OF_PYBIND11)] == []


def test_a_program_with_every_public_module_passes_strictly(folder):
    result = check(folder, "mypy", "--strict", str(SAMPLES / "program.py"))
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_program_runs(folder):
    result = subprocess.run([sys.executable, SAMPLES / "program.py", folder], cwd=folder,
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout.splitlines()[-2]) > 0 and "no ranks" in result.stdout


def test_the_program_uses_every_public_module():
    tree = ast.parse((SAMPLES / "program.py").read_text())
    imported = {"horovod_cpp"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    assert set(public_modules()) <= imported


def test_typical_mistakes_are_found(folder):
    result = check(folder, "mypy", "--strict", str(SAMPLES / "mistakes.py"))
    found = {(int(line), code) for line, code in
             re.findall(r"mistakes\.py:(\d+): error: .*\[([\w-]+)\]$", result.stdout, re.MULTILINE)}
    lines = (SAMPLES / "mistakes.py").read_text().splitlines()
    expected = {(number, line.rpartition("  # ")[2]) for number, line in enumerate(lines, 1)
                if "  # " in line}
    assert found == expected, result.stdout


def test_object_stands_only_where_anything_is_taken():
    stubs = pathlib.Path(hvd.__file__).parent / "_native"
    for path in stubs.glob("*.pyi"):
        found = re.findall(r"def (?!_[a-z])(\w+)\(.*(?:: |-> )object\b", path.read_text())
        assert set(found) <= {"__eq__", "__exit__"}, path
