"""python -m horovod_cpp.doctor: the report."""

import argparse
import dataclasses
import functools
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import horovod_cpp as hvd
from horovod_cpp.doctor import jobs, machine, network, software
from horovod_cpp.doctor.bounded import LEVELS, Finding, run_check

_Check: TypeAlias = Callable[[], Iterable[Finding]]

_DESCRIPTION = """\
Looks at everything that a job of horovod_cpp needs or can use, and says how to fix what is wrong.

  versions   horovod_cpp and its compiler, hvdrun, Python, NumPy, torch, oneDNN
  mpi        library, mpirun, root, two real ranks and their thread level
  memory     a real segment of shared memory; /dev/shm (containers often have 64 MB)
  network    interfaces, addresses, this machine's name
  ssh        client, server, and whether machines answer without a password
  gpu        driver, GPUs, NCCL, and whether this build can use them
  threads    cores, affinity, limits of control groups, OMP_NUM_THREADS
  limits     open files, locked memory, memory, pidfd
  settings   HOROVOD_* and HVD_* variables that are set, each checked
  allreduce  a real job of two ranks, started by hvdrun
"""

_EPILOG = """\
Each line is one of
  ok         fine, or not needed here
  warning    jobs run, but slower, or not on several machines; the next line says what to do
  problem    jobs do not run, or not as asked for; the next line says what to do

The exit code is 1 if there is a problem, 2 for a wrong command line, else 0. Nothing is changed on
this machine, and no check takes longer than its limit, whatever hangs: all together end within
five minutes, usually within ten seconds.

examples:
  python -m horovod_cpp.doctor                          everything
  python -m horovod_cpp.doctor --only memory,settings   two of the checks
  python -m horovod_cpp.doctor --hosts node1,node2      can hvdrun -H node1:4,node2:4 log in there?
  python -m horovod_cpp.doctor --json > report.json     for a program, or a bug report
"""


def sections(hosts: Sequence[str]) -> dict[str, tuple[_Check, float]]:
    """Name -> (check, seconds that it may take)."""
    return {
        "versions": (software.version_checks, 60),
        "mpi": (jobs.mpi_checks, 60),
        "memory": (machine.memory_checks, 10),
        "network": (network.checks, 20),
        "ssh": (functools.partial(network.ssh_checks, hosts), 20 + 20 * len(hosts)),
        "gpu": (machine.gpu_checks, 30),
        "threads": (machine.thread_checks, 10),
        "limits": (machine.limit_checks, 10),
        "settings": (software.setting_checks, 10),
        "allreduce": (jobs.job_checks, 60),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m horovod_cpp.doctor", description=_DESCRIPTION, epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true",
                        help="print one JSON object: version, host, levels counted, and all checks")
    parser.add_argument("--only", nargs="+", metavar="CHECK",
                        help="these checks instead of all; blanks or commas between them")
    parser.add_argument("--hosts", nargs="+", metavar="HOST",
                        help="machines that ssh has to reach without a password")
    options = parser.parse_args(arguments)
    for option in ("only", "hosts"):
        given = getattr(options, option)
        names = [name for word in given or () for name in word.split(",") if name]
        if given and not names:
            parser.error(f"--{option}: no name given")
        setattr(options, option, names)
    for host in options.hosts:
        if host.startswith("-"):  # ssh would take it for an option, which may be a command
            parser.error(f"--hosts: '{host}' is not a host name")
    known = sections(())
    for name in options.only:
        if name not in known:
            parser.error(f"--only: there is no check '{name}'; there are {', '.join(known)}")
    return options


def diagnose(options: argparse.Namespace,
             show: Callable[[str, list[Finding]], None] = lambda name, findings: None,
             ) -> dict[str, Any]:
    """Runs the checks and returns the report: what --json prints. `show` is called after each."""
    checks: list[dict[str, Any]] = []
    for name, (check, seconds) in sections(options.hosts).items():
        if options.only and name not in options.only:
            continue
        begin = time.monotonic()
        findings = run_check(check, seconds)
        taken = round(time.monotonic() - begin, 3)
        show(name, findings)
        checks.append({"check": name, "seconds": taken,
                       "findings": [dataclasses.asdict(each) for each in findings]})
    levels = [each["level"] for check in checks for each in check["findings"]]
    return {"horovod_cpp": hvd.__version__, "host": socket.gethostname(),
            **{level: levels.count(level) for level in LEVELS}, "checks": checks}


def show(name: str, findings: list[Finding]) -> None:
    print(name)
    width = max(len(each.name) for each in findings)
    for each in findings:
        mark = each.level.upper() if each.level == "problem" else each.level
        print(f"  {mark:7}  {each.name:{width}}  {each.text}")
        if each.fix:
            print(f"  {'':7}  {'':{width}}  -> {each.fix}")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how checks end
    try:
        if options.json:
            report = diagnose(options)
            print(json.dumps(report, indent=2), flush=True)
        else:
            report = diagnose(options, show)
            print("\n" + ", ".join(f"{level}: {report[level]}" for level in LEVELS), flush=True)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 128 + signal.SIGPIPE
    return 1 if report["problem"] else 0


if __name__ == "__main__":
    sys.exit(main())
