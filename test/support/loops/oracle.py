"""What a program has to compute: one copy of the parameters, and every rank's gradients."""

import dataclasses

import numpy

from loops.program import gradient, start_of
from loops.updates import RATES, UPDATES


class Ambiguous(Exception):
    """The documentation leaves open what the program means, or refuses it."""


def require(condition, why):
    if not condition:
        raise Ambiguous(why)


@dataclasses.dataclass
class Expected:
    """Of one operation. `values`: what each rank must report, or None."""

    values: list | None = None
    may_refuse: bool = False  # an error on all ranks is right too, and ends the program
    must_refuse: bool = False


class _Param:
    def __init__(self, spec, ranks):
        self.spec = spec
        self.value = start_of(spec)
        self.settled = None  # the gradient that all ranks have alike
        self.passes = [[] for _ in range(ranks)]  # (number of the pass, gradient, held)
        self.frozen = False
        self.thawed = False  # since the last synchronize()
        self.state = {}
        self.rate = None

    @property
    def open(self):
        return any(self.passes)

    def own(self, rank):
        """The rank's gradient as it is before it is reduced."""
        terms = [grad for _, grad, _ in self.passes[rank]]
        if self.settled is not None:
            terms.append(self.settled)
        return sum(terms[1:], terms[0]) if terms else None


class _Optimizer:
    def __init__(self, spec, ranks, front):
        options = spec["options"]
        self.kind, self.params = spec["optimizer"], list(spec["params"])
        self.op = options.get("op", "Average")
        self.passes_given = self.passes_per_step = options.get("backward_passes_per_step", 1)
        self.averages = options.get("average_aggregated_gradients", False)
        self.clip = options.get("clip_grad_norm")
        self.clips_before = self.clip is not None and options.get("clip_when") == "before"
        self.overlaps = options.get("overlap_step", False)
        self.rate = RATES[self.kind]
        self.synchronized = False
        self.replaced = False  # an older one of the same parameters lives
        self.heard = False  # a backward() since
        self.passes = [[] for _ in range(ranks)]  # (number, held) of those that used it
        self.zeros = front != "torch_ddp"  # what no rank used counts as zeros

    def windows(self, passes):
        """Cuts passes, the second of which is `held`, where a window is full."""
        windows = [[]]
        for each in passes:
            windows[-1].append(each)
            if not each[-1] and len(windows[-1]) >= self.passes_per_step:
                windows.append([])
        return [window for window in windows if window]


class Oracle:
    def __init__(self, program):
        self.ranks, self.front = program["ranks"], program["front"]
        self.ddp = self.front.endswith("ddp")
        self.params = [_Param(spec, self.ranks) for spec in program["params"]]
        self.optimizers = [_Optimizer(spec, self.ranks, self.front)
                           for spec in program["optimizers"]]
        seen = [number for each in self.optimizers for number in each.params]
        require(len(seen) == len(set(seen)), "a parameter of two optimizers")
        for each in self.optimizers:
            require(each.params, "an optimizer without parameters")
            self._check(each)
            for number in each.params:
                self.params[number].rate = each.rate
        self._pass = 0

    def _check(self, each):
        params = [self.params[number] for number in each.params]
        if any(param.spec["kind"] == "sparse" for param in params):
            require(each.kind in ("sgd", "adagrad"), "dense updates of sparse gradients")
            require(each.op in ("Average", "Sum"), "sparse gradients are added")
        if any(param.spec["kind"] in ("sparse", "half") for param in params):
            require(each.clip is None, "norms that PyTorch does not have")
        if any(param.spec["kind"] == "complex" for param in params):
            require(each.kind == "sgd", "updates by complex squares")

    def play(self, op):
        return getattr(self, op["do"])(op) or Expected()

    # -- passes

    def backward(self, op):
        for rank, uses in enumerate(op["uses"]):
            used = set()
            for number, coefficient in uses:
                param, owner = self.params[number], self._owner(number)
                require(owner is not None, "a parameter that no optimizer has")
                if param.frozen:
                    continue
                held = owner in op["hold"]
                grad = gradient(param.spec, coefficient, op["square"], param.value)
                last = param.passes[rank][-1:]
                if last and last[0][0] == self._pass:  # twice in a pass: one gradient
                    grad = param.passes[rank].pop()[1] + grad
                param.passes[rank].append((self._pass, grad, held))
                used.add(owner)
            for number in used:
                owner = self.optimizers[number]
                owner.passes[rank].append((self._pass, number in op["hold"]))
                owner.synchronized, owner.heard = False, True
        self._pass += 1
        for each in self.optimizers:
            self._check_windows(each)
        if self.ddp:
            self._finish_ddp(op)

    def _owner(self, number):
        return next((place for place, each in enumerate(self.optimizers)
                     if number in each.params), None)

    def _finish_ddp(self, op):
        """The wrapped module's backward() reduces what its parameters have, unless held."""
        require(not op["hold"] or len(op["hold"]) == len(self.optimizers), "one module")
        require(all(op["uses"]), "every rank calls backward()")
        if op["hold"]:
            return
        for number, param in enumerate(self.params):
            if self.front == "torch_ddp" and param.open:
                require(any(each and each[-1][0] == self._pass - 1 for each in param.passes),
                        "held gradients of a parameter that no rank uses")
            elif self.front == "torch_ddp":
                continue
            if not param.frozen:
                self._settle(self.optimizers[self._owner(number)], param)
        for each in self.optimizers:
            each.passes = [[] for _ in range(self.ranks)]

    def fail(self, op):
        """A backward() that raises, and the zero_grad() of all optimizers as their errors ask."""
        require(all(op["uses"]), "every rank calls backward()")
        require(all(op["at"] < len(uses) for uses in op["uses"]), "it raises everywhere")
        require(not any(self.params[number].frozen for uses in op["uses"] for number, _ in uses),
                "the term that raises is reached")
        require(not any(param.open for param in self.params), "between steps")
        require(self.front != "torch_ddp", "its next forward() refuses")
        for each in self.optimizers:
            require(not each.replaced, "two optimizers")
            self._zero(each, True)
            each.synchronized = not self.ddp

    def eval(self, op):
        pass

    # -- reductions

    def synchronize(self, op):
        each = self.optimizers[op["opt"]]
        require(not self.ddp, "there is nothing to call")
        expected = self._synchronize(each)
        expected.values = [self._reported(self.params[number].settled, number)
                           for number in each.params if not self.params[number].frozen]
        return expected

    def _reported(self, grad, number):
        return numpy.zeros_like(self.params[number].value) if grad is None else grad

    def _synchronize(self, each):
        expected = Expected()
        require(not each.replaced or each.heard, "who of two optimizers reduces")
        if each.synchronized:
            return expected
        params = [self.params[number] for number in each.params]
        if each.clips_before:
            self._clip_own(each, params)
        for param in params:
            if param.frozen and not param.open:
                continue
            expected.may_refuse |= param.frozen
            require(each.kind == "sgd" or not param.thawed, "zeros, or no gradient")
            self._settle(each, param)
            param.thawed = False
        if each.clip is not None and not each.clips_before:
            self._clip(each.clip, params)
        each.passes = [[] for _ in range(self.ranks)]
        each.synchronized = True
        return expected

    def end(self):
        """A rank may wait in backward() until the others take their step."""
        require(self.ddp or not any(param.open for param in self.params), "a step that is missing")

    def _check_windows(self, each):
        """More windows than one: all ranks make as many."""
        windows = [each.windows(passes) for passes in each.passes]
        if max(map(len, windows)) > 1:
            require(all(passes == each.passes[0] for passes in each.passes),
                    "ranks make other numbers of windows")

    def _settle(self, each, param):
        if not param.open and param.settled is None and (
                not each.zeros or param.spec["kind"] == "sparse"):
            return
        stale = param.settled is not None and numpy.any(param.settled)
        if stale:
            require(each.op == "Average" and not each.averages, "a reduced gradient is reduced")
        parts = [self._accumulated(each, param, rank) for rank in range(self.ranks)]
        total = sum(parts[1:], parts[0])
        total = total / self.ranks if each.op == "Average" else total
        require(numpy.all(numpy.abs(total) < 1000), "large numbers")
        param.settled = total + param.settled if stale else total
        param.passes = [[] for _ in range(self.ranks)]

    def _accumulated(self, each, param, rank):
        """The rank's sum of windows, each divided by its number of passes if that is an option."""
        zero = numpy.zeros_like(param.value)
        own = [(number, held) for number, _, held in param.passes[rank]]
        grads = {number: grad for number, grad, _ in param.passes[rank]}
        if each.averages and not each.clips_before:
            by_param, by_optimizer = (
                sum((sum((grads[number] for number, _ in window if number in grads), zero)
                     / len(window) for window in each.windows(passes)), zero)
                for passes in (own, each.passes[rank]))
            require(numpy.array_equal(by_param, by_optimizer), "what a pass of a window is")
            return by_param
        return sum(grads.values(), zero)

    def _clip_own(self, each, params):
        require(not any(param.settled is not None and numpy.any(param.settled)
                        for param in params), "clips what is reduced")
        for rank in range(self.ranks):
            if each.averages:
                count = len(each.passes[rank])
                require(len(each.windows(each.passes[rank])) <= 1, "windows that are clipped")
                require(all(len(param.passes[rank]) in (0, count) for param in params),
                        "what a pass of a window is")
            total = [sum((grad for _, grad, _ in param.passes[rank]), numpy.zeros_like(param.value))
                     for param in params]
            if each.averages:
                total = [grad / max(count, 1) for grad in total]
            factor = _clip_factor(each.clip, total)
            for param, grad in zip(params, total, strict=True):
                param.passes[rank] = [(0, grad * factor, False)] if param.passes[rank] else []

    def _clip(self, limit, params):
        require(not any(param.frozen and param.settled is not None and numpy.any(param.settled)
                        for param in params), "clips frozen parameters")
        require(not any(param.spec["kind"] in ("sparse", "half") for param in params),
                "norms that PyTorch does not have")
        found = [param for param in params if param.settled is not None]
        factor = _clip_factor(limit, [param.settled for param in found])
        for param in found:
            param.settled = param.settled * factor

    # -- steps

    def step(self, op):
        each = self.optimizers[op["opt"]]
        expected = Expected() if self.ddp else self._synchronize(each)
        return self._update(each, expected)

    def scaled_step(self, op):
        each = self.optimizers[op["opt"]]
        require(not self.ddp, "there is nothing to skip")
        expected = self._synchronize(each)
        params = [self.params[number] for number in each.params]
        require(not any(param.frozen for param in params), "scales frozen parameters")
        if op["how"] == "clip":
            self._clip(4.0, params)
        else:
            for param in params:
                if param.settled is not None:
                    param.settled = param.settled / 2
        return self._update(each, expected)

    def closure(self, op):
        require(self.front == "torch", "closures")
        require(not self.optimizers[op["opt"]].overlaps, "closures and overlap_step")
        for param in self.params:
            require(not param.open, "the closure drops what is in flight")
        own = {number for uses in op["uses"] for number, _ in uses}
        require(own <= set(self.optimizers[op["opt"]].params), "a closure of one optimizer")
        self._zero(self.optimizers[op["opt"]], True)
        self.backward({**op, "hold": []})
        return self.step(op)

    def _update(self, each, expected):
        for number in each.params:
            param = self.params[number]
            require(self.ddp is False or not param.open, "a step on gradients of this rank alone")
            sparse = param.spec["kind"] == "sparse"
            if param.settled is None:
                require(each.kind == "sgd" or param.frozen or sparse or not each.zeros,
                        "zeros, or no gradient")
                continue
            param.value = UPDATES[each.kind](param.value, param.settled, param.rate, param.state)
            require(numpy.all(numpy.abs(param.value) < 1000), "large numbers")
        each.synchronized = False
        expected.values = [param.value for param in self.params]
        return expected

    def zero_grad(self, op):
        each = self.optimizers[op["opt"]]
        params = [self.params[number] for number in each.params]
        if not self.ddp and not each.clips_before:
            require(all(held for param in params for passes in param.passes
                        for _, _, held in passes), "reductions may be in flight")
        self._zero(each, op["none"])

    def _zero(self, each, none):
        each.passes = [[] for _ in range(self.ranks)]
        for number in each.params:
            param = self.params[number]
            had = param.settled is not None or param.open
            same = param.settled is not None or all(param.passes) or not param.frozen
            require(none or same or each.kind == "sgd", "zeros on some ranks")
            param.settled = numpy.zeros_like(param.value) if had and not none else None
            param.passes = [[] for _ in range(self.ranks)]

    # -- what changes a loop

    def freeze(self, op):
        self._set_frozen(op["params"], True)

    def thaw(self, op):
        self._set_frozen(op["params"], False)

    def _set_frozen(self, numbers, frozen):
        require(not self.ddp, "a module's parameters are known when it is wrapped")
        for number in numbers:
            param = self.params[number]
            require(param.frozen != frozen, "nothing changes")
            param.thawed = param.thawed or not frozen
            param.frozen = frozen

    def schedule(self, op):
        each = self.optimizers[op["opt"]]
        each.rate /= 2
        for number in each.params:
            self.params[number].rate /= 2

    def add_group(self, op):
        each = self.optimizers[op["opt"]]
        require(not self.ddp, "a module's parameters are known when it is wrapped")
        require(not each.overlaps and not self._in_a_step(each), "between steps")
        require(each.kind != "adagrad", "PyTorch's has no state for parameters that come later")
        for number in op["params"]:
            require(self._owner(number) is None, "a parameter of two optimizers")
            self.params[number].rate = RATES[each.kind]
        each.params += op["params"]
        self._check(each)
        each.synchronized = False

    def set_passes(self, op):
        each = self.optimizers[op["opt"]]
        require(not self.ddp and not self._in_a_step(each), "between steps")
        each.passes_per_step = op["passes"]

    def rewrap(self, op):
        each = self.optimizers[op["opt"]]
        require(not self.ddp and not self._in_a_step(each), "between steps")
        each.rate, each.passes_per_step = RATES[each.kind], each.passes_given
        each.synchronized = each.heard = False
        each.replaced = each.replaced or op["keep"]
        for number in each.params:
            self.params[number].state, self.params[number].rate = {}, each.rate

    def old_step(self, op):
        """Of the optimizer that another one replaced."""
        each = self.optimizers[op["opt"]]
        require(each.replaced and each.heard, "the newest one takes over at its first backward()")
        return Expected(must_refuse=True)

    def copy(self, op):
        require(not self.ddp, "copies of optimizers")
        require(not any(self._in_a_step(each) or each.replaced for each in self.optimizers),
                "between steps")
        for param in self.params:  # PyTorch copies and saves parameters without gradients
            param.settled = None
        return Expected(may_refuse=True)

    def _in_a_step(self, each):
        return any(self.params[number].open for number in each.params)


def _clip_factor(limit, grads):
    norm = numpy.sqrt(sum(float(numpy.sum(numpy.abs(grad) ** 2)) for grad in grads))
    return min(1.0, limit / (norm + 1e-6))


def expected_of(program):
    """What each operation must give. Raises Ambiguous."""
    oracle = Oracle(program)
    expected = []
    for op in program["ops"]:
        require(not expected or not expected[-1].must_refuse, "nothing goes on after an error")
        expected.append(oracle.play(op))
    if not expected or not expected[-1].must_refuse:
        oracle.end()
    return expected
