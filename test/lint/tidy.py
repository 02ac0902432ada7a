#!/usr/bin/env python3
"""clang-tidy on every source file but tests, in parallel; what has not changed is not checked again.

    tidy.py [--checks CHECKS] BUILD...      each BUILD has a compile_commands.json; of a file that is
                                            in several the first counts. CHECKS are added to
                                            .clang-tidy's

Tests are left to the sanitizers: on them the analyzer spends most of its time on the framework.
A file is clean until it, a header of ours below it, its compiler flags, a .clang-tidy or clang-tidy
itself changes: beside the first BUILD, `tidy` keeps one empty file for each clean state.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def closure(path, seen):
    """`path` and the headers of this repository that it includes, directly or not."""
    if path in seen:
        return seen
    seen.add(path)
    for header in INCLUDE.findall(path.read_text(encoding="utf-8")):
        if (ROOT / header).is_file():
            closure(ROOT / header, seen)
    return seen


def state(source, command, common):
    digest = hashlib.sha256(common)
    digest.update(command.encode())
    for path in sorted(closure(source, set())):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def check(source, build, checks):
    run = subprocess.run(
        # Unknown to clang: warnings that only GCC has. The GCC build has -Werror of its own.
        ["clang-tidy", "-p", str(build), "--quiet", f"--checks={checks}", "--extra-arg=-w",
         str(source)],
        capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + (run.stderr if run.returncode else "")


def commands_of(builds):
    """For each of our sources the build that compiles it, and how."""
    found = {}
    for build in builds:
        for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
            source = pathlib.Path(entry["file"]).resolve()
            ours = source.is_relative_to(ROOT) and not source.is_relative_to(build)
            if ours and not source.is_relative_to(ROOT / "test"):
                found.setdefault(source, (build, entry["command"]))
    return found


def main():
    parser = argparse.ArgumentParser(description="clang-tidy on every source file but tests")
    parser.add_argument("builds", metavar="BUILD", nargs="+", type=pathlib.Path)
    parser.add_argument("--checks", default="")
    options = parser.parse_args()
    builds, checks = [build.resolve() for build in options.builds], options.checks
    cache = builds[0].parent / "tidy"
    cache.mkdir(exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    common = version + checks.encode() + (ROOT / ".clang-tidy").read_bytes()
    sources = commands_of(builds)
    todo = {}
    for source, (build, command) in sources.items():
        stamp = cache / state(source, command, common)
        if not stamp.exists():
            todo[source] = (build, stamp)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda source: check(source, todo[source][0], checks), todo)
        for source, (code, text) in zip(todo, results):
            if code:
                failed += 1
                print(f"{source.relative_to(ROOT)}:\n{text}", flush=True)
            else:
                todo[source][1].touch()
    print(f"tidy: {len(sources)} files, {len(todo)} checked now, {failed} with findings")
    return 1 if failed or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
