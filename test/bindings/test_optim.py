import gc
import math

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import optim
from horovod_cpp.optim import lr_scheduler


def parameter(values, dtype=np.float32):
    return hvd.tensor(np.asarray(values, dtype)).requires_grad_()


def with_grad(param, grad):
    param.grad = hvd.tensor(np.asarray(grad, np.float32))
    return param


OPTIMIZERS = {
    "SGD": dict(momentum=0.9, dampening=0.1, weight_decay=0.01, maximize=True),
    "Adam": dict(betas=(0.8, 0.9), amsgrad=True, maximize=True),
    "AdamW": dict(weight_decay=0.1, amsgrad=True),
    "RMSprop": dict(alpha=0.9, momentum=0.5, centered=True),
    "Adagrad": dict(lr_decay=0.1, initial_accumulator_value=0.5),
    "Adadelta": dict(rho=0.8, weight_decay=0.1),
    "LAMB": dict(betas=(0.8, 0.9), weight_decay=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_steps_and_goes_on_from_its_state(name):
    make = getattr(optim, name)
    whole, halves = parameter([1, -2]), parameter([1, -2])
    first, second = make([whole], lr=0.1, **OPTIMIZERS[name]), make([halves], lr=7)
    for step in range(4):
        with_grad(whole, [1, step]), with_grad(halves, [1, step])
        if step == 2:
            halves.detach().copy_(whole.detach())
            second.load_state_dict(first.state_dict())
        if step >= 2:
            second.step()
        first.step()
    assert whole.tolist() != [1, -2]
    assert hvd.bitwise_equal(whole.detach(), halves.detach())
    assert "lr" in first.param_groups[0].keys() and first.state_of(whole)["step"] == 4


def test_clipping_by_norm_and_by_value():
    a, b = with_grad(parameter([0, 0]), [3, 0]), with_grad(parameter([0]), [-4])
    assert optim.clip_grad_norm_([a, b], 2.5) == 5
    np.testing.assert_allclose(a.grad.numpy(), [1.5, 0], rtol=1e-6)
    assert optim.clip_grad_norm_(b, 100, norm_type=math.inf) == pytest.approx(2)
    optim.clip_grad_value_(a, 0.5)
    assert a.grad.tolist() == [0.5, 0]
    with_grad(a, [math.nan, 1])
    with pytest.raises(hvd.InvalidArgumentError, match="nan"):
        optim.clip_grad_norm_([a], 1, error_if_nonfinite=True)


def rates(scheduler, optimizer, count):
    result = []
    for _ in range(count):
        result.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
    return pytest.approx(result)


def make_sgd(lr=1.0):
    return optim.SGD([parameter([0])], lr=lr, momentum=0.9)


def test_schedules_give_their_sequences():
    def run(make, count=4):
        sgd = make_sgd()
        return rates(make(sgd), sgd, count)

    assert run(lambda o: lr_scheduler.StepLR(o, step_size=2, gamma=0.5)) == [1, 1, 0.5, 0.5]
    assert run(lambda o: lr_scheduler.MultiStepLR(o, [1, 3], gamma=0.5)) == [1, 0.5, 0.5, 0.25]
    assert run(lambda o: lr_scheduler.ExponentialLR(o, 0.5)) == [1, 0.5, 0.25, 0.125]
    assert run(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=2)) == [1, 0.5, 0, 0.5]
    assert run(lambda o: lr_scheduler.LinearLR(o, 0.5, total_iters=2)) == [0.5, 0.75, 1, 1]
    assert run(lambda o: lr_scheduler.LambdaLR(o, lambda epoch: epoch + 1)) == [1, 2, 3, 4]
    assert run(lambda o: lr_scheduler.LambdaLR(o, [lambda epoch: epoch])) == [0, 1, 2, 3]
    assert run(lambda o: lr_scheduler.LearningRateWarmup(o, 3, warmup_epochs=2)) == [2, 3, 3, 3]

    def sequence(o):
        parts = [lr_scheduler.LinearLR(o, 0.5, total_iters=2), lr_scheduler.ExponentialLR(o, 0.5)]
        return lr_scheduler.SequentialLR(o, parts, milestones=[2])

    assert run(sequence) == [0.5, 0.75, 1, 0.5]


def test_one_cycle_moves_the_momentum_too():
    sgd = make_sgd()
    cycle = lr_scheduler.OneCycleLR(sgd, max_lr=1.0, total_steps=10, base_momentum=0.5)
    assert rates(cycle, sgd, 3) == [0.04, 0.52, 1]
    assert sgd.param_groups[0]["momentum"] == cycle.options_at(3)["momentum"] > 0.5
    with pytest.raises(hvd.InvalidArgumentError, match="anneal_strategy 'tan'"):
        lr_scheduler.OneCycleLR(sgd, max_lr=[1.0], total_steps=10, anneal_strategy="tan")


def test_plateau_reduces_when_the_metric_stops_improving():
    sgd = make_sgd()
    plateau = lr_scheduler.ReduceLROnPlateau(sgd, patience=1, factor=0.5, min_lr=[0.3])
    for metric in (3, 3, 3):
        plateau.step(metric)
    assert plateau.get_last_lr() == [0.5]
    with pytest.raises(hvd.InvalidArgumentError, match="mode 'most'"):
        lr_scheduler.ReduceLROnPlateau(sgd, mode="most")
    other = make_sgd()
    resumed = lr_scheduler.ReduceLROnPlateau(other, patience=1, factor=0.5, min_lr=[0.3])
    resumed.load_state_dict(plateau.state_dict())
    assert resumed.get_last_lr() == [0.5] and resumed.last_epoch == 3


def test_a_schedule_goes_on_from_its_state_and_keeps_its_optimizer_alive():
    scheduler = lr_scheduler.ExponentialLR(make_sgd(), 0.5)
    gc.collect()
    scheduler.step()
    scheduler.step()
    assert scheduler.last_epoch == 2 and scheduler.get_last_lr() == [0.25]
    sgd = make_sgd(8.0)
    other = lr_scheduler.ExponentialLR(sgd, 0.5)
    other.load_state_dict(scheduler.state_dict())
    assert sgd.param_groups[0]["lr"] == 0.25 and other.lr_at(3) == 0.125
    with pytest.raises(hvd.InvalidArgumentError, match="last_epoch' is missing"):
        other.load_state_dict({})


def test_what_a_lambda_raises_reaches_the_caller():
    def fail(epoch):
        if epoch == 1:
            raise KeyError("broken")
        return 1

    sgd = make_sgd()
    scheduler = lr_scheduler.LambdaLR(sgd, fail)
    with pytest.raises(KeyError, match="broken"):
        scheduler.step()
    assert scheduler.last_epoch == 0


def test_a_distributed_optimizer_can_be_scheduled():
    hvd.init()
    try:
        param = parameter([0])
        optimizer = hvd.DistributedOptimizer(optim.AdamW([param], lr=1.0))
        scheduler = lr_scheduler.StepLR(optimizer, 1, 0.5)
        scheduler.step()
        assert optimizer.param_groups[0]["lr"] == 0.5
    finally:
        hvd.shutdown()
