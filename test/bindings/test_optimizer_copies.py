"""Copies of optimizers and schedules: copy.deepcopy, pickle, and through hvd.run()."""

import copy
import pickle
import sys

import cloudpickle
import numpy as np
import pytest

import horovod_cpp as hvd

OPTIMIZERS = {
    "SGD": dict(lr=0.5, momentum=0.5, nesterov=True),
    "Adam": dict(lr=0.5, betas=(0.5, 0.75), amsgrad=True),
    "AdamW": dict(lr=0.5, weight_decay=0.25),
    "RMSprop": dict(lr=0.5, momentum=0.5, centered=True),
    "Adagrad": dict(lr=0.5, initial_accumulator_value=2.0),
    "Adadelta": dict(rho=0.5),
    "LAMB": dict(lr=0.5, weight_decay=0.25, maximize=True),
}
COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "cloudpickle": lambda value: pickle.loads(cloudpickle.dumps(value)),
}


def step(model, optimizer, scale=1.0):
    optimizer.zero_grad()
    (model(hvd.ones((2, 3))) * scale).sum().backward()
    optimizer.step()


def values(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


@pytest.fixture(params=COPIES)
def copied(request):
    return COPIES[request.param]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_copy_goes_on_as_the_original_does(name, copied):
    model = hvd.nn.Linear(3, 2)
    groups = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.125}]
    optimizer = getattr(hvd.optim, name)(groups, **OPTIMIZERS[name])
    step(model, optimizer)
    optimizer.param_groups[0]["lr"] = 0.25
    twin, other = copied((model, optimizer))
    assert type(other) is type(optimizer) and other.defaults == optimizer.defaults
    assert [g["lr"] for g in other.param_groups] == [0.25, 0.125]
    for _ in range(2):
        step(model, optimizer)
        step(twin, other)
    np.testing.assert_array_equal(values(twin), values(model))
    state = {k: v.numpy() for k, v in optimizer.state_dict().items()}
    assert {k: v.numpy().tolist() for k, v in other.state_dict().items()} \
        == {k: v.tolist() for k, v in state.items()}


def test_a_group_that_a_copy_gets_later_takes_the_defaults(copied):
    optimizer = hvd.optim.SGD([hvd.tensor([1.0], requires_grad=True)], lr=0.5, momentum=0.25)
    optimizer.param_groups[0]["lr"] = 1.0
    other = copied(optimizer)
    other.add_param_group({"params": [hvd.tensor([1.0], requires_grad=True)]})
    assert [(g["lr"], g["momentum"]) for g in other.param_groups] == [(1.0, 0.25), (0.5, 0.25)]


def test_a_copy_alone_takes_its_parameters_along(copied):
    x = hvd.tensor([1.0, 2.0], requires_grad=True)
    optimizer = hvd.optim.SGD([x], lr=1.0)
    other = copied(optimizer)
    (mine,) = other.param_groups[0]["params"]
    assert not mine.is_same(x)
    mine.sum().backward()
    other.step()
    assert mine.tolist() == [0.0, 1.0] and x.tolist() == [1.0, 2.0]


class Net(hvd.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = hvd.nn.Parameter(hvd.ones((3,)))
        self.inner = hvd.nn.Sequential(hvd.nn.Linear(3, 4), hvd.nn.LayerNorm(4))

    def forward(self, x):
        return self.inner(x * self.scale)


MODELS = {
    "python": Net,
    "layers": lambda: hvd.nn.Sequential(hvd.nn.Conv2d(1, 2, 3), hvd.nn.BatchNorm2d(2),
                                        hvd.nn.GroupNorm(1, 2)),
    "lstm": lambda: hvd.nn.LSTM(3, 2, num_layers=2, bidirectional=True),
    "gru": lambda: hvd.nn.GRU(3, 2),
    "transformer": lambda: hvd.nn.TransformerEncoder(hvd.nn.TransformerEncoderLayer(4, 2, 8), 2),
    "embedding": lambda: hvd.nn.Embedding(5, 2, sparse=True),
    "resnet": lambda: hvd.models.resnet18(num_classes=2),
}


@pytest.mark.parametrize("order", ["model first", "optimizer first"])
@pytest.mark.parametrize("make", MODELS)
def test_model_and_optimizer_share_their_parameters_in_a_copy_of_both(make, order, copied):
    model = MODELS[make]()
    optimizer = hvd.optim.SGD(model.parameters(), lr=1.0)
    if order == "model first":
        twin, other = copied((model, optimizer))
    else:
        other, twin = copied((optimizer, model))
    theirs = other.param_groups[0]["params"]
    assert len(theirs) == len(twin.parameters()) > 0
    for mine, shared, original in zip(twin.parameters(), theirs, model.parameters()):
        assert mine.is_same(shared) and not mine.is_same(original)
        np.testing.assert_array_equal(mine.detach().numpy(), original.detach().numpy())
        assert mine.requires_grad


@pytest.mark.parametrize("make", ["lstm", "transformer"])
def test_layers_compute_with_the_parameters_of_the_copy(make, copied):
    model = MODELS[make]()
    model.eval()
    twin, other = copied((model, hvd.optim.SGD(model.parameters(), lr=1.0)))
    x = hvd.ones((2, 1, 3 if make == "lstm" else 4))

    def first(out):
        return out[0] if isinstance(out, tuple) else out

    before = first(twin(x))
    np.testing.assert_array_equal(before.numpy(), first(model(x)).numpy())
    before.sum().backward()
    assert all(p.grad is not None for p in other.param_groups[0]["params"])
    with hvd.no_grad():
        for p in other.param_groups[0]["params"]:
            p.zero_()
    assert first(twin(x)).tolist() != before.tolist()


def test_a_sparse_embedding_stays_sparse(copied):
    embedding = hvd.nn.Embedding(5, 2, sparse=True)
    twin, optimizer = copied((embedding, hvd.optim.SGD(embedding.parameters(), lr=1.0)))
    before = twin.weight.detach().numpy().copy()
    twin(hvd.tensor([1, 3])).sum().backward()
    optimizer.step()
    changed = (twin.weight.detach().numpy() != before).any(axis=1)
    assert changed.tolist() == [False, True, False, True, False]


class Signs(hvd.optim.Optimizer):
    """Steps by the sign of the gradient, and counts."""

    def __init__(self, params, lr=1.0):
        super().__init__(params, {"lr": lr})
        self.taken = 0

    def step(self, closure=None):
        self.taken += 1
        with hvd.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    self.state[param]["last"] = param.grad.clone()
                    param.sub_(hvd.tensor(np.sign(param.grad.numpy())) * group["lr"])


class Halving(hvd.optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer, every):
        self.every = every
        super().__init__(optimizer)

    def get_lr(self):
        return [rate * 0.5 ** (self.last_epoch // self.every) for rate in self.base_lrs]


class Heavy(hvd.optim.SGD):
    def __init__(self, params, note):
        super().__init__(params, lr=0.5, momentum=0.5)
        self.note = note


def test_optimizers_written_in_python_are_copied_with_their_attributes(copied):
    model = hvd.nn.Linear(3, 2)
    optimizer = Signs(model.parameters(), lr=0.5)
    step(model, optimizer)
    twin, other = copied((model, optimizer))
    assert type(other) is Signs and other.taken == 1 and other.defaults == {"lr": 0.5}
    assert other.state[twin.weight]["last"].tolist() == [[2.0] * 3] * 2
    step(twin, other)
    step(model, optimizer)
    np.testing.assert_array_equal(values(twin), values(model))
    heavy = copied(Heavy(model.parameters(), "mine"))
    assert type(heavy) is Heavy and heavy.note == "mine" and heavy.param_groups[0]["lr"] == 0.5


def make_schedule(name, optimizer):
    lrs = hvd.optim.lr_scheduler
    return {
        "StepLR": lambda: lrs.StepLR(optimizer, step_size=2, gamma=0.5),
        "MultiStepLR": lambda: lrs.MultiStepLR(optimizer, [1, 3]),
        "ExponentialLR": lambda: lrs.ExponentialLR(optimizer, 0.5),
        "CosineAnnealingLR": lambda: lrs.CosineAnnealingLR(optimizer, T_max=8),
        "LinearLR": lambda: lrs.LinearLR(optimizer, total_iters=4),
        "OneCycleLR": lambda: lrs.OneCycleLR(optimizer, max_lr=1.0, total_steps=8),
        "SequentialLR": lambda: lrs.SequentialLR(
            optimizer, [lrs.ExponentialLR(optimizer, 0.5), lrs.StepLR(optimizer, 1)], [2]),
        "LearningRateWarmup": lambda: lrs.LearningRateWarmup(
            optimizer, scale=4, warmup_epochs=4, schedule=lrs.ExponentialLR(optimizer, 0.5)),
        "Halving": lambda: Halving(optimizer, every=2),
    }[name]()


@pytest.mark.parametrize("name", [
    "StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "LinearLR", "OneCycleLR",
    "SequentialLR", "LearningRateWarmup", "Halving"])
def test_a_schedule_is_copied_with_its_optimizer_and_goes_on(name, copied):
    optimizer = hvd.optim.SGD([hvd.tensor([1.0], requires_grad=True)], lr=0.5, momentum=0.5)
    schedule = make_schedule(name, optimizer)
    for _ in range(3):
        schedule.step()
    other, twin = copied((optimizer, schedule))
    assert type(twin) is type(schedule) and twin.last_epoch == 3
    for _ in range(4):
        schedule.step()
        twin.step()
        assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
        assert other.param_groups[0]["initial_lr"] == 0.5


def test_a_plateau_schedule_is_copied(copied):
    optimizer = hvd.optim.SGD([hvd.tensor([1.0], requires_grad=True)], lr=1.0)
    schedule = hvd.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    schedule.step(1.0)
    schedule.step(1.0)
    other, twin = copied((optimizer, schedule))
    for each in (schedule, twin):
        each.step(1.0)
    assert optimizer.param_groups[0]["lr"] == other.param_groups[0]["lr"] == 0.5


def test_a_schedule_of_a_lambda_travels_with_cloudpickle():
    optimizer = hvd.optim.SGD([hvd.tensor([1.0], requires_grad=True)], lr=1.0)
    schedule = hvd.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5 ** epoch)
    schedule.step()
    twin = pickle.loads(cloudpickle.dumps(schedule))
    twin.step()
    assert twin.get_last_lr() == [0.25] and schedule.get_last_lr() == [0.5]


def test_a_distributed_optimizer_says_what_to_copy_instead(world):
    inner = hvd.optim.SGD([hvd.tensor([1.0], requires_grad=True)], lr=1.0)
    outer = hvd.DistributedOptimizer(inner)
    for copied in COPIES.values():
        with pytest.raises(TypeError, match="copy the optimizer that it wraps"):
            copied(outer)
    with pytest.raises(AttributeError, match="wraps"):
        outer.defaults
    assert copy.deepcopy(inner).param_groups[0]["lr"] == 1.0


def test_they_travel_to_ranks_and_back():
    model = Net()
    optimizer = hvd.optim.Adam(model.parameters(), lr=0.5)
    step(model, optimizer)

    def train(model, optimizer):
        hvd.init()
        wrapped = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        step(model, wrapped, scale=hvd.rank() + 1.0)
        hvd.shutdown()
        return model, optimizer

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        trained = hvd.run(train, args=(model, optimizer), np=2)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    step(model, optimizer, scale=1.5)
    for twin, other in trained:
        np.testing.assert_allclose(values(twin), values(model), rtol=1e-5, atol=1e-6)
        step(twin, other)
    np.testing.assert_array_equal(values(trained[0][0]), values(trained[1][0]))
