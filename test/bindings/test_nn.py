import gc

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.scale = hvd.ones((3,)).requires_grad_()
        self.note = "no parameter"
        self.register_buffer("steps", hvd.zeros((), dtype="int64"))

    def forward(self, input):
        return hvd.relu(self.first(input)) * self.scale


def make_mlp():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def test_sequential_names_parameters_like_pytorch():
    model = make_mlp()
    assert [name for name, _ in model.named_parameters()] == [
        "0.weight", "0.bias", "2.weight", "2.bias"]
    assert list(model.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert model.state_dict()["2.weight"].shape == (2, 3)
    assert len(model) == 3 and isinstance(model[1], nn.ReLU)
    with pytest.raises(IndexError):
        model[3]
    with pytest.raises(TypeError):
        nn.Sequential("layer")


def test_state_dict_holds_the_modules_own_tensors():
    model = make_mlp()
    model.state_dict()["0.bias"].numpy()[:] = 7
    assert model.parameters()[1].tolist() == [7.0, 7.0, 7.0]


def test_load_state_dict_copies_and_refuses_what_does_not_fit():
    source, target = make_mlp(), make_mlp()
    target.load_state_dict(source.state_dict())
    for a, b in zip(source.parameters(), target.parameters()):
        assert hvd.bitwise_equal(a, b) and not a.is_same(b)
    state = source.state_dict()
    del state["0.bias"]
    state["extra"] = hvd.zeros((1,))
    with pytest.raises(hvd.InvalidArgumentError, match="0.bias"):
        target.load_state_dict(state)
    with pytest.raises(TypeError):
        target.load_state_dict({"0.weight": 3})


def test_python_modules_register_what_is_assigned():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias"]
    assert [name for name, _ in net.named_buffers()] == ["steps"]
    assert net(hvd.ones((2, 4))).shape == (2, 3)
    assert net.note == "no parameter"


def test_a_python_module_works_inside_sequential_after_its_python_name_is_gone():
    model = nn.Sequential(Net(), nn.Linear(3, 1))
    gc.collect()
    hvd.sum(model(hvd.ones((2, 4)))).backward()
    assert model.state_dict()["0.scale"].grad is not None


def test_what_forward_raises_arrives_unchanged():
    class Broken(nn.Module):
        def forward(self, input):
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        nn.Sequential(Broken())(hvd.ones((1, 1)))


def test_train_and_eval_reach_the_layers():
    model = nn.Sequential(nn.Dropout(0.5), nn.Flatten())
    x = hvd.ones((1, 1000))
    hvd.manual_seed(0)
    assert 300 < (model(x).numpy() == 0).sum() < 700
    model.eval()
    assert not model.training
    np.testing.assert_array_equal(model(x).numpy(), x.numpy())


def test_param_groups_are_dicts_whose_lr_can_be_changed():
    x, y = (hvd.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([{"params": [x]}, {"params": [y], "lr": 0.25}], lr=1.0)
    first, second = optimizer.param_groups
    assert (first["lr"], second["lr"]) == (1.0, 0.25)
    assert first["params"][0].is_same(x)
    assert "momentum" in first and "lr" in dict(first.items())
    optimizer.param_groups[0]["lr"] = 0.5
    hvd.sum(x + y).backward()
    optimizer.step()
    assert (x.item(), y.item()) == (0.5, 0.75)
    with pytest.raises(KeyError):
        first["learning_rate"] = 1


@pytest.mark.parametrize("params", [[], "x", [3], [{"params": []}]])
def test_wrong_parameters_are_refused(params):
    with pytest.raises((TypeError, hvd.InvalidArgumentError)):
        optim.SGD(params)
