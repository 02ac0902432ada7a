"""A training loop as plain data.

    front       "torch", "own", "own_ddp" or "torch_ddp": through what it runs
    ranks       how many there are
    params      [{"shape", "kind", "start"}]; kind: a dtype, or "view", "transposed", "sparse"
    optimizers  [{"params": numbers, "optimizer": "sgd", ..., "options": of DistributedOptimizer}]
    ops         [{"do": name, ...}], the same on all ranks; in "uses" each rank has a list of
                [parameter, coefficient] of its own, and an empty list is a rank without backward()

A pass adds `coefficient * weights(shape)` to the gradient of a parameter, times the parameter itself
over 16 if it is "square". Numbers are small and whole, so that most sums are exact.
"""

import numpy

KINDS = ("float64", "float32", "half", "complex", "view", "transposed", "sparse")


def weights(shape):
    """What the gradient of a parameter is for coefficient 1: another number for each element."""
    return numpy.arange(1, numpy.prod(shape, dtype=int) + 1, dtype=float).reshape(shape)


def complex_weights(shape):
    return weights(shape) * (1 + 2j)


def rows_of(coefficient, shape):
    """The rows of an embedding that a pass looks up, one of them twice."""
    return [abs(coefficient) % shape[0], (abs(coefficient) + 1) % shape[0],
            abs(coefficient) % shape[0]]


def gradient(param, coefficient, square, value):
    shape = param["shape"]
    if param["kind"] == "complex":
        return coefficient * complex_weights(shape)
    if param["kind"] == "sparse":
        result = numpy.zeros(shape)
        for row in rows_of(coefficient, shape):
            result[row] += coefficient * weights(shape)[row]
        return result
    return coefficient * weights(shape) * (value / 16 if square else 1.0)


def start_of(param):
    dtype = complex if param["kind"] == "complex" else float
    return numpy.full(param["shape"], param["start"], dtype=dtype)


def listing(program):
    """The program as a person would write it."""
    names = "abcdefgh"
    lines = [f"# {program['front']}, {program['ranks']} ranks; SGD has lr 1"]
    for number, param in enumerate(program["params"]):
        lines.append(f"{names[number]} = parameter({param['kind']}, {param['shape']}, "
                     f"start={param['start']})")
    for number, each in enumerate(program["optimizers"]):
        options = "".join(f", {key}={value!r}" for key, value in each["options"].items())
        lines.append(f"o{number} = {each['optimizer']}({_few(each['params'], names)}{options})")
    return "\n".join(lines + [_line(op, names) for op in program["ops"]])


def _few(numbers, names):
    return "[" + ", ".join(names[number] for number in numbers) + "]"


def _loss(op, names):
    def of(uses):
        terms = [f"{c}*{names[p]}{'**2/32' if op.get('square') else ''}" for p, c in uses]
        return " + ".join(terms) or "nothing"

    losses = [of(uses) for uses in op["uses"]]
    if all(loss == losses[0] for loss in losses):
        return f"({losses[0]}).backward()"
    return "; ".join(f"rank {r}: ({loss}).backward()" for r, loss in enumerate(losses))


def _line(op, names):
    do, own = op["do"], f"o{op.get('opt', 0)}"
    if do == "backward":
        held = "".join(f"with o{number}.no_sync(): " for number in op["hold"])
        return held + _loss(op, names)
    if do == "fail":
        return f"try: {_loss(op, names)}, which raises in term {op['at']}; then zero_grad()s"
    if do == "closure":
        return f"{own}.step(lambda: zero_grad(), {_loss(op, names)})"
    if do in ("freeze", "thaw"):
        return f"{_few(op['params'], names)}.requires_grad_({do == 'thaw'})"
    if do == "add_group":
        return f"{own}.add_param_group({_few(op['params'], names)})"
    rest = ", ".join(f"{key}={value!r}" for key, value in op.items() if key not in ("do", "opt"))
    return f"{own}.{do}({rest})" if "opt" in op else f"{do}({rest})"
