"""Processes that train when model.py asks them to: ours, and PyTorch's."""

import contextlib
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys

from report import BENCH, CORES, free_port, has

# OpenBLAS 0.3.21 takes newer processors for the oldest it knows; then it has to be told.
CORE_TYPES = (None, "SapphireRapids", "SkylakeX", "Haswell", "Zen")


class Trainer:
    """A process that trains when asked; on one core, unless a launcher says where its ranks go."""

    def __init__(self, command, core=CORES[0], **environment):
        self._process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **environment},
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}))

    def ask(self, model, steps):
        with contextlib.suppress(BrokenPipeError):  # it ended: there will be no answer
            self._process.stdin.write(f"{model} {steps}\n")
            self._process.stdin.flush()

    def answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self._process.args)}: ended while training")
        return json.loads(line)

    def train(self, model, steps):
        self.ask(model, steps)
        return self.answer()

    def end(self):
        self._process.stdin.close()
        self._process.wait()


class Together:
    """Trainers that train at the same time. An answer is the wall's clock of all their steps."""

    def __init__(self, trainers):
        self._trainers = trainers

    def train(self, model, steps):
        for trainer in self._trainers:
            trainer.ask(model, steps)
        return [step for trainer in self._trainers for step in trainer.answer()["wall"]]

    def end(self):
        for trainer in self._trainers:
            trainer.end()


class Torch:
    """One interpreter's PyTorch, with the best BLAS for it here; `name` and `label` say which."""

    def __init__(self, python):
        self._command = [python, str(BENCH / "model_torch.py")]
        self._environment = {}
        about = json.loads(subprocess.run([*self._command, "--version"], check=True, text=True,
                                          stdout=subprocess.PIPE).stdout)
        self.version = about["version"]
        self.name = f"PyTorch {self.version}"
        libraries = sorted(glob.glob("/usr/lib/*/openblas-*/libblas.so.3"))
        if about["mkl"] or not libraries:
            self.label = f"{self.name}, its own BLAS"
            return
        choices = [{"LD_PRELOAD": libraries[0], **({"OPENBLAS_CORETYPE": core} if core else {})}
                   for core in CORE_TYPES]
        self._environment = min(choices, key=self._probe)
        core = self._environment.get("OPENBLAS_CORETYPE", "as detected")
        self.label = f"{self.name}, OpenBLAS preloaded (core type {core})"

    def _probe(self, environment):
        trainer = Trainer(self._command, **environment)
        trainer.train("mlp", 20)
        answer = trainer.train("mlp", 50)
        trainer.end()
        return statistics.median(answer["ms"])

    def start(self):
        return Trainer(self._command, **self._environment)

    def start_ddp(self):
        """Two processes under DistributedDataParallel."""
        port = free_port()
        return Together([Trainer([*self._command, "--ddp", str(rank), str(port)], core=CORES[rank],
                                 **self._environment) for rank in range(2)])


def all_torches(given):
    """Of the interpreters that were given, or else of those that are found, a version once. The
    first is the one that the targets speak of: Debian's, where it is installed."""
    build = pathlib.Path(BENCH).parents[1] / "build"
    found = ["/usr/bin/python3", sys.executable, *sorted(build.glob("torch*/bin/python"))]
    torches = {}
    for python in map(str, found if given is None else given):
        if has(python, "torch"):
            torch = Torch(python)
            torches.setdefault(torch.version, torch)
        elif given is not None:
            raise SystemExit(f"--torch {python}: has no torch")
    return list(torches.values())
