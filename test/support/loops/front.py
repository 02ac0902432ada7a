"""What programs run through: the operations that all front ends share."""

import contextlib


class Broken(Exception):
    """What a backward pass of a program raises in its middle."""


def raise_broken(_):
    raise Broken("in the middle of backward()")


class Front:
    """Runs a program's operations on one rank; each gives the values that the oracle compares."""

    loss_errors = (Broken,)

    def __init__(self, program, rank):
        self.program, self.rank = program, rank
        self.specs = program["optimizers"]
        self.members = [list(spec["params"]) for spec in self.specs]
        self.schedulers = {}
        self.old = {}  # optimizers that were replaced, and live on

    def play(self, op):
        return getattr(self, op["do"])(op)

    def values(self):
        return [self.value(number) for number in range(len(self.params))]

    @contextlib.contextmanager
    def held(self, numbers):
        with contextlib.ExitStack() as stack:
            for number in numbers:
                stack.enter_context(self.optimizers[number].no_sync())
            yield

    def backward(self, op):
        with self.held(op["hold"]):
            self.run_backward(op)

    def run_backward(self, op):
        loss = self.loss(op)
        if loss is not None and loss.requires_grad:
            loss.backward()

    def eval(self, op):
        with self.no_grad():
            self.loss({"do": "eval", "square": True,
                       "uses": [[[number, 2] for number in range(len(self.params))]] * (
                           self.rank + 1)})

    def zero(self, number, none=True):
        self.optimizers[number].zero_grad(set_to_none=none)

    def scaled_step(self, op):
        optimizer = self.optimizers[op["opt"]]
        optimizer.synchronize()
        params = [self.params[number] for number in self.members[op["opt"]]]
        if op["how"] == "clip":
            self.clip(params, 4.0)
        for param in params:
            if op["how"] == "scale" and param.grad is not None:
                param.grad = param.grad * 0.5
        with optimizer.skip_synchronize():
            optimizer.step()
        return self.values()

    def fail(self, op):
        try:
            self.run_backward(op)
        except self.loss_errors:
            pass
        else:
            raise AssertionError("backward() kept what its hook raised to itself")
        for number in range(len(self.optimizers)):
            self.settle(number)
            self.zero(number)

    def settle(self, number):
        """Ends what is in flight, as zero_grad() asks for."""
        self.optimizers[number].synchronize()

    def synchronize(self, op):
        self.optimizers[op["opt"]].synchronize()
        return [self.gradient(number) for number in self.members[op["opt"]]
                if self.params[number].requires_grad]

    def step(self, op):
        self.optimizers[op["opt"]].step()
        return self.values()

    def zero_grad(self, op):
        self.zero(op["opt"], op["none"])

    def freeze(self, op):
        for number in op["params"]:
            self.params[number].requires_grad_(False)

    def thaw(self, op):
        for number in op["params"]:
            self.params[number].requires_grad_(True)

    def schedule(self, op):
        if op["opt"] not in self.schedulers:
            self.schedulers[op["opt"]] = self.scheduler(op["opt"])
        self.schedulers[op["opt"]].step()

    def add_group(self, op):
        self.members[op["opt"]] += op["params"]
        self.optimizers[op["opt"]].add_param_group(
            {"params": [self.params[number] for number in op["params"]]})

    def set_passes(self, op):
        self.optimizers[op["opt"]].set_backward_passes_per_step(op["passes"])

    def rewrap(self, op):
        number = op["opt"]
        self.schedulers.pop(number, None)
        if op["keep"]:
            self.old.setdefault(number, []).append(self.optimizers[number])
        else:
            self.optimizers[number] = None
        self.optimizers[number] = self.wrapped(number)

    def old_step(self, op):
        self.old[op["opt"]][-1].step()
