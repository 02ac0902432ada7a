"""What the benchmarks' drivers share: peers that may be absent, rows of targets, tables."""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import socket
import subprocess
import sys
import tempfile
import zipfile

BENCH = pathlib.Path(__file__).resolve().parent
BUILD = BENCH.parents[1] / "build"
CORES = sorted(os.sched_getaffinity(0))


def launch(ranks):
    """mpirun: a core for each rank where there are enough, else the cores for all."""
    alone = ranks <= len(CORES)
    binding = ["--bind-to", "core"] if alone else ["--oversubscribe", "--bind-to", "none"]
    return ["mpirun", "-np", str(ranks), *binding]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def has(python, *modules):
    done = subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True)
    return done.returncode == 0


def interpreters_with(*modules):
    """The Pythons here that have them, Debian's before the newer ones of build; and nothing printed
    about those that do not."""
    found = [sys.executable, "/usr/bin/python3",
             *(str(each) for name in ("torch", "tf") for each in sorted(BUILD.glob(f"{name}*/bin/python")))]
    return (python for python in dict.fromkeys(found) if has(python, *modules))


def only_wheel():
    """This package's, as install_package of setup.sh built it."""
    wheels = list((BUILD / "wheel").glob("*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"{BUILD / 'wheel'} has {len(wheels)} wheels; say which one with --wheel")
    return wheels[0]


@contextlib.contextmanager
def unpacked(wheel):
    """A folder with this package for PYTHONPATH; `wheel` may be None."""
    with tempfile.TemporaryDirectory() as site:
        with zipfile.ZipFile(wheel or only_wheel()) as package:
            package.extractall(site)
        yield site


def row(what, unit, ours, theirs, target, peer, compare="ours", beside=()):
    """`compare`: what may not exceed the target, "ours" or the "ratio"; "least": ours, which may not
    be below it. `beside`: (name, value) of peers that the target does not speak of. What was not
    measured is neither met nor missed."""
    ratio = divided(ours, theirs)
    judged = ratio if compare == "ratio" else ours
    kept = judged is not None and (judged >= target if compare == "least" else judged <= target)
    limit = {"ours": target, "ratio": f"ratio {target}", "least": f"at least {number(target)}"}
    return {"what": what, "unit": unit, "ours": ours, "theirs": theirs, "ratio": ratio,
            "target": limit[compare], "met": None if judged is None else kept, "peer": peer,
            "beside": [{"peer": name, "theirs": value, "ratio": divided(ours, value)}
                       for name, value in beside if value is not None]}


def divided(ours, theirs):
    return ours / theirs if ours is not None and theirs else None


def number(value):
    if value is None:
        return "-"
    if isinstance(value, (str, bool)):
        return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
    return f"{value:.4g}" if abs(value) < 10000 else f"{value:,.0f}"


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(map(number, cells)) + " |" for cells in rows] + [""]


def target_table(rows):
    header = ["what", "unit", "ours", "theirs", "ratio", "target", "met"]
    table = [[each[key] for key in header] for each in rows]
    if any(each["beside"] for each in rows):
        header.append("ratio to others")
        for cells, each in zip(table, rows):
            cells.append(", ".join(f"{number(other['ratio'])} of {other['peer']}"
                                   for other in each["beside"]))
    return markdown([*header, "peer"], [[*cells, each["peer"]] for cells, each in zip(table, rows)])


# Options that several benchmarks take, as add_argument has them.
OPTIONS = {"wheel": {"help": "of this package; without it that in build/wheel"},
           "torch": {"action": "append", "help": "an interpreter with PyTorch; may be repeated"},
           "details": {"help": "every measurement goes here"}}


def options(description, *names):
    """Parses what every benchmark takes, and the OPTIONS of these names. `mode`: "smoke", "quick" or
    "full"."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", help="the targets go here")
    parser.add_argument("--readme", action="store_true", help="the tables go into README.md too")
    parser.add_argument("--build", type=pathlib.Path, default=BUILD / "cpu", help="a Release build")
    parser.add_argument("--quick", action="store_const", dest="mode", const="quick", default="full",
                        help="a part of the measurements")
    parser.add_argument("--smoke", action="store_const", dest="mode", const="smoke",
                        help="everything once or twice: does it run at all?")
    for name in names:
        parser.add_argument(f"--{name}", **OPTIONS[name])
    return parser.parse_args()


def machine():
    return f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}"


def deliver(given, name, text, rows):
    """Prints the text; writes the targets and, between the marks of `name`, the README."""
    print(text)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(rows, indent=2) + "\n")
    if given.readme:
        path = BENCH / "README.md"
        begin, end = f"<!-- {name} begin -->\n", f"<!-- {name} end -->\n"
        before, rest = path.read_text().split(begin)
        path.write_text(before + begin + text + end + rest.split(end)[1])
