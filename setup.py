"""Builds horovod_cpp._native and hvdrun with CMake and packs them into the wheel.

The build folder `build/pip` is kept, so that a second `pip install .` compiles only what changed.
Settings: CMAKE_ARGS (extra options of the configure run), CMAKE_BUILD_PARALLEL_LEVEL (jobs),
HVD_BUILD_FOLDER (another build folder, which may have tests and examples: nothing is compiled twice).
"""

import filecmp
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pybind11
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent
SHARED_BUILD = os.environ.get("HVD_BUILD_FOLDER")
BUILD = ROOT / (SHARED_BUILD or "build/pip")
STAGE = BUILD / "stage"
HVDRUN = STAGE / "bin" / "hvdrun"
NEEDS = """
A build from source needs a compiler and libraries. On Debian and Ubuntu:

    apt-get install g++ cmake ninja-build libopenmpi-dev openmpi-bin libeigen3-dev \\
        libboost-program-options-dev libyaml-cpp-dev nlohmann-json3-dev zlib1g-dev \\
        libjpeg-dev libpng-dev libdnnl-dev python3-dev

A wheel needs none of them; docs/install.md says how to make one.
"""


def version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(horovod_cpp VERSION ([0-9.]+)", text).group(1)


def pybind11_headers():
    """A copy of pybind11 at a path that stays: pip's own is in a new folder each time, and would
    make CMake compile everything again."""
    source = pathlib.Path(pybind11.__file__).parent
    copy = BUILD / "pybind11"
    stamp = pathlib.Path("include") / "pybind11" / "detail" / "common.h"
    if not (copy / stamp).exists() or not filecmp.cmp(source / stamp, copy / stamp, shallow=False):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy / "share" / "cmake" / "pybind11"


def configure(command):
    for tool in ("cmake", "ninja"):
        if shutil.which(tool) is None:
            sys.exit(f"horovod_cpp: {tool} is not in PATH.\n{NEEDS}")
    if subprocess.run(command).returncode != 0:
        sys.exit(f"horovod_cpp: CMake says above what it did not find.\n{NEEDS}")


class CMakeBuild(build_ext):
    def run(self):
        BUILD.mkdir(parents=True, exist_ok=True)
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        configure([
            "cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja",
            # What an earlier run for another Python found.
            "-U", "*Python3*", "-U", "PYTHON*", "-U", "PYBIND11*",
            "-DCMAKE_BUILD_TYPE=Release", "-DHVD_PYTHON=ON",
            *([] if SHARED_BUILD else ["-DHVD_TESTS=OFF", "-DHVD_EXAMPLES=OFF"]),
            f"-DPython3_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind11_headers()}",
            "-DHVD_PORTABLE=OFF",  # for what an earlier run left in the cache; CMAKE_ARGS may say ON
            *os.environ.get("CMAKE_ARGS", "").split(),
        ])
        subprocess.run(["cmake", "--build", str(BUILD), "--target", "hvd_wheel", "--parallel", jobs], check=True)
        shutil.rmtree(STAGE, ignore_errors=True)
        subprocess.run(["cmake", "--install", str(BUILD), "--component", "python", "--strip",
                        "--prefix", str(STAGE)], check=True)
        package = pathlib.Path(self.build_lib) / "horovod_cpp"
        for library in package.rglob("*.so*"):  # of an earlier run, perhaps with other options
            library.unlink()
        shutil.copytree(STAGE / "horovod_cpp", package, dirs_exist_ok=True)
        subprocess.run([sys.executable, str(ROOT / "bindings" / "stubs.py"), str(package)], check=True)

    def get_outputs(self):
        return [str(path) for path in (pathlib.Path(self.build_lib) / "horovod_cpp").rglob("*.so*")]


setup(
    version=version(),
    packages=find_packages("bindings"),
    package_dir={"": "bindings"},
    package_data={"horovod_cpp": ["py.typed"], "horovod_cpp.compat": ["packages/**/*.py"]},
    ext_modules=[Extension("horovod_cpp._native", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    data_files=[("bin", [os.path.relpath(HVDRUN, ROOT)])],
)
