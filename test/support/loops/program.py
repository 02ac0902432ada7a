"""Random training loops as plain data: what ranks do, in which order, with which gradients.

A program is a dict that can be printed, replayed and made smaller:

    params      [{"frozen": bool, "kind": "float32" | "complex64" | "view" | "sparse"}]
    optimizers  [{"params": [number], "momentum": float, "options": {...}}]
    ops         [[name, ...]], see the methods of front ends (ranks.py) and of Expected

A "backward" has, for each rank, the parameters that this rank's loss uses and their coefficients,
and the optimizers inside whose no_sync() it runs. All else is done by all ranks alike.
"""

import random

KINDS = ("float32", "float32", "float32", "complex64", "view", "sparse")


def random_program(seed: int, ranks: int, kinds: tuple[str, ...] = KINDS) -> dict:
    chance = random.Random(seed)
    count = chance.randint(2, 4)
    params = [{"frozen": chance.random() < 0.1, "kind": chance.choice(kinds)}
              for _ in range(count)]
    optimizers = _optimizers(chance, params)
    ops = []
    for _ in range(chance.randint(2, 4)):
        ops += _step(chance, ranks, params, optimizers)
    return {"seed": seed, "ranks": ranks, "params": params, "optimizers": optimizers, "ops": ops}


def _optimizers(chance, params):
    numbers = list(range(len(params)))
    cuts = sorted(chance.sample(numbers[1:], chance.randint(0, min(2, len(numbers) - 1))))
    parts = [numbers[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(numbers)])]
    optimizers = []
    for part in parts:
        kinds = [params[number]["kind"] for number in part]
        momentum = 0 if "sparse" in kinds else chance.choice((0, 0, 0.5))
        optimizers.append({"params": part, "momentum": momentum,
                           "options": _options(chance, kinds)})
    return optimizers


def _options(chance, kinds):
    options = {}
    if chance.random() < 0.3:
        options["op"] = "Sum"
    elif chance.random() < 0.2:
        options["gradient_predivide_factor"] = 2.0
    if chance.random() < 0.4:
        options["backward_passes_per_step"] = chance.randint(1, 3)
    if chance.random() < 0.3:
        options["average_aggregated_gradients"] = True
    if chance.random() < 0.5:
        options["num_groups"] = chance.randint(1, 2)
    if chance.random() < 0.3:
        options["gradient_as_bucket_view"] = False
    if chance.random() < 0.2:
        options["overlap_step"] = True
    elif chance.random() < 0.2 and not {"complex64", "sparse"} & set(kinds):
        options["clip_grad_norm"] = 2.0
        options["clip_when"] = chance.choice(("after", "before"))
    return options


def _backward(chance, ranks, params, optimizers):
    hold = [number for number in range(len(optimizers)) if chance.random() < 0.3]
    uses = []
    alike = chance.random() < 0.3
    for _ in range(ranks):
        uses.append(uses[0] if alike and uses else
                    {str(number): chance.randint(1, 4) for number in range(len(params))
                     if chance.random() < 0.7})
    return ["backward", hold, uses]


def _step(chance, ranks, params, optimizers):
    ops = []
    if chance.random() < 0.2:
        ops.append(["freeze", chance.randrange(len(params)), chance.random() < 0.5])
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
        ops.append(_backward(chance, ranks, params, optimizers))
        if chance.random() < 0.05:
            ops.append(["fail"])
        if chance.random() < 0.05:
            ops.append(["evaluate"])
    if chance.random() < 0.15:
        ops.append(["freeze", chance.randrange(len(params)), chance.random() < 0.7])
    for number in range(len(optimizers)):
        draw = chance.random()
        clips = "clip_grad_norm" in optimizers[number]["options"]
        if draw < 0.1:
            ops.append(["scaled_step", number])
        elif draw < 0.2 and not clips:
            ops.append(["synchronize", number])
            if chance.random() < 0.5:
                ops.append(_backward(chance, ranks, params, optimizers))
            ops.append(["step", number])
        elif draw < 0.25:
            ops.append(["rebuild", number])
            ops.append(_backward(chance, ranks, params, optimizers))
            ops.append(["step", number])
        elif draw < 0.27:
            ops.append(["copy"])
            ops.append(_backward(chance, ranks, params, optimizers))
            ops.append(["step", number])
        else:
            ops.append(["step", number])
    return ops


def readable(program: dict) -> str:
    lines = [f"seed {program['seed']}, {program['ranks']} ranks"]
    for number, param in enumerate(program["params"]):
        lines.append(f"p{number} = {param['kind']}{', frozen' if param['frozen'] else ''}")
    for number, optimizer in enumerate(program["optimizers"]):
        of = ", ".join(f"p{each}" for each in optimizer["params"])
        options = "".join(f", {key}={value!r}" for key, value in optimizer["options"].items())
        lines.append(f"o{number} = DistributedOptimizer(SGD([{of}], lr=1, "
                     f"momentum={optimizer['momentum']}){options})")
    for name, *rest in program["ops"]:
        if name == "backward":
            hold, uses = rest
            losses = [" + ".join(f"{factor}*p{number}" for number, factor in use.items()) or "0"
                      for use in uses]
            within = f" inside no_sync() of {', '.join(f'o{each}' for each in hold)}" if hold else ""
            lines.append("backward of " + " | ".join(losses) + within)
        else:
            lines.append(" ".join([name, *map(str, rest)]))
    return "\n".join(lines)


def smaller(program: dict):
    """Programs with a little less in them."""
    for place in range(len(program["ops"])):
        yield {**program, "ops": program["ops"][:place] + program["ops"][place + 1:]}
    for number, optimizer in enumerate(program["optimizers"]):
        for key in optimizer["options"]:
            less = {name: value for name, value in optimizer["options"].items() if name != key}
            changed = [*program["optimizers"]]
            changed[number] = {**optimizer, "options": less}
            yield {**program, "optimizers": changed}
        if optimizer["momentum"]:
            changed = [*program["optimizers"]]
            changed[number] = {**optimizer, "momentum": 0}
            yield {**program, "optimizers": changed}
    for number, param in enumerate(program["params"]):
        if param["kind"] != "float32" or param["frozen"]:
            changed = [*program["params"]]
            changed[number] = {"frozen": False, "kind": "float32"}
            yield {**program, "params": changed}
    for place, op in enumerate(program["ops"]):
        if op[0] != "backward":
            continue
        for rank, use in enumerate(op[2]):
            for number in use:
                less = [*op[2]]
                less[rank] = {key: value for key, value in use.items() if key != number}
                yield {**program, "ops": [*program["ops"][:place], ["backward", op[1], less],
                                          *program["ops"][place + 1:]]}
        if op[1]:
            yield {**program, "ops": [*program["ops"][:place], ["backward", [], op[2]],
                                      *program["ops"][place + 1:]]}
