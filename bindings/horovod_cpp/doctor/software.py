"""Versions: of this package, of what it uses, and of the compiler that built it; and the HOROVOD_* and
HVD_* variables that are set here."""

import importlib.metadata
import os
import pathlib
import platform
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import horovod_cpp as hvd
from horovod_cpp import _native
from horovod_cpp.cluster.relay import find_hvdrun
from horovod_cpp.doctor.bounded import Finding, capture, ok, problem, warning

REINSTALL = "pip install --force-reinstall horovod_cpp"
_LIBRARIES = {"numpy": (1, 24), "cloudpickle": (2, 2)}  # their least versions
_TORCH_SECONDS = 45  # to import it; a cold disk takes most of that
_TORCH_AND_NUMPY = "import numpy, torch; torch.from_numpy(numpy.zeros(1)).numpy()"
# Numbers that a launcher gives its ranks, and their least values.
_PLACES = {"HOROVOD_RANK": 0, "HOROVOD_SIZE": 1, "HOROVOD_LOCAL_RANK": 0, "HOROVOD_LOCAL_SIZE": 1,
           "HOROVOD_CROSS_RANK": 0, "HOROVOD_CROSS_SIZE": 1}


class Part(NamedTuple):
    """A part of the build, such as "mpi"."""

    usable: bool
    text: str  # its version, or why it cannot be used

    @property
    def built(self) -> bool:
        return "is not installed next to" not in self.text


def part_of_build(name: str) -> Part:
    return Part(*_native._backends()[name])


def path_fix() -> str:
    """What to do where PATH is missing; empty where it is there."""
    if os.environ.get("PATH"):
        return ""
    return f"export PATH={sysconfig.get_path('scripts')}:/usr/local/bin:/usr/bin:/bin"


def version_checks() -> Iterator[Finding]:
    hvdrun = find_hvdrun()
    build = capture([hvdrun, "--check-build"], 10).text if hvdrun else ""
    compiler = re.search(r"^Built with\s+(.+)", build, re.MULTILINE)
    yield ok("horovod_cpp", f"{hvd.__version__}, {compiler[1] if compiler else 'compiler unknown'}, "
             f"in {pathlib.Path(hvd.__file__).parent}")
    yield from _hvdrun(hvdrun)
    yield ok("Python", f"{platform.python_version()}, {sys.executable}")
    yield from (_library(name, least) for name, least in _LIBRARIES.items())
    yield _torch()
    yield ok("system", f"{platform.system()} {platform.release()}, {platform.machine()}, "
             + " ".join(platform.libc_ver()))
    yield _matrix_products()


def _hvdrun(hvdrun: str | None) -> Iterator[Finding]:
    if hvdrun is None:
        yield problem("hvdrun", f"not in {sysconfig.get_path('scripts')}, nor in PATH",
                      f"{REINSTALL}; hvdrun is part of it")
        return
    output = capture([hvdrun, "--version"], 10)
    version = (output.text.split() or ["unknown"])[-1]
    if output.code != 0:
        yield problem("hvdrun", f"{hvdrun} does not run: {output.why()}", REINSTALL)
    elif version != hvd.__version__:
        yield problem("hvdrun", f"{hvdrun} is version {version}, the package {hvd.__version__}",
                      "remove the one that is too old, or put the other first in PATH")
    else:
        yield ok("hvdrun", f"{version}, {hvdrun}")
        yield from _path(hvdrun)


def _path(hvdrun: str) -> Iterator[Finding]:
    other = shutil.which("hvdrun")
    if path_fix():
        yield problem("PATH", "the variable PATH is not set: programs such as mpirun and ssh are not "
                      "found", path_fix())
    elif other is None:
        yield warning("PATH", f"hvdrun is not in PATH, but in {os.path.dirname(hvdrun)}",
                      f"export PATH={os.path.dirname(hvdrun)}:$PATH")
    elif os.path.realpath(other) != os.path.realpath(hvdrun):
        yield warning("PATH", f"the shell's hvdrun is another one: {other}",
                      "activate this Python's environment, or put it first in PATH")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _library(name: str, least: tuple[int, ...]) -> Finding:
    version = _version(name)
    fix = f"pip install '{name}>={'.'.join(map(str, least))}'"
    if version is None:
        return problem(name, "not installed", fix)
    if tuple(int(part) for part in version.split(".")[:2]) < least:
        return problem(name, f"{version} is too old", fix)
    return ok(name, version)


def _torch() -> Finding:
    version = _version("torch")
    if version is None:
        return ok("torch", "not installed; programs that use it need `pip install torch`")
    # In a program of its own: it is large, and one that was built for another NumPy may crash.
    output = capture([sys.executable, "-c", _TORCH_AND_NUMPY], _TORCH_SECONDS)
    if output.code == 0:
        return ok("torch", version)
    fix = "python -c 'import torch' shows more; reinstall torch"
    if "numpy" in output.last_lines(1).lower():
        fix = 'pip install "numpy<2", or a torch that was built for this NumPy'
    return warning("torch", f"{version} does not work with numpy {_version('numpy')} "
                   f"({output.last_lines(1)})", fix)


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


def setting_checks() -> Iterator[Finding]:
    names = sorted(name for name in os.environ if name.startswith(("HOROVOD_", "HVD_")))
    if not names:
        yield ok("variables", "no HOROVOD_ or HVD_ variable is set: defaults everywhere")
    values = {name: os.environ.pop(name) for name in names}
    known = {row["name"]: row for row in hvd.config()}
    found = [_alone(name, value, known) for name, value in values.items()]
    yield from found
    if all(each.level == "ok" for each in found):
        os.environ.update(values)
        try:
            hvd.config()
        except hvd.InvalidArgumentError as error:  # two good values may contradict each other
            yield problem("together", str(error), "unset one of them")


def _alone(name: str, value: str, known: Mapping[str, Any]) -> Finding:
    if name in _PLACES and not (value.isdecimal() and int(value) >= _PLACES[name]):
        return problem(name, f"{name}='{value}': must be an integer of at least {_PLACES[name]}",
                       f"unset {name}: launchers such as hvdrun set it for each rank")
    os.environ[name] = value
    try:
        said = _warnings_of_config()
    except hvd.InvalidArgumentError as error:
        return problem(name, str(error), f"unset {name}, or give it such a value")
    finally:
        del os.environ[name]
    if said:
        return warning(name, said, f"unset {name}, or correct it")
    return ok(name, f"'{value}'" + (f": {known[name]['meaning']}" if name in known else ""))


def _warnings_of_config() -> str:
    """What reading the settings prints on standard error, without the time and level."""
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), 2)  # this process is the check's own: nothing reads what it prints
        hvd.config()
        file.seek(0)
        return " ".join(line.partition("warning: ")[2] or line for line in file.read().splitlines())
