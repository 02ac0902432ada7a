"""Optimizers and learning rate schedules written in Python by deriving from the base classes."""

import sys

import cloudpickle
import pytest

import horovod_cpp as hvd
from horovod_cpp import io, optim
from horovod_cpp.optim import lr_scheduler


class Momentum(optim.Optimizer):
    """SGD with momentum, as one writes it for PyTorch."""

    def __init__(self, params, lr=0.5, momentum=0.5):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def step(self, closure=None):
        loss = closure() if closure is not None else None
        with hvd.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self.update(param, group)
        return loss

    def update(self, param, group):
        state = self.state[param]
        if len(state) == 0:
            state["step"] = 0
            state["momentum_buffer"] = hvd.zeros_like(param)
        state["step"] += 1
        buffer = state["momentum_buffer"]
        buffer.mul_(group["momentum"]).add_(param.grad)
        param.add_(buffer, alpha=-group["lr"])


class Halving(lr_scheduler.LRScheduler):
    def __init__(self, optimizer, every=1):
        self.every = every
        super().__init__(optimizer)

    def get_lr(self):
        return [rate * 0.5 ** (self.last_epoch // self.every) for rate in self.base_lrs]


def leaf(*values):
    return hvd.tensor(list(values), requires_grad=True)


def train(optimizer, param, steps=1):
    for _ in range(steps):
        optimizer.zero_grad()
        (param * param).sum().backward()
        optimizer.step()


@pytest.fixture
def world():
    hvd.init()
    yield
    hvd.shutdown()


def test_it_steps_as_the_native_one_does():
    mine, theirs = leaf(1.0, -2.0), leaf(1.0, -2.0)
    train(Momentum([mine], lr=0.25), mine, 3)
    train(optim.SGD([theirs], lr=0.25, momentum=0.5), theirs, 3)
    assert mine.tolist() == theirs.tolist()


def test_state_counts_steps_and_holds_tensors():
    param, other = leaf(1.0), leaf(1.0)
    optimizer = Momentum([param, other])
    assert len(optimizer.state) == 0 and param not in optimizer.state
    train(optimizer, param, 2)
    state = optimizer.state[param]
    assert list(state) == state.keys() == ["step", "momentum_buffer"]
    assert state["step"] == 2 and "momentum_buffer" in state and param in optimizer.state
    assert len(optimizer.state) == 1 and len(optimizer.state[other]) == 0
    with pytest.raises(KeyError, match="exp_avg"):
        state["exp_avg"]
    with pytest.raises(TypeError, match='holds Tensors and the int "step", not float as "mu"'):
        state["mu"] = 0.5
    with pytest.raises(hvd.InvalidArgumentError, match='"step" of a parameter is -1'):
        state["step"] = -1
    assert optimizer.defaults == {"lr": 0.5, "momentum": 0.5}


def test_groups_have_options_of_their_own():
    a, b = leaf(1.0), leaf(1.0)
    optimizer = Momentum([{"params": [a], "lr": 0.25}, {"params": [b]}])
    first, second = optimizer.param_groups
    assert (first["lr"], second["lr"]) == (0.25, 0.5)
    assert first.get("lr") == 0.25 and first.get("nesterov", 7) == 7
    with pytest.raises(hvd.InvalidArgumentError, match="unknown option 'nesterov'.*lr, momentum"):
        optimizer.add_param_group({"params": [leaf(1.0)], "nesterov": 1})
    with pytest.raises(hvd.InvalidArgumentError, match="twice"):
        Momentum([a, a])


def test_a_closure_is_called_first_and_its_loss_comes_back():
    for make in (Momentum, optim.SGD):
        param = leaf(2.0)
        optimizer = make([param], lr=0.25)

        def closure():
            optimizer.zero_grad()
            loss = (param * param).sum()
            loss.backward()
            return loss

        assert optimizer.step(closure).item() == 4.0
        assert param.item() == 1.0


def test_without_a_step_the_error_says_what_to_define():
    class Idle(optim.Optimizer):
        pass

    with pytest.raises(TypeError, match=r"defines step\(self"):
        Idle([leaf(1.0)], {"lr": 0.1}).step()


@pytest.mark.parametrize("schedule, rates", [
    (Halving, [0.5, 0.25, 0.125]),
    (lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch)),
     [0.5, 0.25, 0.5 / 3])])
def test_schedules_set_its_learning_rate(schedule, rates):
    optimizer = Momentum([leaf(1.0)])
    schedule = schedule(optimizer)
    seen = []
    for _ in rates:
        seen.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    assert seen == pytest.approx(rates)
    assert schedule.optimizer is optimizer and schedule.base_lrs == [0.5]


def test_what_step_raises_comes_out_also_through_a_distributed_optimizer(world):
    class Broken(Momentum):
        def update(self, param, group):
            raise ValueError("no update")

    param = leaf(1.0)
    optimizer = hvd.DistributedOptimizer(Broken([param]), [("x", param)])
    with pytest.raises(ValueError, match="no update"):
        train(optimizer, param)


def test_checkpoints_resume_bit_for_bit(tmp_path):
    def make():
        param = leaf(1.0, 3.0)
        optimizer = Momentum([param], lr=0.125)
        return param, optimizer, Halving(optimizer, every=2)

    def epochs(param, optimizer, schedule, count):
        for _ in range(count):
            train(optimizer, param)
            schedule.step()

    whole, begun, resumed = make(), make(), make()
    epochs(*whole, 5)
    epochs(*begun, 3)
    io.save_checkpoint(tmp_path / "run", {"model": {"x": begun[0]}, "optimizer": begun[1],
                                          "schedule": begun[2]})
    checkpoint = io.load_checkpoint(tmp_path / "run")
    with hvd.no_grad():
        resumed[0].copy_(checkpoint.part("model")["x"])
    resumed[1].load_state_dict(checkpoint.part("optimizer"))
    resumed[2].load_state_dict(checkpoint.part("schedule"))
    assert resumed[1].state[resumed[0]]["step"] == 3 and resumed[2].last_epoch == 3
    epochs(*resumed, 2)
    assert resumed[0].tolist() == whole[0].tolist()


@pytest.mark.parametrize("change, message", [
    (lambda state: state.pop("group.0.lr"), "'group.0.lr' is missing"),
    (lambda state: state.update({"group.1.lr": state["group.0.lr"]}), "'group.1.lr' is unexpected")])
def test_a_state_that_does_not_fit_changes_nothing(change, message):
    param = leaf(1.0)
    optimizer = Momentum([param])
    train(optimizer, param)
    state = optimizer.state_dict()
    change(state)
    with pytest.raises(hvd.InvalidArgumentError, match=message):
        optimizer.load_state_dict(state)
    assert optimizer.state[param]["step"] == 1 and optimizer.param_groups[0]["lr"] == 0.5


def test_a_schedule_counts_epochs_and_composes():
    optimizer = optim.SGD([leaf(1.0)], lr=1.0)
    both = lr_scheduler.SequentialLR(
        optimizer, [lr_scheduler.LinearLR(optimizer, 0.5, 1.0, 2), Halving(optimizer)], [2])
    rates = []
    for _ in range(5):
        rates += both.get_last_lr()
        both.step()
    assert rates == [0.5, 0.75, 1.0, 0.5, 0.25]
    assert Halving(optimizer).lr_at(3) == 0.125


@pytest.mark.parametrize("get_lr, error", [
    (lambda self: [1.0, 2.0], "returned 2 rates for 1 parameter groups"),
    (lambda self: 1 / 0, "division by zero")])
def test_a_wrong_get_lr_is_an_error_when_the_schedule_is_made(get_lr, error):
    cls = type("Wrong", (lr_scheduler.LRScheduler,), {"get_lr": get_lr})
    with pytest.raises((hvd.InvalidArgumentError, ZeroDivisionError), match=error):
        cls(optim.SGD([leaf(1.0)], lr=1.0))


def test_without_get_lr_the_error_says_what_to_define():
    with pytest.raises(TypeError, match=r"defines get_lr\(self\)"):
        lr_scheduler.LRScheduler(optim.SGD([leaf(1.0)], lr=1.0))


def test_overlapping_its_steps_is_refused_by_name(world):
    param = leaf(1.0)
    optimizer = hvd.DistributedOptimizer(Momentum([param]), [("x", param)], overlap_step=True)
    with pytest.raises(hvd.UnsupportedError, match="overlap_step"):
        train(optimizer, param)


def test_ranks_train_alike_with_it():
    source = Momentum, train  # what the function below needs travels with it

    def job():
        hvd.init()
        param = hvd.tensor([1.0 + hvd.rank()], requires_grad=True)
        inner = source[0]([param], lr=0.25)
        hvd.broadcast_parameters([("x", param)])
        optimizer = hvd.DistributedOptimizer(inner, [("x", param)])
        source[1](optimizer, param, 2)
        if hvd.rank() == 1:
            inner.param_groups[0]["lr"] = 7.0
        hvd.broadcast_optimizer_state(optimizer)
        return param.item(), inner.param_groups[0]["lr"], inner.state[param]["step"]

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        first, second = hvd.run(job, np=2)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert first == second and first[1:] == (0.25, 2)
    param = leaf(1.0)
    train(Momentum([param], lr=0.25), param, 2)
    assert first[0] == param.item()
