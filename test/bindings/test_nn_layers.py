"""Layers, functions, hooks and containers of the model layer, from Python."""

import math

import numpy as np
import pytest

import horovod_cpp as hvd
import horovod_cpp.nn.functional as F
from horovod_cpp import nn


def array(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def tensor(*shape, seed=0):
    return hvd.tensor(array(*shape, seed=seed))


class Attention(nn.Module):
    """Several inputs, several outputs, parts of every kind."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.scale = nn.Parameter(hvd.ones((1,)))
        self.register_buffer("seen", hvd.zeros((), dtype="int64"))

    def forward(self, query, memory, double=False):
        out, weights = self.attention(query, memory, memory)
        return (out * 2.0 if double else out) * self.scale, weights


def test_python_modules_take_and_return_what_they_like():
    net = Attention()
    query, memory = tensor(2, 3, 4), tensor(2, 5, 4, seed=1)
    out, weights = net(query, memory)
    twice, _ = net(query, memory, double=True)
    assert out.shape == (2, 3, 4) and weights.shape == (2, 3, 5)
    np.testing.assert_allclose(twice.numpy(), 2 * out.numpy(), rtol=1e-6)
    np.testing.assert_allclose(weights.numpy().sum(-1), 1, rtol=1e-5)
    hvd.sum(out).backward()
    assert net.scale.grad is not None and net.attention.parameters()[0].grad is not None
    assert net.seen.item() == 0


def test_assigned_parts_can_be_replaced_and_deleted():
    net = Attention()
    net.attention = nn.Linear(3, 2)
    assert [name for name, _ in net.named_parameters()] == [
        "scale", "attention.weight", "attention.bias"]
    net.seen = hvd.ones((), dtype="int64")
    assert net.state_dict()["seen"].item() == 1
    del net.scale
    assert [name for name, _ in net.named_parameters()] == ["attention.weight", "attention.bias"]
    net.attention = None
    assert net.parameters() == [] and net.attention is None


def test_modules_are_listed_with_their_paths():
    model = nn.Sequential(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), nn.Tanh())
    assert [name for name, _ in model.named_modules()] == ["", "0", "0.0", "0.1", "1"]
    assert model.modules()[0] is model and len(model.children()) == 2
    assert len(list(model)) == 2 and model[-1] is model[1]


def test_switches_return_the_module():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert model.eval().double().requires_grad_(False) is model
    assert not model.training
    assert {p.dtype for p in model.parameters()} == {hvd.zeros((1,), dtype="float64").dtype}
    assert not any(p.requires_grad for p in model.parameters())
    assert model.to("float32").train() is model and model.training


def test_a_module_may_keep_parts_of_itself_in_evaluation():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)

        def train(self, mode=True):
            super().train(mode)
            self.norm.eval()
            return self

        def forward(self, input):
            return self.norm(input)

    model = nn.Sequential(Frozen())
    model.train()
    assert model.training and not model[0].norm.training


def test_hooks_see_and_replace_and_go():
    linear = nn.Linear(1, 1, bias=False)
    nn.init.constant_(linear.weight, 2.0)
    seen = []
    first = linear.register_forward_pre_hook(lambda module, args: (args[0] + 1.0,))
    second = linear.register_forward_hook(
        lambda module, args, output: seen.append((module is linear, args[0].item(), output.item())))
    third = linear.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append(
            (grad_input[0].item(), grad_output[0].item())))
    x = hvd.tensor([[3.0]], requires_grad=True)
    (nn.Sequential(linear)(x) * 5.0).backward()
    assert seen == [(True, 4.0, 8.0), (10.0, 5.0)]
    for handle in (first, second, third):
        handle.remove()
    linear(x)
    assert len(seen) == 2
    linear.register_full_backward_hook(lambda module, grad_input, grad_output: hvd.ones(2))
    with pytest.raises(hvd.InvalidArgumentError, match=r"hook gave a gradient \[2\].* \[1, 1\]"):
        linear(x).backward()


def test_hooks_of_a_python_module_see_its_first_input_and_output():
    net = Attention()
    net.register_forward_hook(lambda module, args, output: output * 0.0)
    out, weights = net(tensor(2, 3, 4), tensor(2, 5, 4))
    assert (out.numpy() == 0).all() and (weights.numpy() != 0).all()


def test_hooks_get_their_module_after_its_python_name_is_gone():
    seen = []
    model = nn.Sequential(nn.Linear(1, 1))
    model[0].register_forward_hook(lambda module, args, output: seen.append(module))
    model(hvd.ones((1, 1)))
    del model
    assert isinstance(seen[0], nn.Linear) and seen[0].weight.shape == (1, 1)


def test_what_a_hook_raises_arrives():
    def broken(module, args):
        raise KeyError("hook")

    linear = nn.Linear(1, 1)
    linear.register_forward_pre_hook(broken)
    with pytest.raises(KeyError, match="hook"):
        linear(hvd.ones((1, 1)))


def test_errors_name_the_layer_by_its_path_and_both_shapes():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Sequential(nn.ReLU(), nn.Linear(3, 2))

        def forward(self, input):
            return self.head(input)

    with pytest.raises(hvd.InvalidArgumentError, match=r"'head.1' \(Linear\).*\[1, 5\].*\[2, 3\]"):
        Net()(hvd.ones((1, 5)))
    with pytest.raises(hvd.InvalidArgumentError, match=r"Embedding.*index 9.*\[4, 2\]"):
        nn.Embedding(4, 2)(hvd.tensor([9]))


def test_lists_and_dicts_of_modules():
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
    layers.append(nn.ReLU())
    assert len(layers) == 3 and isinstance(layers[-1], nn.ReLU)
    assert [name for name, _ in layers.named_parameters()][-1] == "1.bias"
    heads = nn.ModuleDict({"a": nn.Linear(2, 1)})
    heads["b"] = nn.Linear(2, 3)
    assert list(heads) == ["a", "b"] and "b" in heads and heads["b"].weight.shape == (3, 2)
    assert [name for name, _ in heads.items()] == ["a", "b"] and len(heads.values()) == 2
    del heads["a"]
    with pytest.raises(KeyError):
        heads["a"]
    with pytest.raises(TypeError):
        nn.ModuleList([3])


def test_activations_match_numpy():
    x = array(3, 4)
    t = hvd.tensor(x)
    wide = x.astype(np.float64)
    sigmoid = 1 / (1 + np.exp(-wide))
    erf = np.vectorize(math.erf)(wide / np.sqrt(2))
    for layer, function, want in [
        (nn.Sigmoid(), F.sigmoid, sigmoid),
        (nn.Tanh(), F.tanh, np.tanh(wide)),
        (nn.SiLU(), F.silu, wide * sigmoid),
        (nn.GELU(), F.gelu, wide * (1 + erf) / 2),
        (nn.LeakyReLU(0.1), lambda a: F.leaky_relu(a, 0.1), np.where(wide > 0, wide, 0.1 * wide)),
        (nn.Softmax(1), lambda a: F.softmax(a, dim=1),
         np.exp(wide) / np.exp(wide).sum(1, keepdims=True)),
        (nn.Identity(), F.relu, None),
    ]:
        if want is None:
            assert layer(t).is_same(t)
            continue
        np.testing.assert_allclose(layer(t).numpy(), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(function(t).numpy(), want, rtol=1e-5, atol=1e-6)
    with pytest.raises(hvd.InvalidArgumentError, match="'none' or 'tanh'"):
        nn.GELU("erf")


def test_pooling_takes_numbers_and_pairs():
    x = tensor(2, 3, 7, 6)
    assert nn.MaxPool2d(3, 2, 1, ceil_mode=True)(x).shape == (2, 3, 4, 4)
    assert nn.MaxPool2d((2, 3), stride=(2, 1))(x).shape == (2, 3, 3, 4)
    assert nn.AvgPool2d(2)(x).shape == F.avg_pool2d(x, 2).shape == (2, 3, 3, 3)
    mean = nn.AdaptiveAvgPool2d((1, 1))(x).numpy()
    np.testing.assert_allclose(mean[..., 0, 0], x.numpy().mean((2, 3)), rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError):
        nn.MaxPool2d("3")


def test_normalisation_options():
    x = tensor(8, 3, seed=4)
    bare = nn.BatchNorm1d(3, affine=False, track_running_stats=False).eval()
    assert bare.parameters() == [] and bare.running_mean is None and bare.weight is None
    np.testing.assert_allclose(bare(x).numpy().mean(0), 0, atol=1e-6)
    mean = nn.BatchNorm1d(3, momentum=None)
    mean(x)
    mean(x * 3.0)
    np.testing.assert_allclose(mean.running_mean.numpy(), 2 * x.numpy().mean(0), rtol=1e-5)
    assert nn.LayerNorm([2, 3])(tensor(4, 2, 3)).shape == (4, 2, 3)
    assert nn.LayerNorm(3).weight.shape == (3,)
    assert F.group_norm(tensor(2, 4, 5), 2).shape == (2, 4, 5)


def test_recurrent_layers_return_output_and_state():
    x = tensor(5, 2, 3)
    lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    out, (h, c) = lstm(x)
    assert (out.shape, h.shape, c.shape) == ((5, 2, 8), (4, 2, 4), (4, 2, 4))
    again, _ = lstm(x, (h, c))
    assert not np.allclose(again.numpy(), out.numpy())
    gru = nn.GRU(3, 4, batch_first=True)
    out, h = gru(tensor(2, 5, 3))
    np.testing.assert_array_equal(out.numpy()[:, -1], h.numpy()[0])
    assert list(gru.state_dict()) == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]


def test_dropout_between_recurrent_layers_is_for_training():
    gru = nn.GRU(3, 16, num_layers=2, dropout=0.5)
    x = tensor(5, 2, 3)
    assert not np.array_equal(gru(x)[0].numpy(), gru(x)[0].numpy())
    gru.eval()
    np.testing.assert_array_equal(gru(x)[0].numpy(), gru(x)[0].numpy())


def test_a_causal_encoder_does_not_look_ahead():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu")
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))
    mask = hvd.tensor(np.triu(np.ones((4, 4), dtype=bool), 1))
    x = array(1, 4, 8)
    changed = x.copy()
    changed[0, 3] += 1
    a, b = (encoder(hvd.tensor(v), mask=mask).numpy() for v in (x, changed))
    np.testing.assert_array_equal(a[0, :3], b[0, :3])
    assert not np.allclose(a[0, 3], b[0, 3])
    names = [name for name, _ in encoder.named_parameters()]
    assert "layers.1.self_attn.out_proj.weight" in names and names[-1] == "norm.bias"


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_reduce(reduction):
    x, t = array(4, 3), array(4, 3, seed=1)
    reduce = {"none": lambda v: v, "mean": np.mean, "sum": np.sum}[reduction]
    for loss, want in [
        (nn.MSELoss(reduction=reduction), (x - t) ** 2),
        (nn.L1Loss(reduction=reduction), abs(x - t)),
        (nn.HuberLoss(reduction=reduction, delta=0.5),
         np.where(abs(x - t) < 0.5, (x - t) ** 2 / 2, 0.5 * (abs(x - t) - 0.25))),
        (nn.BCEWithLogitsLoss(reduction=reduction), np.log1p(np.exp(x)) - t * x),
    ]:
        got = loss(hvd.tensor(x), hvd.tensor(t)).numpy()
        np.testing.assert_allclose(got, reduce(want), rtol=1e-4, atol=1e-6)


def test_cross_entropy_knows_weights_smoothing_and_ignored_targets():
    logits, targets = tensor(4, 3), hvd.tensor([0, 2, -100, 1])
    plain = nn.CrossEntropyLoss(reduction="none")(logits, targets).numpy()
    assert plain[2] == 0 and (plain[[0, 1, 3]] > 0).all()
    assert F.cross_entropy(logits, targets).item() == pytest.approx(plain.sum() / 3, rel=1e-5)
    weighted = nn.CrossEntropyLoss(weight=hvd.tensor([1.0, 2.0, 4.0]), label_smoothing=0.1)
    assert weighted(logits, targets).item() > 0 and list(weighted.state_dict()) == ["weight"]
    assert F.nll_loss(F.log_softmax(logits, 1), targets).item() == pytest.approx(
        plain.sum() / 3, rel=1e-5)
    with pytest.raises(hvd.InvalidArgumentError, match="target 3 at index 1"):
        F.cross_entropy(logits, hvd.tensor([0, 3, 0, 0]))
    with pytest.raises(hvd.InvalidArgumentError, match="'none', 'mean', 'sum'"):
        nn.MSELoss(reduction="average")


def test_initialisers_return_their_tensor_and_apply_to_models():
    weight = nn.init.orthogonal_(hvd.zeros((4, 6)), gain=2.0).numpy()
    np.testing.assert_allclose(weight @ weight.T, 4 * np.eye(4), atol=1e-5)
    assert abs(nn.init.trunc_normal_(hvd.zeros((1000,)), std=2.0, a=-1.0, b=1.0).numpy()).max() <= 1
    fan_out = nn.init.kaiming_normal_(hvd.zeros((400, 50)), mode="fan_out", nonlinearity="relu")
    assert fan_out.numpy().std() == pytest.approx(np.sqrt(2 / 400), rel=0.05)
    fan_in = nn.init.kaiming_normal_(hvd.zeros((400, 50))).numpy()
    assert fan_in.std() == pytest.approx(np.sqrt(2 / 50), rel=0.05)
    assert 0.3 < abs(nn.init.xavier_uniform_(hvd.zeros((20, 30))).numpy()).max() <= np.sqrt(6 / 50)
    assert nn.init.calculate_gain("tanh") == pytest.approx(5 / 3)
    with pytest.raises(hvd.InvalidArgumentError, match="'fan_in' or 'fan_out'"):
        nn.init.kaiming_normal_(hvd.zeros((2, 2)), mode="fan")

    def reset(module):
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.weight)
            nn.init.ones_(module.bias)

    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 1))).apply(reset)
    assert model(hvd.ones((1, 2))).item() == 1
