#!/usr/bin/env python3
"""What Python users wait for: the import, the start of a cluster, a call on it.

    python.py [--quick] [--json FILE] [--readme]

--json      the targets: an array with the keys what, unit, ours, theirs, ratio, target, met, peer,
            beside (other peers)
--readme    puts the table into test/bench/README.md, between its two marks
"""

import concurrent.futures
import importlib.util
import multiprocessing
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import report
from report import interpreters_with, row

import horovod_cpp as hvd

SPAWN = multiprocessing.get_context("spawn")

IMPORT = """
import time
begin = time.perf_counter()
import {module}
print(time.perf_counter() - begin)
"""


def import_seconds(python, module):
    """In a fresh interpreter, away from the repository: its folders are no packages."""
    done = subprocess.run([python, "-c", IMPORT.format(module=module)], check=True, text=True,
                          stdout=subprocess.PIPE, cwd=tempfile.gettempdir())
    return float(done.stdout)


def forget(folder):
    """Has the system drop from memory what it can of these files; the next import reads the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def cold_import():
    """Ours, after its own files were forgotten."""
    forget(pathlib.Path(importlib.util.find_spec("horovod_cpp").origin).parent)
    return import_seconds(sys.executable, "horovod_cpp")


def import_rows(turns):
    python = next(interpreters_with("torch"), None)
    version = python and subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"], check=True, text=True,
        stdout=subprocess.PIPE).stdout.strip()
    ours, cold, theirs = [], [], []
    for turn in range(turns + 1):
        times = [import_seconds(sys.executable, "horovod_cpp"), cold_import(),
                 import_seconds(python, "torch") if python else None]
        if turn > 0:  # the first reads files that the others find in memory
            for each, value in zip((ours, cold, theirs), times):
                each.append(value)
    return [row("import horovod_cpp, fresh interpreter", "s", statistics.median(ours),
                statistics.median(theirs) if python else None, 0.3,
                f"import torch {version}" if python else "torch: absent"),
            row("the same, its files read from disk", "s", statistics.median(cold), None, 0.3, "")]


def no_operation():
    return None


def our_pool():
    """Seconds from nothing to the first result of two ranks, and of the second call."""
    begin = time.perf_counter()
    with hvd.Cluster(np=2) as cluster:
        cluster.run(no_operation)
        started = time.perf_counter() - begin
        begin = time.perf_counter()
        cluster.run(no_operation)
        return started, time.perf_counter() - begin


def futures():
    begin = time.perf_counter()
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=SPAWN) as pool:
        return timed_twice(begin, lambda: [each.result() for each in
                                           [pool.submit(os.getpid) for _ in range(2)]])


def processes():
    begin = time.perf_counter()
    with SPAWN.Pool(2) as pool:
        return timed_twice(begin, lambda: pool.map(abs, range(2), chunksize=1))


def timed_twice(begin, call):
    call()
    started = time.perf_counter() - begin
    begin = time.perf_counter()
    call()
    return started, time.perf_counter() - begin


def pool_rows(turns):
    ways = {"ours": our_pool, "multiprocessing.Pool": processes,
            "concurrent.futures.ProcessPoolExecutor": futures}
    times = {way: [] for way in ways}
    for turn in range(turns + 1):
        for way, measure in ways.items():
            seconds = measure()
            times[way] += [seconds] if turn > 0 else []
    start, second = ({way: statistics.median(each[part] for each in values)
                      for way, values in times.items()} for part in (0, 1))
    return [against(start, "start of a cluster of 2, to the first result", "s", 1, 2),
            against(second, "second run of a no-op on 2 ranks", "ms", 1e3, 5)]


def against(seconds, what, unit, factor, target):
    """A row: ours against the fastest pool of the standard library, the other one beside."""
    ours = seconds["ours"] * factor
    (peer, fastest), *others = sorted(
        ((way, value * factor) for way, value in seconds.items() if way != "ours"),
        key=lambda each: each[1])
    return row(what, unit, ours, fastest, target, f"{peer}, 2 workers by spawn", beside=others)


def main():
    given = report.options(__doc__.splitlines()[0])
    turns = {"smoke": 1, "quick": 5, "full": 15}[given.mode]
    rows = [*import_rows(turns), *pool_rows(turns)]
    text = "\n".join([
        f"{report.machine()}, "
        f"Python {platform.python_version()}. Medians of {turns} turns.", "",
        *report.target_table(rows)])
    report.deliver(given, "python", text, rows)


if __name__ == "__main__":
    main()
