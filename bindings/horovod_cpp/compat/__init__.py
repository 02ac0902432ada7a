"""Lets scripts that were written for Horovod run unchanged: their ``import horovod.torch as hvd``
gets horovod_cpp.torch.

    hvdrun -np 2 python -m horovod_cpp.compat train.py --epochs 3

runs a script that is not touched. In a program of your own, before anything imports ``horovod``:

    import horovod_cpp.compat
    horovod_cpp.compat.install()

With ``python -m horovod_cpp.compat --install-horovodrun`` there is a command ``horovodrun`` too, so
that command lines stay as they are; it never replaces another one.

Nothing happens unless one of these is done. What there is: ``horovod.torch`` with its modules
(``mpi_ops``, ``functions``, ``optimizer``, ``compression``, ``sync_batch_norm``), ``horovod.run``,
``horovod.runner``, ``horovod.data``, and of ``horovod.common`` ``exceptions``, ``process_sets`` and
``util``; ``horovod.tensorflow``, ``horovod.tensorflow.keras`` and ``horovod.keras``. Importing anything else of ``horovod`` is an error that says so.
"""

import importlib.metadata
import importlib.util
import pathlib
import sys
from importlib.machinery import ModuleSpec

from horovod_cpp import InvalidArgumentError

__all__ = ["install"]

# Where Python finds this package's ``horovod``; children inherit it.
PACKAGES = pathlib.Path(__file__).resolve().parent / "packages"


def install(*, instead: bool = False) -> None:
    """From now on ``import horovod`` finds this package's, here and in processes that
    multiprocessing starts. Calling it again does nothing.

    Args:
        instead: also where Horovod itself is installed, which then is not found any more.

    Raises:
        InvalidArgumentError: Horovod is installed here and ``instead`` is not set, or a module of
            its has been imported already.
    """
    if "horovod" in sys.modules:
        if not _is_ours(sys.modules["horovod"].__spec__):
            raise InvalidArgumentError(
                "horovod_cpp.compat: Horovod itself has been imported already, from "
                f"{_place(sys.modules['horovod'].__spec__)}; call install() before that")
        return
    found = importlib.util.find_spec("horovod")
    if _is_ours(found):
        return
    if found is not None and found.origin is not None and not instead:
        raise InvalidArgumentError(
            f"horovod_cpp.compat: Horovod{_version()} itself is installed in {_place(found)}, and "
            "`import horovod` means that one. Uninstall it, or hide it for this run: "
            "install(instead=True), python -m horovod_cpp.compat --instead SCRIPT")
    sys.path.insert(0 if instead else len(sys.path), str(PACKAGES))


def _is_ours(spec: ModuleSpec | None) -> bool:
    return spec is not None and spec.origin is not None and PACKAGES in pathlib.Path(
        spec.origin).parents


def _place(spec: ModuleSpec | None) -> str:
    return spec.origin if spec is not None and spec.origin else "somewhere"


def _version() -> str:
    try:
        return " " + importlib.metadata.version("horovod")
    except importlib.metadata.PackageNotFoundError:
        return ""
