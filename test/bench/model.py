#!/usr/bin/env python3
"""Training steps against PyTorch's on this machine, and what training needs beside: the targets.

    model.py [--quick] [--json FILE] [--readme] [--build FOLDER] [--torch PYTHON]...

--torch     an interpreter with PyTorch, several times for several. The first is the one that the
            targets speak of. Without it: those of /usr/bin/python3, build/torch* and build/tf*
--json      the targets: an array with the keys what, unit, ours, theirs, ratio, target, met, peer,
            beside (the other PyTorches)
"""

import pathlib

import model_parts
import report
from model_peers import Plan, Together, Trainer, all_steps, all_torches, in_turn
from report import CORES, launch, row

# A model and our peer's ways to train it.
VGG11 = ("vgg11", ("vgg11", "vgg11/foreach", "vgg11/foreach/channels_last"))
RESNET18 = ("resnet18", ("resnet18", "resnet18/foreach", "resnet18/foreach/channels_last"))
MLP = ("mlp", ("mlp", "mlp/foreach"))
BF16 = ("vgg11_bf16", ("vgg11/bf16", "vgg11/bf16/foreach/channels_last"))
# Turns.
TURNS = {"vgg11": 6, "vgg11_bf16": 6, "resnet18": 4, "mlp": 15}
RANKS_TURNS = {"vgg11": 8, "mlp": 20}


def has_amx():
    return "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text()


def alone(program, torches, plan):
    """Milliseconds of CPU time of a step by (whose, way), one core."""
    trainers = {"ours": Trainer([program]), **{torch: torch.start() for torch in torches}}
    medians = {}
    for model, ways in (VGG11, RESNET18, MLP, *([BF16] if has_amx() else [])):
        cases = [("ours", model), *((torch, way) for torch in torches for way in ways)]
        medians |= in_turn(trainers, cases, plan.steps(model), plan.turns(TURNS[model]),
                           lambda answer: answer["ms"])
    for trainer in trainers.values():
        trainer.end()
    return medians


def two_ranks(program, torches, plan):
    """Milliseconds of the wall's clock of a step by (whose, way): two processes that do not know of
    each other ("alone"), two ranks ("ours"), two of DistributedDataParallel."""
    if len(CORES) < 2:
        return {}
    # A rank waits for the next question as long as the others train: nothing stalls.
    ranks = Trainer([*launch(2), program, "--ranks"], core=None, HOROVOD_STALL_CHECK_DISABLE="1")
    trainers = {"alone": Together([Trainer([program], core=core) for core in CORES[:2]]),
                "ours": Together([ranks]), **{torch: torch.start_ddp() for torch in torches}}
    medians = {}
    for model, ways in (VGG11, MLP):
        cases = [("alone", model), ("ours", model),
                 *((torch, way) for torch in torches for way in ways)]
        medians |= in_turn(trainers, cases, plan.steps(model),
                           plan.turns(RANKS_TURNS[model]), all_steps)
    for trainer in trainers.values():
        trainer.end()
    return medians


def peak(trainer, plan):
    """MiB of a process that trained nothing but this."""
    answer = trainer.train("vgg11", plan.steps("vgg11"))
    trainer.end()
    return answer["peak"]


def against(torches, medians, what, target, ways, model=None, unit="ms"):
    """A row: our step against the fastest of these ways of the first PyTorch."""
    ours = medians.get(("ours", model or ways[0]))
    fastest = {torch: min((medians[torch, way] for way in ways if (torch, way) in medians),
                          default=None) for torch in torches}
    first = torches[0] if torches else None
    return row(what, unit, ours, fastest.get(first), target,
               first.label if first else "PyTorch: absent", "ratio",
               [(torch.name, fastest[torch]) for torch in torches[1:]])


def bf16_rows(torches, medians):
    what = "VGG-11, step bf16"
    if not has_amx():
        peer = "not measured: this CPU has no AMX"
        return [row(f"{what}, against ours f32", "ms", None, None, 0.65, peer, "ratio"),
                row(f"{what}, against PyTorch's", "ms", None, None, 0.8, peer, "ratio")]
    return [row(f"{what}, against ours f32", "ms", medians["ours", "vgg11_bf16"],
                medians["ours", "vgg11"], 0.65, "our f32 step", "ratio"),
            against(torches, medians, f"{what}, against PyTorch's", 0.8, BF16[1], BF16[0])]


def step_rows(torches, medians):
    return [
        against(torches, medians, "VGG-11 + BatchNorm, 32x32, batch 32, step f32", 0.70, VGG11[1][:1]),
        against(torches, medians, "the same, PyTorch's fastest (foreach, channels_last)", 0.80,
                VGG11[1]),
        against(torches, medians, "ResNet-18, 32x32, batch 32, step f32", 0.85, RESNET18[1]),
        against(torches, medians, "MLP 784-256-256-10, batch 64, step with SGD momentum", 0.65, MLP[1]),
        *bf16_rows(torches, medians),
    ]


def rank_rows(torches, medians):
    rows = []
    for model, name, efficiency, ratio in (("vgg11", "VGG-11", 0.96, 0.65), ("mlp", "MLP", 0.88, 0.3)):
        kept = report.divided(medians.get(("alone", model)), medians.get(("ours", model)))
        rows += [row(f"2 ranks on 2 cores, {name}: scaling efficiency", "of one rank", kept, None,
                     efficiency, "one rank on one core, the other core as busy", "least"),
                 against(torches, medians, f"2 ranks on 2 cores, {name}: step, PyTorch DDP over gloo",
                         ratio, [model])]
    return rows


def peak_row(program, torches, plan):
    theirs = [(torch, peak(torch.start(), plan)) for torch in torches]
    return row("peak resident memory of the VGG-11 process", "MiB", peak(Trainer([program]), plan),
               theirs[0][1] if theirs else None, 1.0,
               theirs[0][0].label if theirs else "PyTorch: absent", "ratio",
               [(torch.name, value) for torch, value in theirs[1:]])


def main():
    given = report.options(__doc__.splitlines()[0], "torch")
    folder, plan = given.build / "test/bench", Plan(given.mode)
    program, torches = folder / "model_bench", all_torches(given.torch)
    rows = [*step_rows(torches, alone(program, torches, plan)),
            *model_parts.update_rows(folder / "optim_bench", plan),
            model_parts.loader_row(folder / "data_bench", plan),
            peak_row(program, torches, plan),
            *rank_rows(torches, two_ranks(program, torches, plan))]
    peers = "; ".join(torch.label for torch in torches) or "none, PyTorch is absent"
    text = "\n".join([
        f"One core of {report.machine()}. "
        f"Peers: {peers}. Medians: of CPU time, and with 2 ranks of the wall's clock.", "",
        *report.target_table(rows)])
    report.deliver(given, "model", text, rows)


if __name__ == "__main__":
    main()
