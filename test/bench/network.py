#!/usr/bin/env python3
"""Ranks of several hosts (network namespaces of this machine), one on each, against gloo and Open MPI. As root.

    network.py [--quick] [--json FILE] [--readme] [--build FOLDER] [--wheel FILE] [--torch PYTHON]

--torch     an interpreter with PyTorch and cloudpickle; without it the first that is found
--wheel     of this package, which the interpreter need not have; without it that in build/wheel
--json      the targets: an array with the keys what, unit, ours, theirs, ratio, target, met, peer,
            beside
"""

import collections
import statistics
import subprocess
import sys

import report
from engine import lines_of
from model_peers import Plan, Together, all_steps, all_torches, in_turn, slowest
from report import CORES, divided, markdown, row

sys.path.insert(0, str(report.BENCH.parent / "support"))
from hosts import Hosts

# Reductions by bytes: their name, and how many a turn.
SIZES = {1 << 10: ("1 KiB", 200), 1 << 16: ("64 KiB", 100), 1 << 20: ("1 MiB", 20), 1 << 24: ("16 MiB", 3),
         1 << 26: ("64 MiB", 1)}
TURNS = {"allreduce": 12, "vgg11": 8, "init": 20}
ROUNDS = {"smoke": 1, "quick": 1, "full": 3}  # of the programs under mpirun
SECONDS = {"smoke": 0.01, "quick": 0.1, "full": 0.3}
UCX = ("--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "-x",
       "UCX_TLS=tcp,self")
# Of engine_bench, which has Open MPI's own calls beside ours: what carries our tensors, and MPI's messages.
WAYS = {("tcp", "ob1"): (), ("mpi", "ob1"): (), ("tcp", "ucx"): UCX}
INIT = """
import json, sys, time
{}
for turn, _ in enumerate(sys.stdin):
    if turn > 0:  # not earlier: gloo's other rank may not have finished yet
        stop()
    begin = time.perf_counter()
    start()
    print(json.dumps({{"wall": [1e3 * (time.perf_counter() - begin)]}}), flush=True)
"""
INIT_OURS = INIT.format("from horovod_cpp import init as start, shutdown as stop")
# A store that has just ended still answers for a moment: each has a port of its own.
INIT_GLOO = INIT.format("""import os
from torch.distributed import destroy_process_group as stop, init_process_group
def start():
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 100)
    init_process_group("gloo")""")


class World:
    """Ranks on hosts, one on each."""

    def __init__(self, hosts, torch, site):
        self._hosts, self._torch, self._site, self._port = hosts, torch, site, 29500

    def ranks(self, *words, **program):
        """Trainers; they find each other at a port that no others have had."""
        self._port += 1
        count = len(self._hosts.letters)
        place = {"PYTHONPATH": str(self._site), "WORLD_SIZE": str(count), "MASTER_PORT": str(self._port),
                 "MASTER_ADDR": f"{self._hosts.name}-a", "HVD_RENDEZVOUS_KEY": "of this benchmark"}
        return Together([self._torch.start(*words, core=CORES[rank % len(CORES)], RANK=str(rank),
                                           prefix=self._hosts.command("on", host), **program, **place)
                         for rank, host in enumerate(self._hosts.letters)])

    def under_mpi(self, program, plan):
        """Medians of microseconds, by bytes and then by way: what carries our tensors, or Open MPI's PML."""
        count = len(self._hosts.letters)
        places = ",".join(f"{self._hosts.name}-{host}:1" for host in self._hosts.letters)
        times = collections.defaultdict(lambda: collections.defaultdict(list))
        there = subprocess.run(["ompi_info", "--parsable"], stdout=subprocess.PIPE, text=True).stdout
        for _ in range(ROUNDS[plan.mode]):
            for (ours, pml), words in WAYS.items():
                if f"mca:pml:{pml}:" not in there:
                    continue
                command = self._hosts.command("mpirun", "-H", places, "-np", count, *words, "-x",
                                              f"HOROVOD_CPU_OPERATIONS={ours}", program, "blocking", SECONDS[plan.mode])
                for line in lines_of(command):
                    way = {"hvd": ours, "mpi": pml}.get(line.get("way"))
                    if way is not None and int(line["case"]) in SIZES:
                        times[int(line["case"])][way].append(line["median_us"])
        return {size: {way: statistics.median(each) for way, each in ways.items()} for size, ways in times.items()}


def reductions(world, plan, program):
    """As World.under_mpi, with ours ("no mpi") and gloo from PyTorch."""
    medians = world.under_mpi(program, plan)
    trainers = {"no mpi": world.ranks("--hvd"), "gloo": world.ranks("--ddp")}
    for size, (_, times) in SIZES.items():
        cases = [(whose, f"allreduce/{size}") for whose in trainers]
        times = 1 if plan.mode == "smoke" else times
        for (whose, _), value in in_turn(trainers, cases, times, plan.turns(TURNS["allreduce"]), slowest).items():
            medians.setdefault(size, {})[whose] = 1e3 * value
    for trainer in trainers.values():
        trainer.end()
    return medians


def training(world, plan):
    trainers = {"no mpi": world.ranks("--hvd"), "gloo": world.ranks("--ddp")}
    cases = [(whose, model) for model in ("vgg11", "vgg11/plain") for whose in trainers]
    medians = in_turn(trainers, cases, plan.steps("vgg11"), plan.turns(TURNS["vgg11"]), all_steps)
    for trainer in trainers.values():
        trainer.end()
    return medians


def starts(world, plan):
    """Of the rank that came last, which waited for nobody."""
    def fastest(walls):
        return [min(each) for each in zip(*walls)]

    trainers = {"no mpi": world.ranks(program=("-c", INIT_OURS)), "gloo": world.ranks(program=("-c", INIT_GLOO))}
    medians = in_turn(trainers, [(whose, "init") for whose in trainers], 1, plan.turns(TURNS["init"]), fastest)
    for trainer in trainers.values():
        trainer.end()
    return medians


def target_rows(medians, steps, inits, label):
    def against_mpi(size, target, compare):
        of = medians[size]
        peers = {way: of[way] for way in ("ob1", "ucx") if way in of}
        best = min(peers, key=peers.get)
        return row(f"blocking allreduce of {SIZES[size][0]}, C++", "us", of["tcp"], peers[best], target,
                   f"Open MPI, {best}", compare, [("ours over MPI", of["mpi"])])

    def against_gloo(size):
        return row(f"allreduce_ of {SIZES[size][0]}, 2 hosts", "us", medians[size]["no mpi"], medians[size]["gloo"], 0.65,
                   f"gloo, {label}", "ratio")

    small, _, middle, large, largest = SIZES
    of_gloo = report.number(divided(steps["gloo", "vgg11"], steps["gloo", "vgg11/plain"]))
    return [against_mpi(small, 30, "ours"), against_mpi(middle, 600, "ours"),
            against_mpi(large, 0.8, "ratio"), against_mpi(largest, 0.8, "ratio"),
            against_gloo(large), against_gloo(largest),
            row("init() of two hosts", "ms", inits["no mpi", "init"], inits["gloo", "init"], 50, f"gloo, {label}"),
            row("VGG-11, batch 32: step of 2 hosts", "ms", steps["no mpi", "vgg11"], steps["no mpi", "vgg11/plain"],
                1.25, f"the same step without communication (DDP over gloo: {of_gloo} of its own)", "ratio")]


def table(hosts, medians):
    ways = {"tcp": "ours", "mpi": "ours over MPI", "ob1": "Open MPI, ob1", "ucx": "Open MPI, ucx",
            "no mpi": "ours, torch", "gloo": "gloo, torch"}
    rows = [[SIZES[size][0], *(of.get(way) for way in ways)] for size, of in medians.items()]
    return [f"### {hosts} hosts: median, us", "", *markdown(["bytes", *ways.values()], rows)]


def main():
    given = report.options(__doc__.splitlines()[0], "wheel", "torch")
    torches = all_torches(given.torch, "cloudpickle")
    if len(CORES) < 2 or not torches:
        raise SystemExit("two ranks want two cores, and an interpreter with torch and cloudpickle (--torch)")
    torch, plan = torches[0], Plan(given.mode)
    program = given.build.resolve() / "test/bench/engine_bench"
    with report.unpacked(given.wheel) as site:
        with Hosts(2) as hosts:
            world = World(hosts, torch, site)
            medians = reductions(world, plan, program)
            rows = target_rows(medians, training(world, plan), starts(world, plan), torch.name)
        with Hosts(4) as hosts:
            more = reductions(World(hosts, torch, site), plan, program)
    text = "\n".join([
        f"{report.machine()}, {torch.label}; network namespaces on a bridge.", "", *report.target_table(rows), *table(2, medians), *table(4, more)])
    report.deliver(given, "network", text, rows)


if __name__ == "__main__":
    main()
