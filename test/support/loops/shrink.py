"""Makes a failing program small: leaves out what it fails without."""

import copy
import time

from loops.jobs import run_programs
from loops.oracle import Ambiguous, expected_of
from loops.verdict import fault_of

_SAME = {"wrong": "silent", "diverged": "silent"}
_STALL = 3  # seconds


def shrunk(program, fault, seconds=90):
    """The smallest program that was found to fail alike, and its fault."""
    end = time.monotonic() + seconds
    again = True
    while again and time.monotonic() < end:
        again = False
        tried = [each for each in _smaller(program) if _is_meant(each)]
        for candidate, reports in run_programs(tried, stall=_STALL):
            found = fault_of(candidate, reports)
            if found and _kind(found) == _kind(fault):
                program, fault, again = candidate, found, True
                break
            if time.monotonic() > end:
                break
    return program, fault


def _kind(fault):
    return _SAME.get(fault.kind, fault.kind)


def _is_meant(program):
    try:
        expected_of(program)
    except Ambiguous:
        return False
    return bool(program["ops"])


def _smaller(program):
    """Programs with a little less, those with much less first."""
    ops = program["ops"]
    for size in (len(ops) // 2, len(ops) // 4, 1):
        if size:
            for first in range(0, len(ops), size):
                yield {**program, "ops": ops[:first] + ops[first + size:]}
    for number in range(len(program["params"])):
        if len(program["params"]) > 1:
            yield _without_param(program, number)
    for number, each in enumerate(program["optimizers"]):
        for option in each["options"]:
            less = copy.deepcopy(program)
            del less["optimizers"][number]["options"][option]
            yield less
        if each["optimizer"] != "sgd":
            less = copy.deepcopy(program)
            less["optimizers"][number]["optimizer"] = "sgd"
            yield less
    yield from _simpler_params(program)
    yield from _simpler_ops(program)
    if program["ranks"] > 2:
        less = copy.deepcopy(program)
        less["ranks"] -= 1
        for op in less["ops"]:
            if "uses" in op:
                del op["uses"][-1]
        yield less


def _simpler_params(program):
    for number, param in enumerate(program["params"]):
        for simple in ({"shape": [1], "kind": "float64"}, {"kind": "float64"}, {"start": 0}):
            if any(param[key] != value for key, value in simple.items()):
                less = copy.deepcopy(program)
                less["params"][number].update(simple)
                yield less


def _simpler_ops(program):
    for place, op in enumerate(program["ops"]):
        for key, value in (("square", False), ("none", True), ("hold", [])):
            if key in op and op[key] != value:
                less = copy.deepcopy(program)
                less["ops"][place][key] = value
                yield less
        for rank, uses in enumerate(op.get("uses", [])):
            for use in range(len(uses)):
                less = copy.deepcopy(program)
                del less["ops"][place]["uses"][rank][use]
                yield less
                if uses[use][1] != 1:
                    less = copy.deepcopy(program)
                    less["ops"][place]["uses"][rank][use][1] = 1
                    yield less


def _without_param(program, gone):
    less = copy.deepcopy(program)

    def renumbered(numbers):
        return [number - (number > gone) for number in numbers if number != gone]

    del less["params"][gone]
    for each in less["optimizers"]:
        each["params"] = renumbered(each["params"])
    kept = [number for number, each in enumerate(less["optimizers"]) if each["params"]]
    less["optimizers"] = [less["optimizers"][number] for number in kept]
    ops = []
    for op in less["ops"]:
        if "params" in op:
            op["params"] = renumbered(op["params"])
        if "uses" in op:
            op["uses"] = [[[p - (p > gone), c] for p, c in uses if p != gone]
                          for uses in op["uses"]]
        if "hold" in op:
            op["hold"] = [kept.index(number) for number in op["hold"] if number in kept]
        if "opt" in op:
            if op["opt"] not in kept:
                continue
            op["opt"] = kept.index(op["opt"])
        if op.get("params", [0]):
            ops.append(op)
    less["ops"] = ops
    return less
