"""Programs through the built-in layer."""

import contextlib
import copy
import pickle

import numpy

import horovod_cpp as hvd
from loops.front import Broken, Front, raise_broken
from loops.program import rows_of, weights
from loops.updates import RATES

MAKERS = {"sgd": hvd.optim.SGD, "adam": hvd.optim.Adam, "adagrad": hvd.optim.Adagrad,
          "momentum": lambda params, lr: hvd.optim.SGD(params, lr=lr, momentum=0.5)}


def parameter(spec):
    dtype = "float32" if spec["kind"] == "float32" else "float64"
    return hvd.nn.Parameter(hvd.tensor(numpy.full(spec["shape"], float(spec["start"])), dtype=dtype))


def term(spec, param, coefficient, square):
    """What a pass adds to the loss; its gradient is program.gradient()."""
    factors = coefficient * weights(spec["shape"])
    if spec["kind"] == "sparse":
        rows = rows_of(coefficient, spec["shape"])
        looked_up = hvd.nn.functional.embedding(
            hvd.tensor(numpy.array(rows)), param, sparse=True)
        return (looked_up * hvd.tensor(factors[rows])).sum()
    values = param.double()
    factors = hvd.tensor(factors)
    return (values * values * (factors / 32)).sum() if square else (values * factors).sum()


class _Breaking(hvd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise_broken(gradient)


class OwnFront(Front):
    no_grad = staticmethod(hvd.no_grad)
    clip = staticmethod(hvd.optim.clip_grad_norm_)

    loss_errors = (Broken,)

    def __init__(self, program, rank):
        super().__init__(program, rank)
        self.params = [parameter(spec) for spec in program["params"]]
        self.make_optimizers()

    def make_optimizers(self):
        self.optimizers = [self.wrapped(number) for number in range(len(self.specs))]

    def plain(self, number):
        kind = self.specs[number]["optimizer"]
        return MAKERS[kind]([self.params[p] for p in self.members[number]], lr=RATES[kind])

    def wrapped(self, number):
        options = dict(self.specs[number]["options"])
        options["op"] = getattr(hvd, options.get("op", "Average"))
        named = [(f"p{p}", self.params[p]) for p in self.members[number]]
        return hvd.DistributedOptimizer(self.plain(number), named, **options)

    def loss(self, op):
        total = None
        for place, (number, coefficient) in enumerate(op["uses"][self.rank]):
            value = term(self.program["params"][number], self.params[number], coefficient,
                         op["square"])
            if op["do"] == "fail" and place == op["at"]:
                value = _Breaking.apply(value)
            total = value if total is None else total + value
        return total

    def scheduler(self, number):
        return hvd.optim.lr_scheduler.StepLR(self.optimizers[number], 1, gamma=0.5)

    def copy(self, op):
        together = self.params, self.optimizers
        self.params, self.optimizers = (
            copy.deepcopy(together) if op["how"] == "deepcopy"
            else pickle.loads(pickle.dumps(together)))
        self.schedulers = {}

    def value(self, number):
        return self.params[number].detach().numpy().reshape(-1).tolist()

    def gradient(self, number):
        param = self.params[number]
        if self.program["params"][number]["kind"] == "sparse":
            rows = hvd.row_gradient(param)
            if rows is not None:
                dense = numpy.zeros(param.shape)
                numpy.add.at(dense, rows.rows.numpy(), rows.values.numpy())
                return dense.reshape(-1).tolist()
        grad = param.grad
        return ([0.0] * param.numel() if grad is None else grad.numpy().reshape(-1).tolist())


class OwnDdpFront(OwnFront):
    """The built-in DistributedDataParallel, with a plain optimizer."""

    def make_optimizers(self):
        front = self

        class Model(hvd.nn.Module):
            def __init__(self):
                super().__init__()
                for number, param in enumerate(front.params):
                    self.register_parameter(f"p{number}", param)

            def forward(self, op):
                return front.loss(op)

        self.model = hvd.DistributedDataParallel(Model(), **self.specs[0]["options"])
        self.optimizers = [self.plain(0)]

    def run_backward(self, op):
        with self.model.no_sync() if op["hold"] else contextlib.nullcontext():
            self.model(op).backward()

    def held(self, numbers):
        return contextlib.nullcontext()

    def settle(self, number):
        pass
