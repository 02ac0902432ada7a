"""The command horovodrun: hvdrun, whose ranks can ``import horovod``."""

import os
import pathlib
import stat
import sys
import sysconfig
import tempfile

from horovod_cpp import InvalidArgumentError
from horovod_cpp.cluster.relay import find_hvdrun
from horovod_cpp.compat import PACKAGES
from horovod_cpp.compat import install as install_packages

_MARK = "# horovodrun of horovod_cpp.compat"
_NAME = "horovodrun"
_ABOUT = """\
horovodrun of horovod_cpp.compat: starts a program on several ranks, in which `import horovod.torch`
finds horovod_cpp.torch. Scripts and command lines written for Horovod need no change:

    horovodrun -np 2 python train.py
    horovodrun -np 4 -H server1:2,server2:2 python train.py

It is hvdrun with the same options, which follow. To remove it, delete {path}.
"""


def write_command(folder: str | None = None) -> pathlib.Path:
    """Write the command into ``folder``, that of this Python's commands by default.

    Returns:
        The file.

    Raises:
        InvalidArgumentError: Horovod itself is installed, there is a file of this name that is not
            ours, or no such folder.
        OSError: the folder cannot be written.
    """
    install_packages()  # or says why not
    where = pathlib.Path(folder or sysconfig.get_path("scripts"))
    if not where.is_dir():
        raise InvalidArgumentError(f"horovod_cpp.compat: there is no folder {where} for {_NAME}")
    path = where / _NAME
    if os.path.lexists(path) and not _is_ours(path):
        raise InvalidArgumentError(
            f"horovod_cpp.compat: {path} is there already and is not of horovod_cpp (Horovod's own?); "
            "it stays as it is. Remove it first, or choose another folder: "
            f"--install-{_NAME} FOLDER")
    descriptor, temporary = tempfile.mkstemp(prefix=f".{_NAME}-", dir=where)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(_text())
        os.fchmod(descriptor, stat.S_IMODE(os.stat(sys.executable).st_mode) & 0o755 | 0o500)
    os.replace(temporary, path)
    return path


def _is_ours(path: pathlib.Path) -> bool:
    try:
        return not path.is_symlink() and _MARK.encode() in path.read_bytes()[:4096].splitlines()
    except OSError:
        return False


def _text() -> str:
    # By way of a shell: the path of an environment may have spaces, or be too long for a #! line.
    quoted = "'" + sys.executable.replace("'", "'\\''") + "'"
    return (f"#!/bin/sh\n{_MARK}\n"
            f"exec {quoted} -c 'from horovod_cpp.compat.horovodrun import main; main()' \"$0\" "
            '"$@"\n')


def main() -> None:
    """What the command runs; its arguments are its own path and those of the command line."""
    path, *arguments = sys.argv[1:]
    hvdrun = find_hvdrun()
    if hvdrun is None:
        sys.exit(f"{_NAME}: hvdrun is not installed next to this Python; reinstall horovod_cpp")
    try:
        install_packages()
    except InvalidArgumentError as error:
        sys.exit(f"{_NAME}: {error}")
    if arguments and arguments[0] in ("-h", "--help"):
        print(_ABOUT.format(path=path), flush=True)
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*paths, str(PACKAGES)]))
    os.execv(hvdrun, ["hvdrun", *arguments])
