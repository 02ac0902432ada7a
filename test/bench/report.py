"""What the benchmarks' drivers share: peers that may be absent, rows of targets, tables."""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent
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


def interpreter_with(*modules):
    """The first Python here that has them, and nothing printed about those that do not."""
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        if has(python, *modules):
            return python
    return None


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


def options(description, **more):
    """Parses what every benchmark takes; `more`: further options, as add_argument has them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", help="the targets go here")
    parser.add_argument("--readme", action="store_true", help="the tables go into README.md too")
    parser.add_argument("--build", default=BENCH.parents[1] / "build/cpu", help="a Release build")
    for name, settings in more.items():
        parser.add_argument(f"--{name}", **settings)
    return parser.parse_args()


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
