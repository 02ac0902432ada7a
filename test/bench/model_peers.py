"""Processes that train when they are asked to, ours and PyTorch's, and how they are asked."""

import contextlib
import glob
import json
import math
import os
import statistics
import subprocess

from report import BENCH, CORES, free_port, has, interpreters_with, launch

# OpenBLAS 0.3.21 takes newer processors for the oldest it knows; then it has to be told.
CORE_TYPES = (None, "SapphireRapids", "SkylakeX", "Haswell", "Zen")


MODEL = str(BENCH / "model_torch.py")
STEPS = {"vgg11": 4, "vgg11_bf16": 4, "resnet18": 2, "mlp": 100}  # a turn


class Plan:
    """How much is measured. The first turn of everything warms up."""

    def __init__(self, mode):
        self.mode = mode

    def steps(self, model):
        return 1 if self.mode == "smoke" else STEPS[model]

    def turns(self, turns):
        return {"smoke": 2, "quick": max(3, turns // 4), "full": turns}[self.mode]


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
    """Trainers that train at the same time. An answer has the wall's clock of each one's steps."""

    def __init__(self, trainers):
        self._trainers = trainers

    def train(self, model, steps):
        for trainer in self._trainers:
            trainer.ask(model, steps)
        return [trainer.answer()["wall"] for trainer in self._trainers]

    def end(self):
        for trainer in self._trainers:
            trainer.end()


def all_steps(walls):
    return [step for each in walls for step in each]


def slowest(walls):
    """Of a call that all ranks make together."""
    return [max(each) for each in zip(*walls)]


def in_turn(trainers, cases, steps, turns, times_of):
    """Medians of a step by (whose, way), of trainers that train in turn."""
    times = {case: [] for case in cases}
    for turn in range(turns):
        for whose, way in cases:
            answer = times_of(trainers[whose].train(way, steps))
            times[whose, way] += answer if turn > 0 else []  # the first one warms up
    return {(whose, way): statistics.median(each) for (whose, way), each in times.items()}


class Interpreter:
    """A Python, and the program that it runs when it trains; `about`: what the program says of itself."""

    def __init__(self, python, program):
        self.python, self._program, self._environment = python, program, {}
        self.about = json.loads(subprocess.run([python, program, "--version"], check=True, text=True,
                                               stdout=subprocess.PIPE).stdout)

    def start(self, *words, core=CORES[0], prefix=(), program=None, **environment):
        """`prefix`: words in front of the interpreter's."""
        return Trainer([*prefix, self.python, *(program or [self._program]), *words], core,
                       **self._environment, **environment)

    def start_alone(self):
        """Two processes that do not know of each other."""
        return self.start_on_each_core()

    def start_hvd(self, site, ranks=2):
        """Ranks of horovod_cpp, whose package lies in the folder `site`."""
        return self.start_on_each_core("--hvd", ranks=ranks, PYTHONPATH=str(site))

    def start_on_each_core(self, *words, ranks=2, **environment):
        place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        return Together([self.start(*words, core=CORES[rank], RANK=str(rank), **place, **environment)
                         for rank in range(ranks)])


class Torch(Interpreter):
    """One interpreter's PyTorch, with the best BLAS for it here; `name` and `label` say which."""

    def __init__(self, python):
        super().__init__(python, MODEL)
        self.version, self.horovod = self.about["version"], self.about["horovod"]
        self.name = f"PyTorch {self.version}"
        libraries = sorted(glob.glob("/usr/lib/*/openblas-*/libblas.so.3"))
        if self.about["mkl"] or not libraries:
            self.label = f"{self.name}, its own BLAS"
            return
        choices = [{"LD_PRELOAD": libraries[0], **({"OPENBLAS_CORETYPE": core} if core else {})}
                   for core in CORE_TYPES]
        self._environment = min(choices, key=self._probe)
        core = self._environment.get("OPENBLAS_CORETYPE", "as detected")
        self.label = f"{self.name}, OpenBLAS preloaded (core type {core})"

    def _probe(self, environment):
        trainer = Trainer([self.python, MODEL], **environment)
        try:
            trainer.train("mlp", 20)
            answer = trainer.train("mlp", 50)
        except SystemExit:  # it asks for instructions that this processor lacks
            return math.inf
        trainer.end()
        return statistics.median(answer["ms"])

    def start_ddp(self):
        """Two processes under DistributedDataParallel."""
        return self.start_on_each_core("--ddp")

    def start_horovod(self, **environment):
        """Two ranks of Horovod itself."""
        return Together([Trainer([*launch(2), self.python, MODEL, "--horovod"], core=None,
                                 HOROVOD_STALL_CHECK_DISABLE="1", **self._environment,
                                 **environment)])


def all_torches(given, *needs):
    """PyTorch of the interpreters that were given, or else of those that are found, a version once;
    with the modules that are needed. The first is the one that the targets speak of: Debian's, where
    it is installed."""
    torches = {}
    for python in given or interpreters_with("torch", *needs):
        if given and not has(python, "torch", *needs):
            raise SystemExit(f"--torch {python}: has no {' or no '.join(('torch', *needs))}")
        torch = Torch(python)
        torches.setdefault(torch.version, torch)
    return list(torches.values())
