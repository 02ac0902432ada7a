"""Modules written in Python: what they register, how they are copied, what they train with."""

import copy
import gc
import pickle
import weakref

import cloudpickle
import pytest

import horovod_cpp as hvd
from horovod_cpp import io, models, nn, optim


class Net(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.fc = nn.Linear(4, width)
        self.scale = nn.Parameter(hvd.ones((width,)))
        self.register_buffer("shift", hvd.zeros((width,)))
        self.note = ["plain"]

    def forward(self, x):
        return self.fc(x) * self.scale + self.shift


class Tied(nn.Module):
    """The table of an embedding is the weight of the output, as in language models."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.table.weight

    def forward(self, words):
        return self.out(self.table(words))


class Wide(nn.Linear):
    def __init__(self, width):
        super().__init__(width, 2 * width)
        self.width = width

    def forward(self, x):
        return super().forward(x) + self.width


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(hvd.ones((2,)), requires_grad=False)
        self.shared = nn.ParameterList([self.table])
        self.register_parameter("again", self.table)
        self.scale = nn.Parameter(hvd.ones((2,)))


def names(module):
    return [name for name, _ in module.named_parameters()]


def equal_outputs(a, b, x):
    return hvd.bitwise_equal(a(x), b(x))


# -- registration


@pytest.mark.parametrize("value", [nn.Linear(2, 2), nn.Parameter(hvd.ones((2,)))])
def test_assigning_parts_before_super_init_names_the_call_that_is_missing(value):
    class Early(nn.Module):
        def __init__(self):
            self.part = value
            super().__init__()

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call: Early.__init__"):
        Early()


def test_plain_attributes_may_be_set_before_super_init():
    class Early(nn.Module):
        def __init__(self):
            self.width = 2
            self.width = 3
            super().__init__()
            self.fc = nn.Linear(self.width, 1)

    assert names(Early()) == ["fc.weight", "fc.bias"]


def test_forgetting_super_init_is_an_error_at_once():
    class Forgetful(nn.Module):
        def __init__(self):
            pass

    with pytest.raises(TypeError, match="__init__"):
        Forgetful()


def test_replacing_a_part_keeps_its_place():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = nn.Linear(2, 2)

    net = Two()
    net.a = nn.Linear(2, 3, bias=False)
    assert names(net) == ["a.weight", "b.weight", "b.bias"]
    assert net.a.weight.shape == (3, 2)


def test_none_and_del_take_parts_away():
    net = Net()
    net.fc = None
    assert names(net) == ["scale"] and net.fc is None
    net.fc = nn.Linear(4, 3)
    del net.scale
    assert names(net) == ["fc.weight", "fc.bias"]
    with pytest.raises(AttributeError):
        net.scale


@pytest.mark.parametrize("name, value, expected", [
    ("scale", hvd.ones((3,)), "nn.Parameter"), ("scale", 3.0, "nn.Parameter"),
    ("fc", "linear", "a Module"), ("shift", 3.0, "a Tensor")])
def test_a_registered_name_takes_nothing_of_another_kind(name, value, expected):
    net = Net()
    with pytest.raises(TypeError, match=f"'{name}': expected {expected}"):
        setattr(net, name, value)
    assert list(net.state_dict()) == ["scale", "shift", "fc.weight", "fc.bias"]


def test_assigning_a_tensor_to_a_buffers_name_replaces_the_buffer():
    net = Net()
    net.shift = hvd.ones((3,))
    assert net.state_dict()["shift"].tolist() == [1.0, 1.0, 1.0]


def test_a_buffer_that_is_not_persistent_is_not_saved():
    net = Net()
    net.register_buffer("cache", hvd.zeros((2,)), persistent=False)
    assert "cache" not in net.state_dict()
    assert [name for name, _ in net.named_buffers()] == ["shift", "cache"]
    assert len(net.buffers()) == 2
    assert net.to("float64").cache.dtype == "float64"


def test_none_can_be_registered_for_what_an_option_leaves_out():
    net = Net()
    net.register_parameter("bias", None)
    net.register_buffer("mask", None)
    net.add_module("extra", None)
    assert net.bias is net.mask is net.extra is None
    assert names(net) == ["scale", "fc.weight", "fc.bias"]


def test_parts_are_found_by_their_full_names():
    model = nn.Sequential(Net(), nn.ReLU())
    assert isinstance(model.get_submodule("0.fc"), nn.Linear)
    assert model.get_submodule("") is model
    assert model.get_parameter("0.fc.bias").shape == (3,)
    assert model.get_buffer("0.shift").shape == (3,)
    with pytest.raises(AttributeError, match="0.conv"):
        model.get_submodule("0.conv")


def test_every_leaf_that_requires_grad_is_a_parameter():
    assert isinstance(nn.Linear(2, 2).weight, nn.Parameter)
    assert isinstance(nn.Parameter(hvd.ones((2,))), hvd.Tensor)
    assert not isinstance(hvd.ones((2,)), nn.Parameter)
    assert not nn.Parameter(hvd.ones((2,)), requires_grad=False).requires_grad


def test_a_frozen_parameter_is_registered_and_stays_frozen(copied):
    for net in Positions(), copied(Positions()):
        assert list(net.state_dict()) == ["table", "again", "scale", "shared.0"]
        assert [p.requires_grad for p in net.parameters()] == [False, True]
        assert isinstance(net.table, nn.Parameter)
    with pytest.raises(hvd.InvalidArgumentError, match="floating dtype, not int64: register a buffer"):
        nn.Parameter(hvd.arange(3), requires_grad=False)


def test_a_module_is_no_part_of_itself():
    outer, inner = Net(), Net()
    outer.inner = inner
    for name in ("outer", "fc"):
        with pytest.raises(hvd.InvalidArgumentError, match=f"'{name}' of this Net is, or holds"):
            setattr(inner, name, outer)
    inner.outer = (outer,)
    assert len(outer.parameters()) == 6


@pytest.mark.parametrize("base, arguments", [
    (nn.Module, ()), (nn.Linear, (2, 2)),
    (optim.lr_scheduler.LRScheduler, (optim.SGD([nn.Parameter(hvd.ones((1,)))], lr=1.0),))])
def test_cycles_through_attributes_are_collected(base, arguments):
    class Cycle(base):
        def __init__(self):
            self.method = self.get_lr
            super().__init__(*arguments)

        def get_lr(self):
            return [1.0]

    gone = weakref.ref(Cycle())
    gc.collect()
    assert gone() is None


def test_native_and_python_modules_nest_in_both_directions():
    model = nn.Sequential(nn.Sequential(Net(), nn.Tanh()), nn.ModuleList([Net(2)])[0].fc)
    assert names(model) == ["0.0.scale", "0.0.fc.weight", "0.0.fc.bias", "1.weight", "1.bias"]


def test_training_can_be_assigned():
    net = Net()
    net.training = False
    assert not net.fc.training


# -- containers


def test_lists_of_modules_behave_like_lists():
    layers = nn.ModuleList([nn.ReLU()])
    layers[0] = nn.Tanh()
    layers.insert(0, nn.Linear(2, 2))
    layers += [nn.Sigmoid()]
    layers.append(nn.SiLU()).extend([nn.GELU()])
    assert [type(layer).__name__ for layer in layers] == [
        "Linear", "Tanh", "Sigmoid", "SiLU", "GELU"]
    assert [type(layer).__name__ for layer in layers[1:3]] == ["Tanh", "Sigmoid"]
    assert isinstance(layers.pop(), nn.GELU) and isinstance(layers[-1], nn.SiLU)
    del layers[1]
    assert len(layers) == 3 and names(layers) == ["0.weight", "0.bias"]
    with pytest.raises(IndexError, match="7 of 3 modules"):
        layers[7] = nn.ReLU()
    with pytest.raises(TypeError):
        layers.append(None)


def test_a_slice_of_a_sequential_shares_its_modules():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    features = model[:-1]
    assert isinstance(features, nn.Sequential) and len(features) == 2
    assert features[0] is model[0]
    model[2] = nn.Linear(2, 5)
    assert model(hvd.ones((1, 2))).shape == (1, 5)


def test_dicts_of_modules_behave_like_dicts():
    heads = nn.ModuleDict({"a": nn.Linear(2, 1)})
    heads.update({"b": nn.Linear(2, 2), "a": nn.Linear(2, 3)})
    assert list(heads) == ["a", "b"]
    assert heads["a"].weight.shape == (3, 2)
    assert heads.pop("b").weight.shape == (2, 2) and "b" not in heads
    with pytest.raises(KeyError, match="c"):
        heads.pop("c")


def test_containers_of_parameters_register_them():
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterList([hvd.ones((2,)) for _ in range(2)])
            self.scales = nn.ParameterDict({"a": hvd.ones((1,))})

        def forward(self, x):
            for weight in self.weights:
                x = x * weight
            return x * self.scales["a"]

    net = Mixture()
    assert names(net) == ["weights.0", "weights.1", "scales.a"]
    net(hvd.ones((3, 2))).sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    net.weights.append(hvd.zeros((2,)))
    net.weights[0] = hvd.full((2,), 5.0)
    net.scales["b"] = hvd.ones((1,))
    assert len(net.weights) == 3 and net.weights[-3].tolist() == [5.0, 5.0]
    assert net.scales.keys() == ["a", "b"] and net.scales.pop("a").shape == (1,)
    assert names(net) == ["weights.0", "weights.1", "weights.2", "scales.b"]
    for wrong in (lambda: net.weights[3], lambda: net.scales["a"]):
        with pytest.raises(LookupError):
            wrong()
    copied = copy.deepcopy(net)
    assert names(copied) == names(net) and len(copied.weights) == 3


# -- sharing


def test_a_shared_parameter_is_there_once_and_gets_both_gradients():
    net = Tied()
    assert names(net) == ["table.weight"]
    assert list(net.state_dict()) == ["table.weight", "out.weight"]
    net(hvd.tensor([1, 1])).sum().backward()
    both = net.table.weight.grad
    assert net.out.weight.is_same(net.table.weight) and (both[1].numpy() != both[0].numpy()).any()


def test_a_weight_of_another_shape_is_refused_and_changes_nothing():
    layer = nn.Linear(3, 2)
    with pytest.raises(hvd.InvalidArgumentError, match=r"\[2, 3\].*got \[3, 2\]"):
        layer.weight = nn.Parameter(hvd.ones((3, 2)))
    layer.bias = None
    assert layer.bias is None and names(layer) == ["weight"]
    layer.bias = nn.Parameter(hvd.ones((2,)))
    assert names(layer) == ["weight", "bias"]


# -- state dicts


def test_load_state_dict_that_is_not_strict_says_what_differs():
    net = Net()
    state = {"scale": hvd.full((3,), 2.0), "old.weight": hvd.ones((1,))}
    keys = net.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["shift", "fc.weight", "fc.bias"]
    assert keys.unexpected_keys == ["old.weight"]
    assert net.scale.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(hvd.InvalidArgumentError, match="'scale' has shape"):
        net.load_state_dict({"scale": hvd.ones((4,))}, strict=False)
    keys = net.load_state_dict(Net().state_dict())
    assert keys.missing_keys == keys.unexpected_keys == []


def test_the_last_layer_of_a_zoo_model_can_be_exchanged():
    model = models.resnet18(num_classes=10, cifar_stem=True).eval()
    model.fc = nn.Linear(model.fc.in_features, 2)
    assert model(hvd.zeros((1, 3, 8, 8))).shape == (1, 2)
    assert model.state_dict()["fc.weight"].shape == (2, 512)
    with pytest.raises(TypeError):
        model.fc = nn.ReLU()


# -- copies


def copies():
    yield "deepcopy", copy.deepcopy
    yield "pickle", lambda module: pickle.loads(pickle.dumps(module))
    yield "cloudpickle", lambda module: pickle.loads(cloudpickle.dumps(module))


@pytest.fixture(params=list(copies()), ids=[name for name, _ in copies()])
def copied(request):
    return request.param[1]


def make_half():
    return nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).to("float64")


def make_frozen():
    net = Net()
    net.fc.requires_grad_(False)
    net.fc.eval()
    return net


def make_appended():
    model = nn.Sequential(nn.Linear(4, 4))
    model.append(nn.Linear(4, 2)).append(nn.ModuleList([nn.Linear(2, 2)])[0])
    return model


@pytest.mark.parametrize("make", [
    Net, make_half, make_frozen, make_appended, lambda: nn.Linear(4, 2),
    lambda: nn.Sequential(Net(), nn.BatchNorm1d(3), nn.Dropout(0.5)).eval()])
def test_copies_are_equal_and_independent(copied, make):
    module = make()
    other = copied(module)
    x = hvd.randn((2, 4), dtype=module.parameters()[0].dtype)
    assert type(other) is type(module) and names(other) == names(module)
    assert list(other.state_dict()) == list(module.state_dict())
    for (path, a), (_, b) in zip(module.named_modules(), other.named_modules()):
        assert a.training == b.training, path
    for a, b in zip(module.parameters(), other.parameters()):
        assert hvd.bitwise_equal(a, b) and not a.is_same(b)
        assert a.requires_grad == b.requires_grad
    assert equal_outputs(module, other, x)
    with hvd.no_grad():
        other.parameters()[0].fill_(7.0)
    assert not equal_outputs(module, other, x)


def test_copying_draws_no_random_number(copied):
    net = Net()
    hvd.manual_seed(3)
    first = hvd.rand((4,)).tolist()
    hvd.manual_seed(3)
    copied(net)
    assert hvd.rand((4,)).tolist() == first


def test_copies_keep_what_is_shared(copied):
    net = copied(Tied())
    assert names(net) == ["table.weight"]
    assert net.out.weight.is_same(net.table.weight)
    shared = nn.ReLU()
    assert (pair := copied(nn.ModuleList([shared, shared])))[0] is pair[1]


def test_copies_keep_plain_attributes_and_buffers(copied):
    net = Net()
    net.register_buffer("cache", hvd.full((2,), 3.0), persistent=False)
    net.note.append("more")
    other = copied(net)
    assert other.note == ["plain", "more"] and other.note is not net.note
    assert other.cache.tolist() == [3.0, 3.0] and "cache" not in other.state_dict()
    assert other.shift.tolist() == net.shift.tolist()


@pytest.mark.full
def test_models_of_the_zoo_are_copied_with_what_was_put_into_them(copied):
    model = models.vgg11(num_classes=10, cifar_head=False, dropout=0.0)
    model.classifier[6] = nn.Linear(4096, 3)
    other = copied(model)
    x = hvd.randn((1, 3, 32, 32))
    assert other(x).shape == (1, 3) and equal_outputs(model, other, x)


def test_a_part_of_a_zoo_model_is_not_copied_alone():
    with pytest.raises(TypeError, match="part of a model.*copy the model"):
        copy.deepcopy(models.resnet18(num_classes=2).conv1)


def test_classes_with_constructor_arguments_of_their_own_are_copied(copied):
    layer = Wide(2)
    other = copied(layer)
    assert equal_outputs(layer, other, hvd.ones((1, 2)))


# -- training


@pytest.fixture
def world():
    hvd.init()
    yield
    hvd.shutdown()


@pytest.mark.parametrize("wrapped", ["optimizer", "module"])
def test_a_python_module_trains_and_resumes_bit_for_bit(world, wrapped, tmp_path):
    def make():
        hvd.manual_seed(1)
        net = Net()
        model = hvd.DistributedDataParallel(net) if wrapped == "module" else net
        inner = optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
        schedule = optim.lr_scheduler.ExponentialLR(inner, 0.5)
        if wrapped == "optimizer":
            inner = hvd.DistributedOptimizer(inner, net.named_parameters())
        return model, inner, schedule

    def step(model, optimizer, schedule):
        optimizer.zero_grad()
        (model(hvd.ones((2, 4))) ** 2).mean().backward()
        optimizer.step()
        schedule.step()

    whole = make()
    for _ in range(4):
        step(*whole)
    begun = make()
    for _ in range(2):
        step(*begun)
    parts = dict(zip(("model", "optimizer", "schedule"), begun))
    io.save_checkpoint(tmp_path / "run.safetensors", parts)
    resumed = make()
    checkpoint = io.load_checkpoint(tmp_path / "run.safetensors")
    for name, part in zip(("model", "optimizer", "schedule"), resumed):
        part.load_state_dict(checkpoint.part(name))
    for _ in range(2):
        step(*resumed)
    for a, b in zip(whole[0].parameters(), resumed[0].parameters()):
        assert hvd.bitwise_equal(a, b)


def test_modules_travel_to_ranks_and_back():
    class Local(nn.Module):  # as in a notebook: its class travels with it
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x):
            return self.fc(x)

    def train(net):
        hvd.init()
        optimizer = hvd.DistributedOptimizer(optim.SGD(net.parameters(), lr=0.5),
                                             net.named_parameters())
        hvd.broadcast_parameters(net.state_dict())
        net(hvd.full((1, 4), float(hvd.rank()))).sum().backward()
        optimizer.step()
        return net

    net = Local()
    trained = hvd.run(train, args=(net,), np=2)
    for before, a, b in zip(*(module.parameters() for module in (net, *trained))):
        assert hvd.bitwise_equal(a, b) and not hvd.bitwise_equal(before, a)
