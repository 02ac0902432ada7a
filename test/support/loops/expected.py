"""What a training loop must give: one process that has all ranks' gradients and combines them itself.

Gradients of a parameter p in a loss with coefficient c are c + p / 4, in every element.
"""

import numpy


class Windows:
    """The gradients of one parameter on one rank since the last reduction."""

    def __init__(self):
        self.closed, self.open, self.passes, self.whole = 0, 0, 0, False

    def add(self, gradient, held, per_window, averages):
        if self.whole and averages:
            self._close()
        self.open = self.open + gradient
        self.passes += 1
        self.whole = not held and self.passes >= per_window

    def _close(self):
        self.closed = self.closed + self.open / max(self.passes, 1)
        self.open, self.passes, self.whole = 0, 0, False

    def take(self, averages):
        if averages:
            self._close()
        total = self.closed + self.open
        self.__init__()
        return total


class Expected:
    """Parameters of one process, and the gradients of all ranks."""

    def __init__(self, program, shape=(2,)):
        self.program, self.ranks = program, program["ranks"]
        self.values = [numpy.full(shape, number + 1, self._dtype(number))
                       for number in range(len(program["params"]))]
        self.trained = [not param["frozen"] for param in program["params"]]
        self.optimizers = [self._optimizer(each) for each in program["optimizers"]]

    def _dtype(self, number):
        return numpy.complex128 if self.program["params"][number]["kind"] == "complex64" else float

    def _optimizer(self, spec):
        params = spec["params"]
        return {"spec": spec, "windows": [{number: Windows() for number in params}
                                          for _ in range(self.ranks)],
                "reduced": {}, "member": {number: self.trained[number] for number in params},
                "used": set(), "momentum": {}, "synchronized": False}

    def gradient(self, number, factor):
        return factor + self.values[number] / 4

    def backward(self, hold, uses, counts=True):
        for place, optimizer in enumerate(self.optimizers):
            options = optimizer["spec"]["options"]
            for rank, use in enumerate(uses):
                for number in optimizer["spec"]["params"]:
                    if str(number) in use and self.trained[number] and counts:
                        optimizer["used"].add(number)
                        optimizer["windows"][rank][number].add(
                            self.gradient(number, use[str(number)]), place in hold,
                            options.get("backward_passes_per_step", 1),
                            options.get("average_aggregated_gradients", False))

    def freeze(self, number, thaws):
        self.trained[number] = thaws

    def evaluate(self):
        pass

    def fail(self):
        """What it and the passes before it have accumulated is dropped."""
        for place in range(len(self.optimizers)):
            self._reduce(place)
            self._zero(place)

    def synchronize(self, place):
        self._reduce(place)

    def _reduce(self, place):
        optimizer = self.optimizers[place]
        options, numbers = optimizer["spec"]["options"], optimizer["spec"]["params"]
        averages = options.get("average_aggregated_gradients", False)
        parts = {number: [optimizer["windows"][rank][number].take(averages)
                          for rank in range(self.ranks)] for number in numbers}
        if options.get("clip_when") == "before" and not optimizer["synchronized"]:
            for rank in range(self.ranks):
                _clip([parts[number][rank] for number in numbers], options["clip_grad_norm"],
                      lambda place, value: parts[numbers[place]].__setitem__(rank, value))
        for number in numbers:
            first_round = not optimizer["synchronized"] and optimizer["member"][number]
            if first_round and (self.trained[number] or number in optimizer["used"]) or (
                    number in optimizer["used"]):
                total = sum(parts[number])
                if options.get("op") != "Sum":
                    total = total / self.ranks
                optimizer["reduced"][number] = optimizer["reduced"].get(number, 0) + total
            optimizer["member"][number] = self.trained[number]
        changed = not optimizer["synchronized"] or optimizer["used"]
        optimizer["used"] = set()
        optimizer["synchronized"] = True
        if options.get("clip_when") == "after" and changed:
            _clip([optimizer["reduced"].get(number, 0) for number in numbers],
                  options["clip_grad_norm"],
                  lambda place, value: optimizer["reduced"].__setitem__(numbers[place], value))

    def step(self, place, scale=1):
        self._reduce(place)
        optimizer = self.optimizers[place]
        for number in optimizer["spec"]["params"]:
            if number not in optimizer["reduced"]:
                continue
            gradient = scale * (optimizer["reduced"][number] + 0 * self.values[number])
            factor = optimizer["spec"]["momentum"]
            if factor and number in optimizer["momentum"]:
                gradient = factor * optimizer["momentum"][number] + gradient
            optimizer["momentum"][number] = gradient
            self.values[number] = self.values[number] - gradient
        self._zero(place)

    def scaled_step(self, place):
        self.step(place, 0.5)

    def _zero(self, place):
        optimizer = self.optimizers[place]
        optimizer["reduced"], optimizer["used"], optimizer["synchronized"] = {}, set(), False
        for windows in optimizer["windows"]:
            for each in windows.values():
                each.__init__()

    def rebuild(self, place):
        """zero_grad(), then a new optimizer of the same parameters while the old one lives."""
        fresh = self._optimizer(self.optimizers[place]["spec"])
        self.optimizers[place] = fresh

    def copy(self):
        """deepcopy() of all after zero_grad(); the copies go on."""
        for place, optimizer in enumerate(self.optimizers):
            momentum = optimizer["momentum"]
            self.optimizers[place] = {**self._optimizer(optimizer["spec"]), "momentum": momentum}


def _clip(values, limit, put):
    norm = numpy.sqrt(sum(float(numpy.sum(numpy.abs(value) ** 2 * numpy.ones(2)))
                          for value in values))
    factor = min(1.0, limit / (norm + 1e-6))
    for place, value in enumerate(values):
        put(place, value * factor)
