"""Runs a script that was written for Horovod, as it is."""

import argparse
import os
import runpy
import sys

from horovod_cpp import InvalidArgumentError
from horovod_cpp.compat import install


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m horovod_cpp.compat", description=__doc__,
        epilog="On two ranks: hvdrun -np 2 python -m horovod_cpp.compat train.py --epochs 3")
    parser.add_argument("--instead", action="store_true",
                        help="also where Horovod itself is installed, which is hidden then")
    parser.add_argument("-m", dest="module", action="store_true",
                        help="what follows is the name of a module, as for python -m")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")
    given = parser.parse_args()
    if not given.module and not os.path.exists(given.script):
        parser.error(f"there is no file {given.script}")
    return given


def main() -> None:
    given = _parse()
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
