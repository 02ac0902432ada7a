"""NaN that shows, the largest numbers, what does not learn, and error texts."""

import math

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import nn, optim
from horovod_cpp.nn import functional as F

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("call", [
    lambda x: F.layer_norm(x, (4,)), lambda x: F.group_norm(x, 1),
    lambda x: F.batch_norm(x.reshape(-1, 1), None, None, training=True),
    lambda x: F.kl_div(x, hvd.zeros_like(x)), lambda x: F.kl_div(hvd.zeros_like(x), x),
    lambda x: x.std(1), lambda x: x.max(),
    lambda x: x.norm(), lambda x: x.norm(p=INF), lambda x: x.norm(p=0.5),
    lambda x: F.mse_loss(x, x),
    lambda x: F.huber_loss(x, x * 0), lambda x: x.clamp(0, 1), lambda x: F.softmax(x, 1),
    lambda x: F.leaky_relu(x), lambda x: x.relu(),
])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_shows(call, dtype):
    x = hvd.tensor([[0.25, 0.5, NAN, 0.75]], dtype=dtype)
    assert np.isnan(call(x).numpy()).any()


def test_nan_reaches_running_statistics_and_amsgrad():
    norm = nn.BatchNorm1d(2)
    norm(hvd.tensor([[NAN, 1.0], [1.0, 2.0]]))
    assert np.isnan(norm.running_var.tolist()).tolist() == [True, False]
    p = hvd.ones(2).requires_grad_()
    opt = optim.Adam([p], lr=0.1, amsgrad=True)
    for step in range(2):
        p.grad = hvd.tensor([NAN if step == 0 else 1.0, 1.0])
        opt.step()
    largest = opt.state_dict()["group.0.param.0.max_exp_avg_sq"]
    assert np.isnan(largest.tolist()).tolist() == [True, False]


def test_a_parameter_given_twice_is_named_in_the_constructor():
    a, b = hvd.ones(2).requires_grad_(), hvd.ones(2).requires_grad_()
    with pytest.raises(hvd.InvalidArgumentError, match="parameter 2 of group 0.*0 of group 0"):
        optim.SGD([a, b, a], lr=0.1)
    with pytest.raises(hvd.InvalidArgumentError, match="parameter 1 of group 1.*0 of group 0"):
        optim.SGD([{"params": [a]}, {"params": [b, a]}], lr=0.1)
    opt = optim.SGD([a], lr=0.1)
    with pytest.raises(hvd.InvalidArgumentError, match="parameter 0 of group 1.*0 of group 0"):
        opt.add_param_group({"params": [a]})


def test_adaptive_pooling_keeps_an_extent():
    x = hvd.rand(1, 2, 5, 6)
    for size, shape in [((None, 2), (5, 2)), ((3, None), (3, 6)), (None, (5, 6))]:
        assert F.adaptive_avg_pool2d(x, size).shape == (1, 2, *shape)
        assert nn.AdaptiveAvgPool2d(size)(x).shape == (1, 2, *shape)
    assert hvd.bitwise_equal(F.adaptive_avg_pool2d(x, (None, 2)), F.adaptive_avg_pool2d(x, (5, 2)))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("number", [INF, -INF, NAN, 1.5, 2, 2.0, 1e30, -1])
def test_integers_compare_with_any_number(dtype, number):
    x, a = hvd.tensor([0, 1, 2, 3], dtype=dtype), np.array([0, 1, 2, 3])
    for compare in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        assert getattr(x, compare)(number).tolist() == getattr(a, compare)(number).tolist()
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        assert getattr(hvd, name)(x, number).tolist() == getattr(a, f"__{name}__")(number).tolist()


def test_the_truth_of_complex_numbers():
    x = hvd.tensor([0j, 1j, 2 + 0j])
    assert hvd.logical_not(x).tolist() == [True, False, False]
    assert x.any().item() and not x.all().item() and bool(x[1])


@pytest.mark.parametrize("batch_first", [False, True])
def test_attention_of_one_sequence(batch_first):
    layer = nn.MultiheadAttention(4, 2, batch_first=batch_first).eval()
    q, k = hvd.randn(3, 4), hvd.randn(5, 4)
    axis = 0 if batch_first else 1
    for mask, padding in [(None, None), (hvd.rand(3, 5), hvd.tensor([False] * 4 + [True]))]:
        batched = padding.unsqueeze(0) if padding is not None else None
        want, weights = layer(q.unsqueeze(axis), k.unsqueeze(axis), k.unsqueeze(axis),
                              key_padding_mask=batched, attn_mask=mask)
        got, found = layer(q, k, k, key_padding_mask=padding, attn_mask=mask)
        assert got.shape == (3, 4) and hvd.bitwise_equal(got, want.squeeze(axis).contiguous())
        assert found.shape == (3, 5) and hvd.bitwise_equal(found, weights.squeeze(0))


@pytest.mark.parametrize("call, text", [
    (lambda: hvd.zeros(2).all(5), "all: axis 5"),
    (lambda: hvd.zeros(2).argsort(5), "argsort: axis 5"),
    (lambda: hvd.cat([]), "cat: no tensors"), (lambda: hvd.cat([hvd.ones(1)], 3), "cat: axis 3"),
    (lambda: hvd.stack([]), "stack: no tensors"), (lambda: hvd.concat([]), "concat: no tensors"),
    (lambda: hvd.matmul(hvd.ones(2, 2, dtype="int64"), hvd.ones(2, 2, dtype="int64")),
     "matmul: takes a floating dtype, got int64"),
    (lambda: F.linear(hvd.ones(2, 2, dtype="int32"), hvd.ones(2, 2, dtype="int32")),
     "linear: takes a floating dtype, got int32"),
    (lambda: F.conv2d(hvd.ones(1, 1, 2, 2, dtype="int64"), hvd.ones(1, 1, 1, 1, dtype="int64")),
     "conv2d: takes a floating dtype, got int64"),
    (lambda: hvd.ones(3).clamp(min=hvd.ones(2)), "clamp: shapes"),
    (lambda: hvd.ones(3).clamp(max=hvd.ones(2)), "clamp: shapes"),
    (lambda: hvd.zeros(0).norm(p=INF), "norm: axis 0 "),
    (lambda: hvd.zeros(2, 0).norm(p=INF, axis=1), "norm: axis 1 "),
    (lambda: F.binary_cross_entropy_with_logits(hvd.ones(2), hvd.ones(2), pos_weight=hvd.ones(3)),
     "binary_cross_entropy_with_logits: pos_weight: shape"),
    (lambda: F.binary_cross_entropy_with_logits(hvd.ones(2), hvd.ones(2), hvd.ones(3)),
     "binary_cross_entropy_with_logits: weight: shape"),
    (lambda: F.binary_cross_entropy(hvd.ones(2), hvd.ones(2), hvd.ones(3)),
     "binary_cross_entropy: weight: shape"),
])
def test_errors_name_the_function_that_was_called(call, text):
    with pytest.raises(hvd.InvalidArgumentError, match=text):
        call()


LARGEST = 2**63 - 1


@pytest.mark.parametrize("count, name", [(hvd.bincount, "bincount"), (hvd.one_hot, "one_hot")])
@pytest.mark.parametrize("value", [2**60, 2**62, LARGEST])
def test_no_value_is_too_large_to_be_refused(count, name, value):
    with pytest.raises(hvd.InvalidArgumentError, match=f"{name}: .*{value}"):
        count(hvd.tensor([3, value]))
    with pytest.raises(MemoryError):
        count(hvd.tensor([3, 2**55]))


def test_one_hot_counts_classes_beyond_the_fractions_of_a_float():
    with pytest.raises(MemoryError, match=rf"\[2, {2**56 + 2}\]"):
        hvd.one_hot(hvd.tensor([0, 2**56 + 1]))


@pytest.mark.parametrize("step", [3, 2**62, LARGEST])
def test_a_step_may_reach_beyond_the_end(step):
    x = hvd.arange(3).to("float32").requires_grad_()
    assert x.slice(0, 0, 3, step).tolist() == x[::step].tolist() == [0]
    assert x.slice(0, 1, 1, step).shape == (0,)
    x.slice(0, 1, 3, step).sum().backward()
    assert x.grad.tolist() == [0, 1, 0]


def test_the_largest_numbers_of_parts():
    x = hvd.arange(3)
    assert [part.tolist() for part in x.chunk(LARGEST)] == [[0], [1], [2]]
    assert [part.tolist() for part in x.split(LARGEST)] == [[0, 1, 2]]
    with pytest.raises(hvd.InvalidArgumentError, match="split: sizes"):
        x.split([LARGEST, LARGEST, 5])  # 3 once the sum overflows
    with pytest.raises(hvd.InvalidArgumentError, match="repeat: "):
        x.repeat(LARGEST)
    with pytest.raises(hvd.InvalidArgumentError, match="repeat: "):
        x.repeat(0, LARGEST)


@pytest.mark.parametrize("axes", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_given_statistics_lead_no_gradient_through_infinities(axes, dtype):
    x = hvd.tensor([INF, 1, 2], dtype=dtype).reshape(3, 1, *axes).detach().requires_grad_()
    y = F.batch_norm(x, hvd.zeros(1, dtype=dtype), hvd.ones(1, dtype=dtype) * 4, eps=0.0)
    y.sum().backward()
    assert x.grad.reshape(-1).tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("factor", [None, 0.5, 1.0, 3.0])
def test_the_slope_of_a_binary_target(factor, again):
    logits = np.array([-INF, -800.0, -2.0, -1e-9, 0.0, 1e-9, 2.0, 800.0, INF])
    target = hvd.zeros(9, dtype="float64").requires_grad_()
    pos_weight = None if factor is None else hvd.full((9,), factor, dtype="float64")
    loss = F.binary_cross_entropy_with_logits(hvd.tensor(logits, dtype="float64"), target,
                                              reduction="sum", pos_weight=pos_weight)
    slope, = hvd.grad(loss, [target], create_graph=again)
    other = np.log1p(np.exp(-np.abs(logits))) * ((factor or 1.0) - 1)
    expected = other - np.where(logits < 0, logits * (factor or 1.0), logits)
    np.testing.assert_allclose(slope.detach().numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["running_mean", "running_var"])
def test_running_statistics_do_not_learn(name, training):
    given = {"running_mean": hvd.zeros(2), "running_var": hvd.ones(2)}
    given[name].requires_grad_()
    x = hvd.randn(4, 2)
    with pytest.raises(hvd.InvalidArgumentError, match=f"batch_norm: .*respect to {name}"):
        F.batch_norm(x, **given, training=training)
    given[name] = given[name].detach()
    F.batch_norm(x, **given, training=training)


@pytest.mark.parametrize("make, target", [
    (lambda q: nn.CrossEntropyLoss(weight=q), [0, 1]), (lambda q: nn.NLLLoss(weight=q), [0, 1]),
    (lambda q: nn.BCEWithLogitsLoss(pos_weight=q), [[0.0, 1.0]] * 2),
])
def test_weights_of_classes_do_not_learn(make, target):
    x, q = hvd.randn(2, 2), hvd.ones(2).requires_grad_()
    with pytest.raises(hvd.InvalidArgumentError, match=r"not differentiable .*weight\.detach\(\)"):
        make(q)(x, hvd.tensor(target))
    with hvd.no_grad():
        make(q)(x, hvd.tensor(target))
    make(q.detach())(x, hvd.tensor(target))


def test_weights_of_probabilities_learn():
    x, target = hvd.randn(3, 2, dtype="float64"), hvd.rand(3, 2, dtype="float64")
    q = hvd.rand(2, dtype="float64").requires_grad_()
    hvd.gradcheck(
        lambda given: F.cross_entropy(x, target, weight=given[0], label_smoothing=0.1), [q])
