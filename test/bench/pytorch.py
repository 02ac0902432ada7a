#!/usr/bin/env python3
"""horovod_cpp.torch against PyTorch's DistributedDataParallel over gloo, and Horovod if it is there.

    pytorch.py [--quick] [--json FILE] [--readme] [--wheel FILE] [--torch PYTHON]...

--torch     an interpreter with PyTorch and cloudpickle, several times for several. Without it: those
            of build/torch* and build/tf*
--wheel     of this package, which the interpreters need not have; without it that in build/wheel
--json      the targets: an array with the keys what, unit, ours, theirs, ratio, target, met, peer,
            beside (Horovod)
"""

import report
from model_peers import Plan, all_steps, all_torches, in_turn, slowest
from report import CORES, divided, row

TURNS = {"vgg11": 8, "resnet18": 5, "mlp": 20}
NAMES = {"vgg11": "VGG-11, batch 32", "resnet18": "ResNet-18, batch 32",
         "mlp": "MLP 784-256-256-10, batch 64"}
# Reductions by bytes: their name, and how many a turn.
SIZES = {1 << 10: ("1 KiB", 200), 1 << 20: ("1 MiB", 40), 1 << 26: ("64 MiB", 3)}
SIZE_TURNS = 12


def measure(torch, site, plan):
    """Medians of milliseconds by the wall's clock, by (whose, what). Whose: two processes "alone",
    two ranks of "ours", "ddp" or "horovod", "one" rank of ours."""
    ranks = {"ours": torch.start_hvd(site), "ddp": torch.start_ddp()}
    if torch.horovod:
        ranks["horovod"] = torch.start_horovod()
    trainers = {"alone": torch.start_alone(), "one": torch.start_hvd(site, ranks=1), **ranks}
    medians = {}
    for model, turns in TURNS.items():
        cases = [(whose, model) for whose in ("alone", *ranks)]
        medians |= in_turn(trainers, cases, plan.steps(model), plan.turns(turns), all_steps)
    for size, (_, times) in SIZES.items():
        cases = [(whose, f"allreduce/{size}") for whose in ranks]
        times = 1 if plan.mode == "smoke" else times
        medians |= in_turn(trainers, cases, times, plan.turns(SIZE_TURNS), slowest)
    medians |= in_turn(trainers, [("one", "vgg11"), ("one", "vgg11/plain")], plan.steps("vgg11"),
                       plan.turns(TURNS["vgg11"]), all_steps)
    for trainer in trainers.values():
        trainer.end()
    return medians


class Rows:
    """What was measured with one PyTorch, against the targets."""

    def __init__(self, torch, medians, suffix):
        self._torch, self._medians, self._suffix = torch, medians, suffix

    def _row(self, what, unit, of, target, compare):
        """``of(whose)``: what was measured of "ours", "ddp" and "horovod"."""
        beside = [("Horovod", of("horovod"))] if self._torch.horovod else []
        return row(what + self._suffix, unit, of("ours"), of("ddp"), target,
                   f"DDP over gloo, {self._torch.label}", compare, beside)

    def step(self, model, target):
        return self._row(f"{NAMES[model]}: step of 2 ranks", "ms",
                         lambda whose: self._medians[whose, model], target, "ratio")

    def efficiency(self, model, target):
        return self._row(f"{NAMES[model]}: scaling efficiency", "of one rank", lambda whose: divided(
            self._medians["alone", model], self._medians[whose, model]), target, "least")

    def latency(self, size, target, compare):
        return self._row(f"allreduce_ of {SIZES[size][0]}", "us",
                         lambda whose: 1e3 * self._medians[whose, f"allreduce/{size}"], target, compare)

    def overhead(self):
        return row(f"{NAMES['vgg11']}: step of one rank{self._suffix}", "ms",
                   self._medians["one", "vgg11"], self._medians["one", "vgg11/plain"], 1.02,
                   f"the same process without DistributedOptimizer, {self._torch.label}", "ratio")

    def all(self):
        small, middle, large = SIZES
        return [self.latency(small, 40, "ours"), self.latency(middle, 1.0, "ratio"),
                self.latency(large, 0.45, "ratio"), self.efficiency("vgg11", 0.94),
                self.step("vgg11", 1.0), self.efficiency("resnet18", 0.94),
                self.step("resnet18", 1.0), self.step("mlp", 0.45), self.overhead()]


def main():
    given = report.options(__doc__.splitlines()[0], "wheel", "torch")
    if len(CORES) < 2:
        raise SystemExit("two ranks want two cores")
    torches = all_torches(given.torch, "cloudpickle")
    if not torches:
        raise SystemExit("no interpreter with torch and cloudpickle; name one with --torch")
    rows = []
    with report.unpacked(given.wheel) as site:
        for number, torch in enumerate(torches):
            suffix = f", {torch.name}" if number > 0 else ""
            rows += Rows(torch, measure(torch, site, Plan(given.mode)), suffix).all()
    text = "\n".join([
        f"{report.machine()}. Peers: "
        f"{'; '.join(torch.label for torch in torches)}; Horovod: "
        f"{'; '.join(torch.horovod or 'absent' for torch in torches)}. "
        "Medians of the wall's clock, 2 ranks on 2 cores.", "", *report.target_table(rows)])
    report.deliver(given, "torch", text, rows)


if __name__ == "__main__":
    main()
