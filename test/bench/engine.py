#!/usr/bin/env python3
"""The engine against its peers on this machine: runs the measurements, prints the tables.

    engine.py [--quick] [--json FILE] [--details FILE] [--readme] [--build FOLDER]

--json      the targets: an array with the keys what, unit, ours, theirs, ratio, target, met, peer,
            beside (other peers)
--details   every measurement as it was printed
--readme    puts the tables into test/bench/README.md, between its two marks
"""

import json
import pathlib
import subprocess
import sys

import report
from report import free_port, interpreters_with, launch, markdown, number, row

BENCH = pathlib.Path(__file__).resolve().parent
KIB, MIB = 1024, 1024 * 1024
CORES = len(report.CORES)
SECONDS = {"smoke": 0.02, "quick": 0.2, "full": 2.0}  # of each case


def lines_of(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=400)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class Results:
    """Everything that was measured."""

    def __init__(self):
        self.lines, self.versions = [], {}

    def add(self, lines):
        for line in lines:
            if "section" in line:
                self.lines.append(line)
            else:
                self.versions.update(line)

    def of(self, section, ranks, **wanted):
        wanted.update(section=section, ranks=ranks)
        return [each for each in self.lines if all(each.get(k) == v for k, v in wanted.items())]

    def time(self, section, case, way, ranks=2, key="median_us"):
        """Microseconds; None if nobody measured it."""
        found = self.of(section, ranks, case=case, way=way)
        return found[0][key] if found else None

    def value(self, section, case=None, ranks=2):
        found = self.of(section, ranks, **({"case": case} if case else {}))
        return found[0]["value"] if found else None


def measure(options):
    build, seconds = options.build, SECONDS[options.mode]
    results = Results()
    plan = {2: ("memory", "blocking", "async", "sets", "idle", "waiting", "late"),
            4: ("blocking", "async", "sets"), 8: ("crowd",)}
    for ranks, sections in plan.items():
        for section in sections:
            program = build / "test/bench/engine_bench"
            results.add(lines_of([*launch(ranks), program, section, str(seconds)]))
    for peer, modules in (("hvd", ("horovod_cpp", "numpy")), ("gloo", ("torch.distributed", "numpy")),
                          ("horovod", ("horovod.torch", "numpy"))):
        python = next(interpreters_with(*modules), None)
        if python is None:
            results.versions[peer] = "absent"
            continue
        program = [python, BENCH / "engine_python.py", peer, str(seconds), str(free_port())]
        results.add(lines_of([*launch(2), *program]))
    results.add(lines_of([build / "test/bench/messages_bench"]))
    results.add(negotiation(build, seconds))
    return results


def negotiation(build, seconds):
    done = subprocess.run(
        [build / "test/bench/negotiate_bench", "--benchmark_filter=two_ranks/200$",
         f"--benchmark_min_time={seconds}", "--benchmark_format=json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=100)
    step = json.loads(done.stdout)["benchmarks"][0]
    return [{"section": "negotiate", "case": case, "ranks": 2, "value": step[case]}
            for case in ("us_per_rank", "allocations")]


# -- the targets


def size_rows(results, way, label, targets):
    name = f"{results.versions.get('mpi', 'MPI')} in place"
    return [row(f"{size // KIB} KiB in place, {label}" if size < MIB else
                f"{size // MIB} MiB in place, {label}", "us",
                results.time("blocking", str(size), way),
                results.time("blocking", str(size), "mpi"), target, name, "ratio")
            for size, target in zip((64 * KIB, MIB, 16 * MIB, 64 * MIB), targets)]


def set_row(results, way, label, target):
    theirs = {name: results.time("sets", "ResNet-50", name) for name in ("mpi", "pack+mpi")}
    best = min(theirs, key=lambda name: theirs[name])
    names = {"mpi": "tensor by tensor", "pack+mpi": "pack, reduce, unpack"}
    ours = results.time("sets", "ResNet-50", way)
    return row(f"ResNet-50 gradients{label}", "ms", ours and ours / 1e3, theirs[best] / 1e3, target,
               f"{results.versions.get('mpi', 'MPI')}, {names[best]}", "ratio")


def blocking_rows(results):
    mpi = f"{results.versions.get('mpi', 'MPI')} in place"
    rows = [row(f"blocking allreduce 1 KiB, C++, {label}", "us",
                results.time("blocking", "1024", "hvd", key=key),
                results.time("blocking", "1024", "mpi", key=key), target, mpi)
            for label, key, target in (("median", "median_us", 10), ("p90", "p90_us", 40))]
    ours = results.time("blocking", "1024", "hvd python")
    peers = [way for way in ("gloo", "horovod") if results.time("blocking", "1024", way)]
    theirs = min((results.time("blocking", "1024", way) for way in peers), default=None)
    return [*rows, row("blocking allreduce 1 KiB, Python on a NumPy array", "us", ours, theirs, 20,
                       ", ".join(results.versions[way] for way in peers))]


def crowd_rows(results):
    name = f"{results.versions.get('mpi', 'MPI')}, in place or packed"
    rows = []
    for each in results.of("crowd", 8, way="hvd"):
        ours = min(results.time("crowd", each["case"], way, 8) for way in ("hvd", "hvd grouped"))
        theirs = min(results.time("crowd", each["case"], way, 8) for way in ("mpi", "pack+mpi"))
        case = case_name(each)
        rows.append(row(f"8 ranks on {CORES} cores: {case}", "us", ours, theirs, 2, name, "ratio"))
    return rows


def per_tensor(results, way):
    total = results.time("sets", "1,000 x 1,024", way)
    return total and total / 1000


def targets(results):
    def percent(value):
        return value if value is None else 100 * value

    children = results.of("messages", 1024)[0]["children"]
    return [
        *blocking_rows(results),
        *size_rows(results, "hvd", "private buffers", (0.65, 0.9, 1.0, 0.45)),
        *size_rows(results, "hvd arena", "arena", (0.5, 0.45, 0.25, 0.15)),
        set_row(results, "hvd", "", 0.6),
        set_row(results, "hvd arena", ", arena", 0.25),
        row("1,000 tensors of 1,024 floats", "us a tensor", per_tensor(results, "hvd"),
            per_tensor(results, "mpi"), 1.5, results.versions.get("mpi", "MPI")),
        row("cached step of 200 tensors in core/negotiate", "us a rank",
            results.value("negotiate", "us_per_rank"), None, 20, ""),
        row("allocations in that step", "a rank", results.value("negotiate", "allocations"), None,
            0, ""),
        row("CPU while idle after init()", "% of a core",
            percent(results.value("idle", "fraction of a core")), None, 0.1, ""),
        row("loss of a computation after init()", "%",
            percent(results.value("idle", "loss of a computation")), None, 1, ""),
        row("CPU of rank 0 while it waits seconds for rank 1", "% of a core",
            percent(results.value("waiting", "fraction of a core")), None, 1, ""),
        row("loss of rank 0's computation while rank 1 is 5 ms late", "%",
            percent(results.value("late", "loss")), None, 1, ""),
        row("rank 0's messages a tensor at 1,024 virtual ranks", "messages",
            results.value("messages", ranks=1024), None, children, ""),
        *crowd_rows(results),
    ]


# -- the tables


def size_name(size):
    for unit, factor in (("MiB", MIB), ("KiB", KIB)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def case_name(line):
    return size_name(int(line["case"])) if line["case"].isdigit() else line["case"]


def ways_of(lines):
    return list(dict.fromkeys(line["way"] for line in lines))


def time_table(results, section, ranks):
    """A row a case: median (p90) of every way, in microseconds; and the bandwidth of ours."""
    lines = results.of(section, ranks)
    if not lines:
        return []
    ways = ways_of(lines)
    rows = []
    for case in dict.fromkeys(line["case"] for line in lines):
        of_case = {line["way"]: line for line in lines if line["case"] == case}
        cells = [f"{number(of_case[way]['median_us'])} ({number(of_case[way]['p90_us'])})"
                 if way in of_case else "-" for way in ways]
        first = next(iter(of_case.values()))
        ours = of_case["hvd"]["median_us"] if "hvd" in of_case else None
        algbw = ours and first["bytes"] / ours / 1e3
        floor = floor_us(results, first["bytes"]) if ranks == 2 else None
        rows.append([case_name(first), first["tensors"], *cells, algbw,
                     algbw and algbw * 2 * (ranks - 1) / ranks, floor])
    title = {"blocking": "One tensor, blocking", "async": "Tensors of one size, all in flight",
             "sets": "Gradient sets", "crowd": "More ranks than cores"}[section]
    return [f"### {title}, {ranks} ranks: median (p90), us", "",
            *markdown(["case", "tensors", *ways, "algbw GB/s", "busbw GB/s", "floor us"], rows)]


def floor_us(results, size):
    """Three cache lines filled for each line of payload: see README.md."""
    return 3 * size / results.value("memory") * 1e6


def growth_table(results):
    lines = [line for line in results.lines if line["section"] == "messages"]
    rows = [[line["ranks"], line["value"], line["children"]] for line in lines]
    return ["### What rank 0 sends in steady state", "",
            *markdown(["ranks", "messages a tensor", "children in the tree"], rows)]


def setting(results):
    versions = results.versions
    peers = ", ".join(f"{name}: {versions.get(name, 'absent')}" for name in ("mpi", "gloo", "horovod"))
    fills = results.value("memory") / 1e9
    return [f"{report.machine()}. Peers: {peers}. "
            f"A core fills {fills:.1f} GB/s of cache lines from memory while the others do.", ""]


def tables(results, rows):
    lines = [*setting(results), "### Targets, 2 ranks, medians", "", *report.target_table(rows)]
    for section, ranks in (("blocking", 2), ("async", 2), ("sets", 2), ("blocking", 4), ("async", 4),
                           ("sets", 4), ("crowd", 8)):
        lines += time_table(results, section, ranks)
    return "\n".join(lines + growth_table(results))


def main():
    given = report.options(__doc__.splitlines()[0], "details")
    results = measure(given)
    rows = targets(results)
    report.deliver(given, "tables", tables(results, rows), rows)
    if given.details:
        details = {"versions": results.versions, "measurements": results.lines}
        pathlib.Path(given.details).write_text(json.dumps(details, indent=2) + "\n")


if __name__ == "__main__":
    main()
