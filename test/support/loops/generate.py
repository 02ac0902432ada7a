"""Draws programs: what is common often, what is rare often enough to meet each other."""

import itertools
import random

from loops.oracle import Ambiguous, expected_of

FRONTS = ("torch", "own", "own_ddp", "torch_ddp")
_OWN_KINDS = ("float64", "float32")
_TORCH_KINDS = ("float64", "float32", "half", "complex", "view", "transposed", "sparse")


def program_of(front, ranks, seed, number):
    """The program of that number: another one for each number, the same at each call."""
    for attempt in itertools.count():
        draw = random.Random(f"{front} {ranks} {seed} {number} {attempt}")
        program = _Draft(draw, front, ranks).program()
        try:
            expected_of(program)
        except Ambiguous:
            continue
        return program


class _Draft:
    def __init__(self, draw, front, ranks):
        self.draw, self.front, self.ranks = draw, front, ranks
        self.ddp = front.endswith("ddp")
        self.ops = []

    def chance(self, probability):
        return self.draw.random() < probability

    def program(self):
        draw = self.draw
        count = draw.randint(1, 4)
        self.params = [self._param() for _ in range(count)]
        several = 1 if self.ddp or count == 1 else draw.choice([1, 1, 1, 2, 2, min(3, count)])
        owners = list(range(several)) + [draw.randrange(several) for _ in range(count - several)]
        draw.shuffle(owners)
        self.late = [0] if count > 1 and not self.ddp and self.chance(0.08) else []
        if self.late and owners.count(owners[0]) == 1:
            self.late = []
        self.optimizers = [self._optimizer([p for p in range(count) if owners[p] == number])
                           for number in range(several)]
        self.late_owner = owners[0]
        self.frozen = set()
        for _ in range(draw.randint(1, 4)):
            self._round()
        return {"front": self.front, "ranks": self.ranks, "params": self.params,
                "optimizers": self.optimizers, "ops": self.ops}

    def _param(self):
        draw = self.draw
        kinds = _TORCH_KINDS if self.front == "torch" else (
            (*_OWN_KINDS, "sparse") if self.front == "own" else _OWN_KINDS)
        kind = "float64" if self.chance(0.7) else draw.choice(kinds)
        shape = [3, 2] if kind in ("sparse", "transposed", "view") else draw.choice([[1], [3], [2, 2]])
        return {"shape": shape, "kind": kind, "start": draw.choice([0, 0, 1, 3])}

    def _optimizer(self, params):
        draw, options = self.draw, {}
        of_params = {self.params[p]["kind"] for p in params}
        kinds = ["sgd", "sgd", "sgd", "momentum", "momentum", "adam", "adagrad"]
        if not of_params.isdisjoint(("sparse", "complex", "half")):
            rows = "sparse" in of_params and "half" not in of_params  # Adagrad of 1.13 takes no half
            kinds = ["sgd", "sgd", "sgd", "adagrad" if rows else "sgd"]
        kind = draw.choice(kinds)
        if self.front == "torch_ddp":
            options = {"gradient_as_bucket_view": self.chance(0.5)}
        elif self.front == "own_ddp":
            if self.chance(0.3):
                options["gradient_as_bucket_view"] = False
            if self.chance(0.3):
                options["bucket_cap_mb"] = draw.choice([0.00001, 0.00003, 25])
        else:
            self._options(options, params, kind)
        return {"params": [p for p in params if p not in self.late], "optimizer": kind,
                "options": options}

    def _options(self, options, params, kind):
        draw = self.draw
        if self.chance(0.35):
            options["backward_passes_per_step"] = draw.choice([2, 2, 3])
        if self.chance(0.25):
            options["average_aggregated_gradients"] = True
        if self.chance(0.2):
            options["op"] = "Sum"
        elif self.chance(0.1):
            options["gradient_predivide_factor"] = draw.choice([2.0, 0.5])
        if self.chance(0.2):
            options["gradient_as_bucket_view"] = False
        halves = any(self.params[p]["kind"] == "half" for p in params)  # PyTorch 1.13 clips none
        if self.chance(0.15) and not halves:
            options["clip_grad_norm"] = draw.choice([2.0, 100.0])
            options["clip_when"] = draw.choice(["before", "after"])
        elif self.chance(0.15):
            options["overlap_step"] = True
        if self.chance(0.15):
            options["groups"] = draw.choice([1, 2, len(params)])
        if kind in ("sgd", "momentum") and self.chance(0.08):
            options["compression"] = "fp16"
        if self.chance(0.3) and any(self.params[p]["kind"] == "sparse" for p in params):
            options["sparse_as_dense"] = True

    # -- operations

    def _do(self, name, **rest):
        self.ops.append({"do": name, **rest})

    def _usable(self):
        return [p for each in self.optimizers for p in each["params"]] + [
            p for p in self.late if any(op["do"] == "add_group" for op in self.ops)]

    def _uses(self, usable=None):
        """Of each rank; sometimes the same for all."""
        usable = self._usable() if usable is None else usable
        alike, habit = self.chance(0.35), self.draw.choice([0.5, 0.8, 1.0])
        chosen = [p for p in usable if self.chance(habit)] or usable[:1]
        result = []
        for _ in range(self.ranks):
            if not alike:
                chosen = [p for p in usable if self.chance(habit)]
            if self.ddp and not chosen:
                chosen = usable[:1]
            order = list(chosen)
            if self.chance(0.2):
                self.draw.shuffle(order)
            uses = [[p, self._factor(p)] for p in order]
            if uses and self.chance(0.05):
                uses.append(list(uses[0]))  # a tied parameter
            result.append(uses)
        return result

    def _factor(self, param):
        """Of one sign where an optimizer divides by the size of gradients: what is left of a sum that
        is zero would be made large."""
        divides = any(each["optimizer"] in ("adam", "adagrad") for each in self.optimizers
                      if param in each["params"])
        return self.draw.choice([1, 2, 3, 4] if divides else [-3, -2, -1, 1, 2, 3, 4])

    def _backward(self, hold=(), uses=None):
        uses = [[list(use) for use in each] for each in uses or self._uses()]
        self._do("backward", uses=uses, hold=list(hold), square=self.chance(0.2))

    def _each(self):
        return range(len(self.optimizers))

    def _round(self):
        """A step of every optimizer, with what happens before, in and behind it."""
        self._between()
        if self.front == "torch" and self.chance(0.08):
            opt = self.draw.randrange(len(self.optimizers))
            return self._do("closure", opt=opt, square=self.chance(0.2),
                            uses=self._uses(self.optimizers[opt]["params"]))
        for opt in self._each():
            if not self.chance(0.05):
                self._do("zero_grad", opt=opt, none=self.chance(0.7))
        self._passes()
        if self.chance(0.1):
            self._toggle()
        order = list(self._each())
        self.draw.shuffle(order)
        for opt in order:
            if not self.chance(0.04):
                self._step(opt)

    def _passes(self):
        wanted = 1 if self.ddp else max(
            each["options"].get("backward_passes_per_step", 1) for each in self.optimizers)
        count = max(1, wanted + self.draw.choice([0, 0, 0, 0, -1, 1, 1, 2]))
        uses = self._uses() if self.chance(0.3) else None  # the same in all passes
        for place in range(count):
            hold = ()
            if self.chance(0.25) and (place < count - 1 or self.chance(0.2)):
                hold = [opt for opt in self._each() if self.ddp or self.chance(0.8)]
            self._backward(hold, uses)
            if place < count - 1 and not self.ddp and self.chance(0.1):
                self._do("synchronize", opt=self.draw.randrange(len(self.optimizers)))
            if self.chance(0.03):
                self._do("eval")

    def _step(self, opt):
        if self.ddp or self.chance(0.8):
            if not self.ddp and self.chance(0.15):
                self._do("synchronize", opt=opt)
                if self.chance(0.5):
                    self._backward()
            self._do("step", opt=opt)
        else:
            self._do("scaled_step", opt=opt, how=self.draw.choice(["scale", "clip"]))

    def _toggle(self):
        usable = self._usable()
        param = self.draw.choice(usable)
        self._do("thaw" if param in self.frozen else "freeze", params=[param])
        self.frozen ^= {param}

    def _between(self):
        draw, opt = self.draw, self.draw.randrange(len(self.optimizers))
        if self.chance(0.06):
            self._toggle()
        if self.front != "torch_ddp" and self.chance(0.15 if self.ddp else 0.06):
            uses = self._uses()
            self._do("fail", uses=uses, hold=[], square=False,
                     at=draw.randrange(max(1, min(map(len, uses)))))
        if self.chance(0.06):
            self._do("schedule", opt=opt)
        if self.late and not any(op["do"] == "add_group" for op in self.ops) and self.chance(0.5):
            self._do("add_group", opt=self.late_owner, params=list(self.late))
        if self.ddp:
            return
        if self.chance(0.04):
            self._do("set_passes", opt=opt, passes=draw.choice([1, 2]))
        if self.ops and self.chance(0.05):
            self._do("copy", how=draw.choice(["deepcopy", "pickle"]))
        if self.chance(0.08):
            self._do("rewrap", opt=opt, keep=self.chance(0.6))
            if self.chance(0.4):
                self._backward()
                self._do("old_step", opt=opt)
