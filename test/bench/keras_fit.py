#!/usr/bin/env python3
"""horovod_cpp.tensorflow and horovod_cpp.keras against one process, the engine and TensorFlow's own strategy.

    keras_fit.py [--quick] [--json FILE] [--readme] [--wheel FILE]

The interpreter is the first that has TensorFlow and Keras 3, which build/tf has.

--wheel     of this package, which the interpreter need not have; without it that in build/wheel
--json      the targets: an array with the keys what, unit, ours, theirs, ratio, target, met, peer,
            beside
"""

import report
from model_peers import Interpreter, Plan, all_steps, in_turn, slowest
from report import CORES, divided, interpreters_with, markdown, row

NAMES = {"mlp": "Keras MLP 784-256-256-10, batch 64", "cnn": "Keras CNN of two convolutions, 28x28, batch 64"}
STEPS = {"mlp": 100, "cnn": 25}  # a turn
TURNS = {"mlp": 16, "cnn": 8}
# Reductions by bytes: their name, and how many a turn.
SIZES = {1 << 10: ("1 KiB", 200), 1 << 20: ("1 MiB", 40), 1 << 26: ("64 MiB", 3)}
SIZE_TURNS = 12
WAYS = {"eager": "eager", "graph": "tf.function", "inside": "inside a tf.function",
        "apart": "NumPy array, new result", "raw": "NumPy array in place"}
STRATEGY = "MultiWorkerMirroredStrategy"


def measure(python, site, plan):
    """Medians of milliseconds by the wall's clock, by (whose, what). Whose: two processes "alone", two
    ranks of "ours" or of TensorFlow's strategy ("mwms"), "one" rank of ours."""
    trainers = {"alone": python.start_alone(), "ours": python.start_hvd(site),
                "mwms": python.start_on_each_core("--mwms"), "one": python.start_hvd(site, ranks=1)}
    medians = {}

    def add(cases, times, turns, times_of):
        nonlocal medians
        medians |= in_turn(trainers, cases, 1 if plan.mode == "smoke" else times, plan.turns(turns),
                           times_of)

    for size, (_, times) in SIZES.items():
        add([*(("ours", f"allreduce/{size}/{way}") for way in WAYS), ("mwms", f"allreduce/{size}/graph")],
            times, SIZE_TURNS, slowest)
    for model in NAMES:
        add([(whose, model) for whose in ("alone", "ours", "mwms")], STEPS[model], TURNS[model], all_steps)
    add([("one", "mlp"), ("one", "mlp/plain")], STEPS["mlp"], TURNS["mlp"], all_steps)
    for trainer in trainers.values():
        trainer.end()
    return medians


def target_rows(medians):
    def call(size, way, target, compare):
        ours, raw, apart, theirs = (1e3 * medians[whose, f"allreduce/{size}/{each}"] for whose, each in
                                    (("ours", way), ("ours", "raw"), ("ours", "apart"), ("mwms", "graph")))
        return row(f"allreduce of {SIZES[size][0]}, {WAYS[way]}", "us", ours, raw, target,
                   "the engine, NumPy array in place", compare,
                   [(f"the engine, {WAYS['apart']}", apart), (STRATEGY, theirs)])

    def step(model, target):
        return row(f"{NAMES[model]}: step of 2 ranks", "ms", medians["ours", model],
                   medians["alone", model], target, "one process on one core, the other core as busy",
                   "ratio", [(f"{STRATEGY}, no fit()", medians["mwms", model])])

    small, _, large = SIZES
    return [call(small, "inside", 60, "ours"), call(large, "inside", 1.3, "ratio"), step("mlp", 1.4),
            row(f"{NAMES['mlp']}: step of one rank", "ms", medians["one", "mlp"],
                medians["one", "mlp/plain"], 1.02, "the same process without DistributedOptimizer", "ratio")]


def tables(medians):
    calls = []
    for size, (name, _) in SIZES.items():
        times = [1e3 * medians["ours", f"allreduce/{size}/{way}"] for way in WAYS]
        calls.append([name, *times, 1e3 * medians["mwms", f"allreduce/{size}/graph"]])
    steps = []
    for model, name in NAMES.items():
        alone, ours, theirs = (medians[whose, model] for whose in ("alone", "ours", "mwms"))
        steps.append([name, alone, ours, divided(ours, alone), theirs, divided(theirs, alone)])
    return ["### A blocking allreduce of 2 ranks: median, us", "",
            *markdown(["bytes", *WAYS.values(), STRATEGY], calls),
            "### A step of 2 ranks: median, ms", "",
            *markdown(["model", "one process", "ours", "ratio", f"{STRATEGY}, no fit()", "ratio"], steps)]


def main():
    given = report.options(__doc__.splitlines()[0], "wheel")
    found = next(interpreters_with("tensorflow", "keras"), None)
    if len(CORES) < 2 or found is None:
        raise SystemExit("two ranks want two cores, and an interpreter with tensorflow and keras")
    python = Interpreter(found, report.BENCH / "model_keras.py")
    with report.unpacked(given.wheel) as site:
        medians = measure(python, site, Plan(given.mode))
    rows = target_rows(medians)
    text = "\n".join([
        f"{report.machine()}. TensorFlow {python.about['tensorflow']}, Keras {python.about['keras']}. "
        "Medians of the wall's clock, 2 ranks on 2 cores.", "",
        *report.target_table(rows), *tables(medians)])
    report.deliver(given, "tensorflow", text, rows)


if __name__ == "__main__":
    main()
