"""Tensors, bools and floats where a number, an axis or a size is expected."""

import operator

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import nn, optim
from horovod_cpp.data import DataLoader, RandomSampler, Subset, TensorDataset
from horovod_cpp.nn import functional as F


def learnable(value=2.0, shape=()):
    return hvd.full(shape, value).requires_grad_()


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("use, slope", [
    (lambda w, q: w ** q, lambda w: w ** 2 * np.log(w)),
    (lambda w, q: hvd.pow(w, q), lambda w: w ** 2 * np.log(w)),
    (lambda w, q: w.pow(q), lambda w: w ** 2 * np.log(w)),
    (lambda w, q: 3 ** (q * w), lambda w: w * np.log(3) * 3 ** (2 * w)),
    (lambda w, q: hvd.clamp(w, min=q), lambda w: w < 2),
    (lambda w, q: w.clamp(max=q), lambda w: w > 2),
    (lambda w, q: w.clamp(-1, q), lambda w: w > 2), (lambda w, q: w.clamp(q, 5.0), lambda w: w < 2),
    (lambda w, q: w.masked_fill(w > 2, q), lambda w: w > 2),
    (lambda w, q: hvd.masked_fill(w, w > 2, q), lambda w: w > 2),
    (lambda w, q: hvd.where(w > 2, q, w), lambda w: w > 2),
    (lambda w, q: w.clone().fill_(q), np.ones_like),
])
def test_a_tensor_in_the_place_of_a_number_learns(use, slope, shape):
    w, q = hvd.tensor([0.5, 1.5, 3.0]), learnable(shape=shape)
    result = use(w, q)
    assert result.requires_grad and result.shape == (3,)
    result.sum().backward()
    assert q.grad.shape == shape
    assert q.grad.item() == pytest.approx(slope(w.numpy()).sum(), rel=1e-5)


@pytest.mark.parametrize("call", [
    lambda q: hvd.full((2,), q), lambda q: hvd.linspace(0, q, 3),
    lambda q: hvd.zeros(2).add_(hvd.ones(2), alpha=q), lambda q: hvd.ones(2).norm(p=q),
    lambda q: hvd.ones(2, 2).var(correction=q), lambda q: F.leaky_relu(hvd.ones(2), q),
    lambda q: F.dropout(hvd.ones(2), p=q), lambda q: nn.Dropout(q),
    lambda q: nn.LayerNorm(2, eps=q),
    lambda q: F.huber_loss(hvd.ones(2), hvd.zeros(2), delta=q), lambda q: nn.LeakyReLU(q),
    lambda q: optim.SGD([hvd.ones(2).requires_grad_()], lr=q),
    lambda q: optim.SGD([{"params": [hvd.ones(2).requires_grad_()], "lr": q}], lr=0.1),
    lambda q: nn.init.constant_(hvd.ones(2), q), lambda q: hvd.full_like(hvd.ones(2), q),
    lambda q: hvd.ones(2).index_add(0, hvd.tensor([0]), hvd.ones(1), alpha=q),
])
def test_a_tensor_that_requires_grad_is_no_number_elsewhere(call):
    q = learnable(0.5)
    with pytest.raises(hvd.InvalidArgumentError, match="taken as a number here and would not "
                       r"receive a gradient; use .item\(\) or detach\(\)"):
        call(q)
    with hvd.no_grad():
        call(q)
    call(q.detach())
    call(q.item())


@pytest.mark.parametrize("call", [
    lambda x, i: x.sum(i), lambda x, i: x.mean(axis=i), lambda x, i: x.sum((0, i)),
    lambda x, i: hvd.softmax(x, i), lambda x, i: x.softmax(dim=i), lambda x, i: F.softmax(x, i),
    lambda x, i: x.cumsum(i), lambda x, i: x.sort(i), lambda x, i: x.argmax(i),
    lambda x, i: hvd.cat([x, x], i), lambda x, i: x.unsqueeze(i), lambda x, i: x.transpose(0, i),
    lambda x, i: x.reshape(i, 4), lambda x, i: x.permute(0, i), lambda x, i: hvd.zeros(2, i),
    lambda x, i: hvd.zeros((2, i)), lambda x, i: x.topk(i), lambda x, i: x.split(i),
    lambda x, i: nn.Linear(i, 2), lambda x, i: nn.Conv2d(1, 1, i), lambda x, i: nn.LayerNorm(i),
    lambda x, i: hvd.randint(0, 9, (i,)), lambda x, i: hvd.eye(i), lambda x, i: x.size(i),
    lambda x, i: x.flatten(i), lambda x, i: x.tril(i),
])
def test_bools_and_other_tensors_are_no_integers(call):
    x = hvd.tensor([[1.0, 2.0], [3.0, 4.0]])
    call(x, 1)
    call(x, hvd.tensor(1))
    call(x, np.int32(1))
    with pytest.raises(TypeError, match="an integer is expected, not a bool"):
        call(x, True)
    for other in (hvd.tensor(True), hvd.tensor(0.7), 1.0):
        with pytest.raises(TypeError):
            call(x, other)


def test_the_older_forms_of_pytorch_mean_what_they_mean_there():
    a = np.array([[1.0, 2.0], [3.0, 7.0]], np.float32)
    x = hvd.tensor(a)
    for unbiased in (False, True):
        assert x.var(unbiased).item() == pytest.approx(a.var(ddof=unbiased))
        assert hvd.std(x, unbiased).item() == pytest.approx(a.std(ddof=unbiased))
        assert x.std(unbiased=unbiased).item() == pytest.approx(a.std(ddof=unbiased))
    assert hvd.max(x, hvd.tensor([2.5])).tolist() == [[2.5, 2.5], [3, 7]]
    assert x.min(hvd.tensor([2.5])).tolist() == [[1, 2], [2.5, 2.5]]
    assert hvd.max(x, other=x).tolist() == a.tolist()


@pytest.mark.parametrize("made, values, dtype", [
    (lambda: hvd.arange(2, 5), [2, 3, 4], "int64"), (lambda: hvd.arange(3), [0, 1, 2], "int64"),
    (lambda: hvd.arange(5, 1, -2), [5, 3], "int64"), (lambda: hvd.arange(end=2), [0, 1], "int64"),
    (lambda: hvd.arange(start=1, end=3), [1, 2], "int64"),
    (lambda: hvd.arange(3.0), [0, 1, 2], "float32"),
    (lambda: hvd.arange(1, 2, 0.5), [1, 1.5], "float32"),
    (lambda: hvd.arange(0.5, 2), [0.5, 1.5], "float32"),
    (lambda: hvd.arange(2, "float64"), [0, 1], "float64"),
    (lambda: hvd.arange(1, 3, dtype="int32"), [1, 2], "int32"),
    (lambda: hvd.linspace(start=0, end=1, steps=3), [0, 0.5, 1], "float32"),
    (lambda: hvd.full(size=(2,), fill_value=3), [3, 3], "float32"),
    (lambda: hvd.zeros(size=(1,)), [0], "float32"), (lambda: hvd.ones(shape=(1,)), [1], "float32"),
    (lambda: hvd.full_like(input=hvd.ones(1), fill_value=2), [2], "float32"),
    (lambda: hvd.zeros_like(input=hvd.ones(1)), [0], "float32"),
    (lambda: hvd.ones_like(hvd.arange(2)), [1, 1], "int64"),
    (lambda: hvd.eye(n=1, m=2), [[1, 0]], "float32"), (lambda: hvd.randperm(n=1), [0], "int64"),
    (lambda: hvd.randint(1, (2,)), [0, 0], "int64"),
    (lambda: hvd.randint(high=1, size=(2,)), [0, 0], "int64"),
    (lambda: hvd.randint(1, 2, size=(1,)), [1], "int64"),
])
def test_creation_takes_the_arguments_of_pytorch(made, values, dtype):
    tensor = made()
    assert (tensor.tolist(), tensor.dtype) == (values, dtype)


@pytest.mark.parametrize("a, b, dtype", [
    (hvd.tensor([1.5, 2.5]), 0, "float32"), (0.0, hvd.tensor([1, 2]), "int64"),
    (1.5, 0.0, "float32"), (1, 2, "int64"), (1, 2.5, "float32"),
])
def test_where_takes_numbers(a, b, dtype):
    result = hvd.where(hvd.tensor([True, False]), a, b)
    first, second = (hvd.tensor(v).numpy() * np.ones(2) for v in (a, b))
    assert (result.tolist(), result.dtype) == ([first[0], second[1]], dtype)
    with pytest.raises(hvd.InvalidArgumentError, match="1.5"):
        hvd.where(hvd.tensor([True]), hvd.tensor([1]), 1.5)


def batches(**options):
    return DataLoader(TensorDataset(hvd.ones(4, 1)), **{"batch_size": 2, **options})


@pytest.mark.parametrize("call", [
    lambda i: hvd.broadcast(hvd.ones(2), i), lambda i: hvd.reduce(hvd.ones(2), i),
    lambda i: hvd.gather(hvd.ones(2), i), lambda i: hvd.scatter(hvd.ones(2), i),
    lambda i: hvd.broadcast_(hvd.ones(2), i), lambda i: hvd.grouped_broadcast([hvd.ones(2)], i),
    lambda i: hvd.broadcast_parameters({"w": hvd.ones(2)}, i),
    lambda i: hvd.alltoall(hvd.ones(0), splits=[i]), lambda i: hvd.manual_seed(i), lambda i: hvd.Generator(i), lambda i: batches(seed=i),
    lambda i: batches(num_workers=i), lambda i: batches(batch_size=i + 1),
    lambda i: TensorDataset(hvd.ones(4, 1))[i], lambda i: RandomSampler(4, i).set_epoch(i),
    lambda i: Subset(TensorDataset(hvd.ones(4, 1)), [i]),
])
def test_bools_and_other_tensors_are_no_integers_of_collectives_and_data(world, call):
    call(0)
    call(hvd.tensor(0))
    call(np.int64(0))
    for other in (hvd.tensor(0.7), 0.7, "0"):
        with pytest.raises(TypeError):
            call(other)


@pytest.mark.parametrize("call", [
    lambda i: hvd.broadcast(hvd.ones(2), i), lambda i: batches(batch_size=i),
    lambda i: TensorDataset(hvd.ones(4, 1))[i], hvd.manual_seed,
])
def test_their_message_says_that_an_integer_is_expected(world, call):
    for other in (True, False, hvd.tensor(0.7), hvd.tensor(True)):
        with pytest.raises(TypeError, match="an integer is expected, not a"):
            call(other)


@pytest.mark.parametrize("call", [
    lambda q: hvd.allreduce(hvd.ones(2), prescale_factor=q),
    lambda q: hvd.allreduce(hvd.ones(2), postscale_factor=q),
    lambda q: hvd.allreduce_(hvd.ones(2), prescale_factor=q),
    lambda q: hvd.grouped_allreduce([hvd.ones(2)], prescale_factor=q),
    lambda q: hvd.reducescatter(hvd.ones(2), postscale_factor=q),
    lambda q: hvd.reduce(hvd.ones(2), 0, prescale_factor=q),
])
def test_a_factor_of_a_collective_would_not_learn(world, call):
    with pytest.raises(hvd.InvalidArgumentError, match="would not receive a gradient"):
        call(learnable(0.5))
    call(hvd.tensor(0.5))


@pytest.mark.parametrize("root", [hvd.tensor(0.7), hvd.tensor(True), 1.0, "1", True, None])
def test_the_root_of_an_object_is_checked_before_anything_is_sent(world, root):
    with pytest.raises(TypeError, match="^root_rank must be an int, got "):
        hvd.broadcast_object([1], root)
    assert hvd.broadcast_object([1], hvd.tensor(0)) == [1]


BIG = 2 ** 53 + 1


@pytest.mark.parametrize("value", [BIG, -BIG, 2 ** 63 - 1, -2 ** 63, np.int64(BIG)])
def test_integers_that_a_double_would_round_stay_exact_beside_int64(value):
    z = hvd.zeros(2, dtype="int64")
    mask = hvd.tensor([True, False])
    assert hvd.full((1,), value, dtype="int64").tolist() == [value]
    assert hvd.full_like(z, value).tolist() == [value] * 2
    assert z.clone().fill_(value).tolist() == [value] * 2
    assert z.masked_fill(mask, value).tolist() == [value, 0]
    assert hvd.where(mask, value, z).tolist() == [value, 0]
    assert hvd.where(mask, z, value).tolist() == [0, value]
    assert hvd.where(mask, value, 1).tolist() == [value, 1]
    assert hvd.gt(hvd.full_like(z, value), value).tolist() == [False] * 2
    assert hvd.eq(hvd.full_like(z, value), value).tolist() == [True] * 2
    bounded = z.clamp(min=value) if value > 0 else z.clamp(max=value)
    assert bounded.tolist() == [value] * 2
    z[0] = value
    assert z.tolist() == [value, 0]
    assert hvd.ones(1, dtype="int64").mul_(value).tolist() == [value]


@pytest.mark.parametrize("call", [
    lambda x: x.mul_(0.5), lambda x: operator.imul(x, 0.5), lambda x: operator.iadd(x, 0.5),
    lambda x: x.add_(x, alpha=0.5), lambda x: x.index_add(0, hvd.tensor([0]), x, alpha=0.5),
    lambda x: hvd.clamp(x, 0.5, 3), lambda x: hvd.clamp(x, 0, 0.5), lambda x: x.clamp(0.5, x),
    lambda x: x.masked_fill(x > 0, 0.5), lambda x: hvd.where(x > 0, 0.5, x)])
def test_integers_take_no_fractions(call):
    with pytest.raises(hvd.InvalidArgumentError, match="^the number 0.500000 is not a int64$"):
        call(hvd.tensor([7]))


def test_products_in_place_of_int32_are_modulo_its_range():
    assert hvd.tensor([2 ** 30], dtype="int32").mul_(4).tolist() == [0]
    assert hvd.tensor([7]).mul_(hvd.tensor(2)).mul_(3.0).tolist() == [42]


def test_ranges_of_such_integers_are_exact():
    assert hvd.arange(2 ** 53, 2 ** 53 + 3).tolist() == [2 ** 53, 2 ** 53 + 1, 2 ** 53 + 2]
    assert hvd.arange(BIG + 4, BIG, -2).tolist() == [BIG + 4, BIG + 2]
    assert hvd.arange(2 ** 63 - 2, 2 ** 63 - 1).tolist() == [2 ** 63 - 2]


@pytest.mark.parametrize("value", [
    np.float32(1), np.float64(1), np.int64(1), np.uint8(1), np.True_, np.array(1.0), 1, 1.0, True,
])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_numbers_of_numpy_are_assigned(value, dtype):
    z = hvd.zeros(2, dtype=dtype)
    z[0] = value
    assert z.tolist() == [1, 0] and z.dtype == dtype


def test_the_index_of_a_bool_is_an_int():
    assert type(operator.index(hvd.tensor(True))) is int
    assert [5, 6][hvd.tensor(True)] == 6


@pytest.mark.parametrize("call", [
    lambda: nn.Conv2d(1, 1, hvd.tensor(2.0)),
    lambda: F.conv2d(hvd.ones(1, 1, 3, 3), hvd.ones(1, 1, 1, 1), stride=hvd.tensor(True)),
])
def test_a_scalar_in_the_place_of_a_pair_is_told_what_is_expected(call):
    with pytest.raises(TypeError, match="an integer is expected, not a tensor of"):
        call()
    assert nn.Conv2d(1, 1, hvd.tensor(2)).weight.shape == (1, 1, 2, 2)
    assert nn.Conv2d(1, 1, (hvd.tensor(2), 3)).weight.shape == (1, 1, 2, 3)


def test_the_arguments_of_a_job_are_named():
    with pytest.raises(TypeError, match=r"hvd.run: args must be a tuple or list .*got 3 \(int\)"):
        hvd.run(print, args=3, np=1)
    with pytest.raises(TypeError, match=r"hvd.run: kwargs must be a dict, got 3 \(int\)"):
        hvd.run(print, kwargs=3, np=1)
