#!/usr/bin/env python3
"""Training steps against PyTorch's on this machine, one core each: prints the targets.

    model.py [--quick] [--json FILE] [--readme] [--build FOLDER]
"""

import glob
import json
import os
import pathlib
import platform
import statistics
import subprocess

import report
from report import BENCH, interpreter_with, row

# Model, our peer's ways, steps a turn, turns.
PLAN = (("vgg11", ("vgg11", "vgg11/foreach", "vgg11/foreach/channels_last"), 4, 6),
        ("resnet18", ("resnet18", "resnet18/foreach", "resnet18/foreach/channels_last"), 2, 4),
        ("mlp", ("mlp", "mlp/foreach"), 100, 15))
# OpenBLAS 0.3.21 takes newer processors for the oldest it knows; then it has to be told.
CORE_TYPES = (None, "SapphireRapids", "SkylakeX", "Haswell", "Zen")


class Trainer:
    """A process on one core that trains when asked."""

    def __init__(self, command, **environment):
        core = min(os.sched_getaffinity(0))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **environment},
            preexec_fn=lambda: os.sched_setaffinity(0, {core}))

    def train(self, model, steps):
        self._process.stdin.write(f"{model} {steps}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self._process.args}: ended while training {model}")
        return json.loads(answer)

    def end(self):
        self._process.stdin.close()
        self._process.wait()


class Torch:
    """PyTorch with the best BLAS here; `name` says which, None if there is no PyTorch."""

    def __init__(self):
        python = interpreter_with("torch")
        self.name, self._environment = None, {}
        if python is None:
            return
        self._command = [python, str(BENCH / "model_torch.py")]
        self.name = "PyTorch " + subprocess.run([*self._command, "--version"], check=True, text=True,
                                                stdout=subprocess.PIPE).stdout.strip()
        libraries = sorted(glob.glob("/usr/lib/*/openblas-*/libblas.so.3"))
        if not libraries:
            self.name += ", its own BLAS"
            return
        choices = [{"LD_PRELOAD": library, **({"OPENBLAS_CORETYPE": core} if core else {})}
                   for library in libraries[:1] for core in CORE_TYPES]
        self._environment = min(choices, key=self._probe)
        core = self._environment.get("OPENBLAS_CORETYPE", "as detected")
        self.name += f", OpenBLAS preloaded (core type {core})"

    def _probe(self, environment):
        self._environment = environment
        trainer = self.start()
        trainer.train("mlp", 20)
        answer = trainer.train("mlp", 50)
        trainer.end()
        return statistics.median(answer["ms"])

    def start(self):
        return Trainer(self._command, **self._environment)


def measure(build, torch, quick):
    """Median milliseconds by (whose, model): ours and theirs train in turn."""
    trainers = {"ours": Trainer([str(pathlib.Path(build) / "test/bench/model_bench")])}
    if torch.name:
        trainers["theirs"] = torch.start()
    medians = {}
    for model, ways, steps, turns in PLAN:
        cases = [("ours", model), *(("theirs", way) for way in ways if "theirs" in trainers)]
        times = {case: [] for case in cases}
        for turn in range(max(3, turns // 4) if quick else turns):
            for whose, way in cases:
                answer = trainers[whose].train(way, steps)
                times[whose, way] += answer["ms"] if turn > 0 else []  # the first one warms up
        medians.update({case: statistics.median(each) for case, each in times.items()})
    for trainer in trainers.values():
        trainer.end()
    return medians


def peak(trainer):
    """MiB of a process that trained nothing but this."""
    answer = trainer.train("vgg11", 4)
    trainer.end()
    return answer["peak"]


def targets(medians, peaks, torch):
    peer = torch.name or "PyTorch: absent"
    theirs = lambda *ways: min((medians["theirs", way] for way in ways if ("theirs", way) in medians),
                               default=None)
    ways = {model: all_ways for model, all_ways, _, _ in PLAN}
    ours = {model: medians["ours", model] for model in ways}
    return [
        row("VGG-11 + BatchNorm, 32x32, batch 32, step f32", "ms", ours["vgg11"], theirs("vgg11"),
            0.70, peer, "ratio"),
        row("the same, PyTorch's fastest (foreach, channels_last)", "ms", ours["vgg11"],
            theirs(*ways["vgg11"]), 0.80, peer, "ratio"),
        row("ResNet-18, 32x32, batch 32, step f32", "ms", ours["resnet18"],
            theirs(*ways["resnet18"]), 0.85, peer, "ratio"),
        row("MLP 784-256-256-10, batch 64, step with SGD momentum", "ms", ours["mlp"],
            theirs(*ways["mlp"]), 0.65, peer, "ratio"),
        row("peak resident memory of the VGG-11 process", "MiB", *peaks, 1.0, peer, "ratio"),
    ]


def main():
    given = report.options(__doc__.splitlines()[0], quick="a quarter of the turns")
    torch = Torch()
    medians = measure(given.build, torch, given.quick)
    peaks = (peak(Trainer([str(pathlib.Path(given.build) / "test/bench/model_bench")])),
             peak(torch.start()) if torch.name else None)
    rows = targets(medians, peaks, torch)
    text = "\n".join([
        f"One core of {os.cpu_count()}, {platform.machine()}, Linux {platform.release()}. "
        f"Peer: {torch.name or 'none, PyTorch is absent'}. Medians of CPU time.", "",
        *report.target_table(rows)])
    report.deliver(given, "model", text, rows)


if __name__ == "__main__":
    main()
