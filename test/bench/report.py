"""What the benchmarks' drivers share: peers that may be absent, rows of targets, tables."""

import argparse
import json
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent


def interpreter_with(*modules):
    """The first Python here that has them, and nothing printed about those that do not."""
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        done = subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True)
        if done.returncode == 0:
            return python
    return None


def row(what, unit, ours, theirs, target, peer, compare="ours"):
    """`compare`: what may not exceed the target, ours or the ratio."""
    ratio = ours / theirs if ours is not None and theirs else None
    judged = ratio if compare == "ratio" else ours
    met = judged is not None and judged <= target
    return {"what": what, "unit": unit, "ours": ours, "theirs": theirs, "ratio": ratio,
            "target": target if compare == "ours" else f"ratio {target}", "met": met, "peer": peer}


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
    header = ["what", "unit", "ours", "theirs", "ratio", "target", "met", "peer"]
    return markdown(header, [[each[key] for key in header] for each in rows])


def options(description, **more):
    """Parses what every benchmark takes; `more`: further flags and what they say."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", help="the targets go here")
    parser.add_argument("--readme", action="store_true", help="the tables go into README.md too")
    parser.add_argument("--build", default=BENCH.parents[1] / "build/cpu", help="a Release build")
    for name, text in more.items():
        parser.add_argument(f"--{name}", help=text,
                            action="store_true" if name == "quick" else "store")
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
