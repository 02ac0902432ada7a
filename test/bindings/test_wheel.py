"""The wheel for other machines, in an empty environment: compilers, Debian's libraries and MPI are
hidden by a mount namespace; then MPI is there."""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import textwrap
import zipfile

import pytest
from ranks import MPIRUN, OwnOutputs

pytestmark = pytest.mark.full

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
WITHOUT = [sys.executable, REPOSITORY / "test/support/without.py", "compilers", "libraries"]


class Environment:
    """A virtual environment that holds the wheel and what pip adds to it."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run([sys._base_executable, "-m", "venv", folder / "env"], check=True)
        self.bin = folder / "env/bin"

    def run(self, *command, mpi):
        """In a place without compilers, libraries and, unless `mpi`, MPI."""
        hidden = WITHOUT if mpi else [*WITHOUT, "mpi"]
        variables = {name: value for name, value in os.environ.items()
                     if not name.startswith(("HOROVOD_", "HVD_", "PYTHON"))}
        # That of root's shell: no other environment's hvdrun.
        variables["PATH"] = f"{self.bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        done = subprocess.run([*hidden, "--", *command], cwd=self.folder, text=True, env=variables,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def program(self, text):
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent(text))
        return path


@pytest.fixture(scope="module")
def wheel():
    wheels = sorted((REPOSITORY / "build/wheelhouse").glob("horovod_cpp-*manylinux*.whl"))
    assert len(wheels) == 1, f"{wheels}: bash bindings/build_wheel.sh makes the one to test"
    return wheels[0]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("wheel"))
    # The versions that this environment has of what the wheel needs.
    pins = [f"{name}=={importlib.metadata.version(name)}" for name in ("numpy", "cloudpickle")]
    environment.run("pip", "install", "--quiet", "--disable-pip-version-check", wheel, *pins, mpi=False)
    return environment


def test_nothing_that_is_hidden_can_be_found(installed):
    program = installed.program("""
        import ctypes, shutil
        for name in ("libmpi.so.40", "libyaml-cpp.so.0.7", "libdnnl.so.2", "libjpeg.so.62",
                     "libpng16.so.16", "libgomp.so.1", "libboost_program_options.so.1.74.0"):
            try:
                ctypes.CDLL(name)
            except OSError:
                continue
            raise SystemExit(name + " is still there")
        for name in ("mpirun", "mpiexec", "orted", "gcc", "g++", "cc", "clang++", "cmake", "ld"):
            assert shutil.which(name) is None, name
        """)
    installed.run("python", program, mpi=False)


def test_what_the_wheel_needs_of_the_system_is_part_of_every_linux(installed):
    output = installed.run("python", installed.program("""
        import numpy
        import horovod_cpp as hvd
        square = hvd.ones([8, 8])
        assert hvd.matmul(square, square).sum().item() == 512
        files = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
        print("package:", *sorted(f for f in files if "/horovod_cpp" in f))
        print("system:", *sorted(f.split("/")[-1].split(".so")[0] for f in files
                                 if "/env/" not in f and "lib-dynload" not in f))
        """), mpi=False)
    package, system = (line.split(":")[1].split() for line in output.splitlines())
    assert {name.split("/")[-1].split(".so")[0].split("-")[0] for name in package} >= {
        "libjpeg", "libpng16", "libgomp", "libdnnl", "libOpenCL"}
    # Of manylinux, and of Python itself.
    assert set(system) <= {"ld-linux-x86-64", "ld-linux-aarch64", "libc", "libm", "libgcc_s",
                           "libstdc++", "libz", "libdl", "libpthread", "librt", "libutil",
                           "libexpat", "libffi", "libcrypto", "libssl", "libbz2", "liblzma",
                           "libuuid"}, system


def test_the_licences_of_all_that_it_brings_are_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        texts = {name.split("/licenses/")[1]: archive.read(name).decode()
                 for name in archive.namelist() if ".dist-info/licenses/" in name}
        libraries = {pathlib.Path(name).name.split(".")[0].split("-")[0]
                     for name in archive.namelist() if ".so" in pathlib.Path(name).name}
    packages = {"libdnnl": "libdnnl2", "libjpeg": "libjpeg62-turbo", "libpng16": "libpng16-16",
                "libgomp": "libgomp1", "libOpenCL": "ocl-icd-libopencl1"}
    assert libraries - {"_native", "_ops", "libhvd_mpi"} == packages.keys()
    compiled_in = {"libeigen3-dev", "nlohmann-json3-dev", "libyaml-cpp-dev", "pybind11",
                   "libboost-program-options1.74-dev"}
    assert {name.split("/")[0] for name in texts} - {"LICENSE"} == {*packages.values(), *compiled_in}
    for name, words in {"libdnnl2": "Apache", "libeigen3-dev": "MPL", "pybind11": "Redistribution",
                        "libgomp1": "GPL", "libboost-program-options": "Boost Software License"}.items():
        assert any(words in text for path, text in texts.items() if path.startswith(name)), name


JOB = """
    import numpy as np
    import horovod_cpp as hvd

    def work(base):
        hvd.init()
        total = hvd.allreduce(np.arange(1000.0) + hvd.rank(), hvd.Sum)
        assert (total == 2 * np.arange(1000.0) + 1).all()
        return base + hvd.rank(), hvd.size()

    if __name__ == "__main__":
        print(hvd.mpi_built(), hvd.run(work, args=(10,), np=2))
    """


@pytest.mark.parametrize("mpi", [False, True])
def test_a_function_runs_on_two_ranks_whether_mpi_is_there_or_not(installed, mpi):
    output = installed.run("python", installed.program(JOB), mpi=mpi)
    assert output.splitlines()[-1] == f"{mpi} [(10, 2), (11, 2)]"


TRAINING = """
    import numpy as np
    import horovod_cpp as hvd

    hvd.init()
    hvd.manual_seed(1)
    model = hvd.nn.Linear(4, 2)
    optimizer = hvd.DistributedOptimizer(hvd.optim.SGD(model.parameters(), lr=0.1),
                                         model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    inputs = hvd.tensor(np.full((8, 4), hvd.rank() + 1, np.float32))
    hvd.cross_entropy(model(inputs), hvd.tensor([0, 1] * 4)).backward()
    optimizer.step()
    sums = hvd.allgather_object(float(model.weight.sum().item()))
    assert len(sums) == 2 and sums[0] == sums[1]
    print("rank", hvd.rank(), "of", hvd.size(), "MPI", hvd.mpi_enabled())
    """


@pytest.mark.parametrize("launcher, mpi", [
    ("hvdrun", False), ("hvdrun --mpi", True), ("mpirun", True)])
def test_a_script_trains_on_two_ranks(installed, launcher, mpi):
    outputs = OwnOutputs(installed.folder)
    start = {"hvdrun": ["hvdrun"], "hvdrun --mpi": ["hvdrun", "--mpi"],
             "mpirun": [*MPIRUN, *outputs.flags]}
    output = outputs.after(installed.run(*start[launcher], "-np", "2", "python",
                                         installed.program(TRAINING), mpi=mpi))
    for rank in range(2):
        assert f"rank {rank} of 2 MPI {mpi}" in output, output


@pytest.mark.parametrize("mpi", [False, True])
def test_check_build_and_the_doctor_say_whether_mpi_is_there(installed, mpi):
    output = installed.run("hvdrun", "--check-build", mpi=mpi)
    row = next(line for line in output.splitlines() if "] mpi " in line)
    assert ("[x]" in row and "Open MPI" in row) if mpi else \
        ("[ ]" in row and "libmpi.so" in row), row
    report = installed.run("python", "-m", "horovod_cpp.doctor", mpi=mpi)
    assert "problem: 0" in report
    assert "2 ranks, without MPI" in report
    assert ("2 ranks by mpirun" in report) == mpi


@pytest.mark.parametrize("hidden, named", [
    ("compilers", "cmake is not in PATH"), ("/usr/share/eigen3", "Eigen3")])
def test_a_build_from_source_says_what_is_missing_and_how_to_get_it(tmp_path, hidden, named):
    shutil.copy(REPOSITORY / "setup.py", tmp_path)  # it builds where it lies
    for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE", "cmake", "core", "ops",
                 "horovod_cpp", "bindings", "runner", "examples"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    done = subprocess.run(
        [*WITHOUT[:2], hidden, "--", sys.executable, "-m", "pip", "wheel", "--no-deps",
         "--no-build-isolation", "--wheel-dir", tmp_path / "out", tmp_path],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode != 0
    assert named in done.stdout and "apt-get install g++ cmake" in done.stdout, done.stdout


def test_the_source_archive_has_all_that_a_build_reads_and_nothing_that_was_built(tmp_path):
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=REPOSITORY, check=True, capture_output=True,
                   timeout=120)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    sources = {path.relative_to(REPOSITORY).as_posix()
               for folder in ("core", "ops", "horovod_cpp", "bindings", "runner", "examples", "cmake")
               for path in (REPOSITORY / folder).rglob("*")
               if path.is_file() and path.suffix != ".pyc" and ".ipynb_checkpoints" not in path.parts}
    assert sources - packed == set()
    assert {"setup.py", "pyproject.toml", "CMakeLists.txt", "LICENSE"} <= packed
    assert not [name for name in packed if name.startswith("build/") or name.endswith((".so", ".o"))]


def test_the_import_brings_nothing_that_only_some_programs_need():
    text = ("import sys, horovod_cpp as hvd\n"
            "print(sorted({'numpy', 'matplotlib', 'tqdm', 'IPython', 'torch'} & set(sys.modules)))\n"
            "print(hvd.plot.history.__name__)\n")
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True,
                          timeout=60)
    assert done.stdout.split() == ["[]", "history"], done.stdout + done.stderr
