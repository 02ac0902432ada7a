"""Runs the programs of a file on the ranks of a job, against what one process expects.

    ranks.py FRONT PROGRAMS VERDICTS     FRONT: torch or own

Each rank appends a line to VERDICTS.<rank> for each program: "equal", "error: ..." or "wrong: ...",
and the number of the operation. A rank that the others have left behind ends.
"""

import copy
import json
import sys
import traceback

import numpy
from expected import Expected

HALF = 0.02


class TorchFront:
    def __init__(self):
        import torch

        import horovod_cpp.torch as hvd
        self.torch, self.hvd = torch, hvd
        torch.set_num_threads(1)

    def parameter(self, kind, value, frozen):
        torch = self.torch
        dtype = torch.complex64 if kind == "complex64" else torch.float32
        if kind == "sparse":
            layer = torch.nn.Embedding(3, 2, sparse=True)
            layer.weight.data.fill_(value)
            param = layer.weight
        elif kind == "view":
            param = torch.nn.Parameter(torch.full((2, 3), value, dtype=dtype)[:, 1])
        else:
            param = torch.nn.Parameter(torch.full((2,), value, dtype=dtype))
        param.requires_grad_(not frozen)
        return param

    def optimizer(self, params, names, momentum, options):
        if "num_groups" in options:
            options = {**options, "num_groups": min(options["num_groups"], len(params))}
        if "op" in options:
            options = {**options, "op": getattr(self.hvd, options["op"])}
        return self.hvd.DistributedOptimizer(
            self.torch.optim.SGD(params, lr=1, momentum=momentum), list(zip(names, params)),
            **options)

    def loss(self, terms):
        """Terms: (parameter, kind, coefficient); see expected.py for the gradients."""
        torch, total = self.torch, self.torch.zeros((), requires_grad=True) * 0
        for param, kind, factor in terms:
            if kind == "sparse":
                row = torch.nn.functional.embedding(torch.tensor([1]), param, sparse=True)[0]
                total = total + (row * (factor + row.detach() / 4)).sum()
            elif kind == "complex64":  # the conjugate, so that gradients have a lazy bit
                total = total + (param.conj() * (factor + param.detach() / 4)).real.sum()
            else:
                total = total + (param * (factor + param.detach() / 4)).sum()
        return total

    def failing(self, param):
        def fail(_):
            raise RuntimeError("in the middle of a pass")
        return param.register_hook(fail).remove

    def values(self, param, kind):
        value = param.detach()
        return (value[1] if kind == "sparse" else value).numpy()

    def scale(self, params, factor):
        for param in params:
            if param.grad is not None:
                param.grad.mul_(factor)

    def copied(self, params, optimizers):
        return copy.deepcopy((params, optimizers))

    def no_grad(self):
        return self.torch.no_grad()

    copies = True
    kinds = ("float32", "complex64", "view", "sparse")


class OwnFront:
    def __init__(self):
        import horovod_cpp as hvd
        self.hvd = hvd

    def parameter(self, kind, value, frozen):
        if kind == "sparse":
            layer = self.hvd.nn.Embedding(3, 2, sparse=True)
            layer.weight.detach().fill_(value)
            param = layer.weight
        else:
            param = self.hvd.tensor(numpy.full(2, value, numpy.float32), requires_grad=True)
        self.layers = [*getattr(self, "layers", []), locals().get("layer")]
        param.requires_grad_(not frozen)
        return param

    def optimizer(self, params, names, momentum, options):
        if "op" in options:
            options = {**options, "op": getattr(self.hvd, options["op"])}
        return self.hvd.DistributedOptimizer(
            self.hvd.optim.SGD(params, lr=1, momentum=momentum), list(zip(names, params)), **options)

    def loss(self, terms):
        total = self.hvd.tensor(numpy.zeros(2, numpy.float32), requires_grad=True).sum() * 0
        for param, kind, factor in terms:
            used = param
            if kind == "sparse":
                used = self.hvd.nn.functional.embedding(
                    self.hvd.tensor(numpy.array([1])), param, sparse=True)
            total = total + (used * (used.detach() / 4 + factor)).sum()
        return total

    def failing(self, param):
        def fail(_):
            raise RuntimeError("in the middle of a pass")
        handle = param.register_hook(fail)
        return handle.remove if hasattr(handle, "remove") else handle

    def values(self, param, kind):
        value = param.detach().numpy()
        return value[1] if kind == "sparse" else value

    def scale(self, params, factor):
        for param in params:
            if param.grad is not None:
                param.grad.mul_(factor)

    def no_grad(self):
        return self.hvd.no_grad()

    copies = False
    kinds = ("float32", "sparse")


class Wrong(Exception):
    pass


class Run:
    """One program on this rank."""

    def __init__(self, front, program, number):
        self.front, self.program, self.number = front, program, number
        self.expected = Expected(program)
        self.params = [front.parameter(each["kind"], place + 1.0, each["frozen"])
                       for place, each in enumerate(program["params"])]
        self.optimizers = [self._optimizer(each) for each in program["optimizers"]]
        self.old = []

    def _optimizer(self, spec):
        return self.front.optimizer([self.params[each] for each in spec["params"]],
                                    [f"p{each}" for each in spec["params"]], spec["momentum"],
                                    spec["options"])

    def run(self):
        for self.place, (name, *rest) in enumerate(self.program["ops"]):
            getattr(self, name)(*rest)
            getattr(self.expected, name)(*rest)
            if "step" in name:
                self._compare()

    def _compare(self):
        for place, (param, each) in enumerate(zip(self.params, self.program["params"])):
            value = self.front.values(param, each["kind"])
            other = self.front.hvd.allgather_object(value.tobytes())
            if len(set(other)) > 1:
                raise Wrong(f"the ranks differ in p{place}: "
                            f"{[numpy.frombuffer(one, value.dtype).tolist() for one in other]}, "
                            f"expected {self.expected.values[place].tolist()}")
            wanted = self.expected.values[place]
            if not numpy.allclose(value, wanted, rtol=1e-4, atol=1e-4):
                raise Wrong(f"p{place} is {value.tolist()}, expected {wanted.tolist()}")

    def _loss(self, uses):
        use = uses[self.front.hvd.rank()]
        return self.front.loss([
            (self.params[int(number)], self.program["params"][int(number)]["kind"], float(factor))
            for number, factor in use.items() if self.expected.trained[int(number)]])

    def backward(self, hold, uses):
        import contextlib
        with contextlib.ExitStack() as held:
            for number in hold:
                held.enter_context(self.optimizers[number].no_sync())
            self._loss(uses).backward()

    def fail(self):
        trained = [place for place, each in enumerate(self.expected.trained) if each]
        stops = [self.front.failing(self.params[place]) for place in trained]
        try:
            self._loss([{str(place): 1 for place in trained}] * self.program["ranks"]).backward()
        except RuntimeError:
            pass
        for stop in stops:
            stop()
        for optimizer in self.optimizers:
            optimizer.synchronize()
            optimizer.zero_grad(set_to_none=True)

    def evaluate(self):
        with self.front.no_grad():
            self._loss([{str(place): 1 for place in range(len(self.params))}]
                       * self.program["ranks"])

    def freeze(self, number, thaws):
        self.params[number].requires_grad_(thaws)

    def synchronize(self, number):
        self.optimizers[number].synchronize()

    def step(self, number):
        self.optimizers[number].step()
        self.optimizers[number].zero_grad(set_to_none=True)

    def scaled_step(self, number):
        optimizer = self.optimizers[number]
        optimizer.synchronize()
        self.front.scale([self.params[each]
                          for each in self.program["optimizers"][number]["params"]], 0.5)
        with optimizer.skip_synchronize():
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def rebuild(self, number):
        self.optimizers[number].synchronize()
        self.optimizers[number].zero_grad(set_to_none=True)
        self.old.append(self.optimizers[number])
        self.optimizers[number] = self._optimizer(self.program["optimizers"][number])

    def copy(self):
        for optimizer in self.optimizers:
            optimizer.synchronize()
            optimizer.zero_grad(set_to_none=True)
        if self.front.copies:
            self.params, self.optimizers = self.front.copied(self.params, self.optimizers)


def main():
    kind, programs, verdicts = sys.argv[1:]
    front = {"torch": TorchFront, "own": OwnFront}[kind]()
    front.hvd.init()
    with open(programs) as text:
        programs = json.load(text)
    with open(f"{verdicts}.{front.hvd.rank()}", "a") as file:
        for number, program in programs:
            run = None
            try:
                run = Run(front, program, number)
                run.run()
                verdict = "equal"
            except Wrong as error:
                verdict = f"wrong: {error}"
            except Exception as error:
                verdict = f"error: {type(error).__name__}: {error}"
                if "-v" in sys.argv:
                    traceback.print_exc()
            place = getattr(run, "place", 0)
            print(json.dumps([number, verdict, place]), file=file, flush=True)
            if verdict != "equal":
                break  # what the ranks do next is not alike any more; the next job goes on
            front.hvd.barrier()


if __name__ == "__main__":
    main()
