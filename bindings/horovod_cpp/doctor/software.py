"""Versions: of this package, of what it uses, and of the compiler that built it."""

import importlib.metadata
import os
import pathlib
import platform
import shutil
import sys
import sysconfig

import horovod_cpp as hvd
from horovod_cpp.cluster.hvdrun_job import find_hvdrun
from horovod_cpp.doctor.bounded import capture
from horovod_cpp.doctor.finding import Finding, ok, problem, warning

_TORCH_SECONDS = 45  # to import it; a cold disk takes most of that
_TORCH_AND_NUMPY = "import numpy, torch; torch.from_numpy(numpy.zeros(1)).numpy()"


def check_build() -> tuple[list[str], dict[str, tuple[bool, str]]]:
    """What ``hvdrun --check-build`` says: (lines of the build, usable parts by name).

    A part is (whether it is usable, its text). Both are empty if hvdrun does not answer.
    """
    hvdrun = find_hvdrun()
    output = capture([hvdrun, "--check-build"], 10) if hvdrun else None
    built: list[str] = []
    parts: dict[str, tuple[bool, str]] = {}
    if output is None or output.code != 0:
        return built, parts
    before, _, after = output.text.partition("Usable here")
    built = [line.strip() for line in before.partition("Built with")[2].splitlines() if line.strip()]
    for line in after.splitlines():
        mark, _, rest = line.strip().partition("] ")
        name, _, text = rest.partition(" ")
        if name:
            parts[name] = (mark == "[x", text.strip())
    return built, parts


def path_fix() -> str:
    """What to do where PATH is missing; empty where it is there."""
    if os.environ.get("PATH"):
        return ""
    return f"export PATH={sysconfig.get_path('scripts')}:/usr/local/bin:/usr/bin:/bin"


def checks() -> list[Finding]:
    built, _ = check_build()
    return [_package(built), *_hvdrun(), _python(), _library("numpy", (1, 24)),
            _library("cloudpickle", (2, 2)), _torch(), _system(), _matrix_products()]


def _package(built: list[str]) -> Finding:
    compiler = built[0] if built else "compiler unknown"
    place = pathlib.Path(hvd.__file__).parent
    return ok("horovod_cpp", f"{hvd.__version__}, {compiler}, in {place}")


def _hvdrun() -> list[Finding]:
    hvdrun = find_hvdrun()
    if hvdrun is None:
        return [problem("hvdrun", f"not in {sysconfig.get_path('scripts')}, nor in PATH",
                        "pip install --force-reinstall horovod_cpp; hvdrun is part of it")]
    output = capture([hvdrun, "--version"], 10)
    if output.code != 0:
        return [problem("hvdrun", f"{hvdrun} does not run: {output.why()}",
                        "pip install --force-reinstall horovod_cpp")]
    version = output.text.split()[-1]
    if version != hvd.__version__:
        return [problem("hvdrun", f"{hvdrun} is version {version}, the package {hvd.__version__}",
                        "remove the one that is too old, or put the other first in PATH")]
    found = [ok("hvdrun", f"{version}, {hvdrun}")]
    if path_fix():
        return [*found, problem("PATH", "the variable PATH is not set: programs such as mpirun and "
                                "ssh are not found", path_fix())]
    other = shutil.which("hvdrun")
    if other is None:
        found.append(warning("PATH", f"hvdrun is not in PATH, but in {os.path.dirname(hvdrun)}",
                             f"export PATH={os.path.dirname(hvdrun)}:$PATH"))
    elif os.path.realpath(other) != os.path.realpath(hvdrun):
        found.append(warning("PATH", f"the shell's hvdrun is another one: {other}",
                             "activate this Python's environment, or put it first in PATH"))
    return found


def _python() -> Finding:
    return ok("Python", f"{platform.python_version()}, {sys.executable}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _library(name: str, least: tuple[int, ...]) -> Finding:
    version = _version(name)
    needed = ".".join(map(str, least))
    if version is None:
        return problem(name, "not installed", f"pip install '{name}>={needed}'")
    if tuple(int(part) for part in version.split(".")[:2]) < least:
        return problem(name, f"{version} is too old", f"pip install '{name}>={needed}'")
    return ok(name, version)


def _torch() -> Finding:
    version = _version("torch")
    if version is None:
        return ok("torch", "not installed; nothing but torch programs needs it")
    # In a program of its own: it is large, and one that was built for another NumPy may crash.
    output = capture([sys.executable, "-c", _TORCH_AND_NUMPY], _TORCH_SECONDS)
    if output.code == 0:
        return ok("torch", version)
    fix = "python -c 'import torch' shows more; reinstall torch"
    if "numpy" in output.last_lines(1).lower():
        fix = 'pip install "numpy<2", or a torch that was built for this NumPy'
    return warning("torch", f"{version} does not work with numpy {_version('numpy')} "
                   f"({output.last_lines(1)})", fix)


def _system() -> Finding:
    library, version = platform.libc_ver()
    return ok("system", f"{platform.system()} {platform.release()}, {platform.machine()}, "
              f"{library} {version}")


def _matrix_products() -> Finding:
    """oneDNN is opened by the first product, where the build has it and the system or the wheel."""
    try:
        square = hvd.ones([8, 8])
        hvd.matmul(square, square)
    except hvd.Error as error:
        return problem("HVD_ISA", str(error), "unset HVD_ISA")
    maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    found = {line.split()[-1] for line in maps.splitlines() if "libdnnl" in line}
    if found:
        return ok("oneDNN", min(found))
    return warning("oneDNN", "not found: matrix products use our own kernels, which are slower",
                   "install the wheel that brings it, or: apt-get install libdnnl2")
