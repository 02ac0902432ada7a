"""Programs through horovod_cpp.torch."""

import contextlib
import copy
import io

import torch

import horovod_cpp.torch as hvd
from loops.front import Broken, Front, raise_broken
from loops.program import complex_weights, rows_of, weights
from loops.updates import RATES

DTYPES = {"float32": torch.float32, "half": torch.float16, "complex": torch.complex128}
MAKERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad,
          "momentum": lambda params, lr: torch.optim.SGD(params, lr=lr, momentum=0.5)}


def parameter(spec):
    dtype, shape = DTYPES.get(spec["kind"], torch.float64), spec["shape"]
    if spec["kind"] == "transposed":
        tensor = torch.full(shape[::-1], float(spec["start"]), dtype=dtype).t()
    elif spec["kind"] == "view":
        tensor = torch.full((shape[0], 2 * shape[1]), float(spec["start"]), dtype=dtype)[:, ::2]
    else:
        tensor = torch.full(shape, spec["start"], dtype=dtype)
    return torch.nn.Parameter(tensor)


def term(spec, param, coefficient, square):
    """What a pass adds to the loss; its gradient is program.gradient()."""
    if spec["kind"] == "complex":
        return (param.conj() * (coefficient * torch.tensor(complex_weights(spec["shape"])))).real.sum()
    factors = coefficient * torch.tensor(weights(spec["shape"]))
    if spec["kind"] == "sparse":
        rows = torch.tensor(rows_of(coefficient, spec["shape"]))
        looked_up = torch.nn.functional.embedding(rows, param, sparse=True)
        return (looked_up * factors[rows]).sum()
    values = param.to(torch.float64)
    return (values * values / 32 * factors).sum() if square else (values * factors).sum()


class TorchFront(Front):
    no_grad = staticmethod(torch.no_grad)
    clip = staticmethod(torch.nn.utils.clip_grad_norm_)

    loss_errors = (Broken,)

    def __init__(self, program, rank):
        super().__init__(program, rank)
        self.params = [parameter(spec) for spec in program["params"]]
        self.make_optimizers()

    def make_optimizers(self):
        self.optimizers = [self.wrapped(number) for number in range(len(self.specs))]

    def wrapped(self, number):
        spec, options = self.specs[number], dict(self.specs[number]["options"])
        named = [(f"p{p}", self.params[p]) for p in self.members[number]]
        plain = MAKERS[spec["optimizer"]]([param for _, param in named],
                                          lr=RATES[spec["optimizer"]])
        options["op"] = getattr(hvd, options.get("op", "Average"))
        return hvd.DistributedOptimizer(plain, named, **options)

    def loss(self, op):
        terms = []
        for place, (number, coefficient) in enumerate(op["uses"][self.rank]):
            value = term(self.program["params"][number], self.params[number], coefficient,
                         op["square"])
            if op["do"] == "fail" and place == op["at"]:
                value.register_hook(raise_broken)
            terms.append(value)
        return sum(terms) if terms else None

    def closure(self, op):
        optimizer = self.optimizers[op["opt"]]

        def closure():
            optimizer.zero_grad(set_to_none=True)
            loss = self.loss(op)
            if loss is not None and loss.requires_grad:
                loss.backward()
            return torch.tensor(0.0) if loss is None else loss

        optimizer.step(closure)
        return self.values()

    def scheduler(self, number):
        return torch.optim.lr_scheduler.StepLR(self.optimizers[number], 1, gamma=0.5)

    def copy(self, op):
        together = self.params, self.optimizers
        if op["how"] == "deepcopy":
            self.params, self.optimizers = copy.deepcopy(together)
        else:
            file = io.BytesIO()
            torch.save(together, file)
            file.seek(0)
            self.params, self.optimizers = torch.load(file, weights_only=False)
        self.schedulers = {}

    def value(self, number):
        return _flat(self.params[number].detach())

    def gradient(self, number):
        param = self.params[number]
        return _flat(torch.zeros_like(param) if param.grad is None else param.grad)


def _flat(tensor):
    tensor = tensor.to_dense() if tensor.is_sparse else tensor
    tensor = tensor.resolve_conj().contiguous().reshape(-1)
    return (torch.view_as_real(tensor).reshape(-1) if tensor.is_complex() else tensor).tolist()


class TorchDdpFront(TorchFront):
    """PyTorch's DistributedDataParallel over our process group."""

    def make_optimizers(self):
        spec = self.specs[0]
        front = self

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                for number in spec["params"]:
                    self.register_parameter(f"p{number}", front.params[number])

            def forward(self, op):
                return front.loss(op)

        self.model = torch.nn.parallel.DistributedDataParallel(
            Model(), find_unused_parameters=True, **spec["options"])
        self.optimizers = [MAKERS[spec["optimizer"]](
            [self.params[number] for number in spec["params"]], lr=RATES[spec["optimizer"]])]

    def run_backward(self, op):
        with self.model.no_sync() if op["hold"] else contextlib.nullcontext():
            self.model(op).backward()

    def held(self, numbers):
        return contextlib.nullcontext()

    def settle(self, number):
        pass
