"""Runs a script that was written for Horovod, as it is."""

import argparse
import os
import runpy
import sys

from horovod_cpp import InvalidArgumentError
from horovod_cpp.compat import horovodrun, install


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m horovod_cpp.compat", description=__doc__,
        epilog="On two ranks: hvdrun -np 2 python -m horovod_cpp.compat train.py --epochs 3")
    parser.add_argument("--instead", action="store_true",
                        help="also where Horovod itself is installed, which is hidden then")
    parser.add_argument("--install-horovodrun", nargs="?", const="", metavar="FOLDER",
                        help="write a command horovodrun, which is hvdrun for scripts of Horovod's, "
                             "and run nothing; FOLDER: by default where this Python's commands are. "
                             "A horovodrun of another package is never replaced")
    parser.add_argument("-m", dest="module", action="store_true",
                        help="what follows is the name of a module, as for python -m")
    parser.add_argument("script", nargs="?")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")
    given = parser.parse_args()
    if given.install_horovodrun is not None:
        if given.script is not None:
            parser.error("--install-horovodrun runs no script")
        return given
    if given.script is None:
        parser.error("which script?")
    if not given.module and not os.path.exists(given.script):
        parser.error(f"there is no file {given.script}")
    words = sys.argv[1:]
    given.arguments = words[words.index(given.script) + 1:]  # argparse takes a "--" away
    return given


def main() -> None:
    given = _parse()
    if given.install_horovodrun is not None:
        try:
            path = horovodrun.write_command(given.install_horovodrun or None)
        except (InvalidArgumentError, OSError) as error:
            sys.exit(str(error))
        print(f"{path} is there: horovodrun -np 2 python train.py")
        return
    if not given.module and not sys.flags.safe_path:  # as Python itself has it: the script's folder
        sys.path[0] = os.path.dirname(os.path.abspath(given.script))
    try:
        install(instead=given.instead)
    except InvalidArgumentError as error:
        sys.exit(str(error))
    sys.argv = [given.script, *given.arguments]
    if given.module:
        runpy.run_module(given.script, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(given.script, run_name="__main__")


if __name__ == "__main__":
    main()
