"""SyncBatchNorm, DistributedDataParallel, DataParallel and average_gradients."""

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import nn


@pytest.mark.parametrize("np_, cuts", [(2, [0, 4, 9]), (4, [0, 1, 5, 7, 9])])
def test_sync_batch_norm_is_batch_norm_of_the_joined_batch(ranks, np_, cuts):
    ranks.check(f"""
cuts = {cuts}
first, last = cuts[rank], cuts[rank + 1]
values = np.random.default_rng(0).normal(2, 3, (9, 3, 2, 2))
weights = np.random.default_rng(1).normal(size=values.shape)

def step(layer, rows):
    layer.double()
    x = hvd.tensor(values[rows]).requires_grad_()
    y = layer(x)
    hvd.sum(y * hvd.tensor(weights[rows])).backward()
    return y, x

one = hvd.nn.BatchNorm2d(3)
want_y, want_x = step(one, slice(0, 9))
model = hvd.nn.Sequential(hvd.nn.BatchNorm2d(3))
assert hvd.nn.SyncBatchNorm.convert_sync_batchnorm(model) is model
for layer in (hvd.nn.SyncBatchNorm(3), model):
    y, x = step(layer, slice(first, last))
    np.testing.assert_allclose(y.detach().numpy(), want_y.detach().numpy()[first:last], atol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), want_x.grad.numpy()[first:last], atol=1e-12)
    hvd.average_gradients(layer, op=hvd.Sum)
    for mine, want in zip(layer.parameters(), one.parameters()):
        np.testing.assert_allclose(mine.grad.numpy(), want.grad.numpy(), atol=1e-10)
    np.testing.assert_allclose(layer.named_buffers()[1][1].numpy(), one.running_var.numpy(),
                               atol=1e-12)
""", np=np_)


def test_distributed_data_parallel_trains_a_python_module_of_any_arguments(ranks):
    ranks.check("""
class Net(hvd.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = hvd.nn.Linear(2, 1), hvd.nn.Linear(2, 1)

    def forward(self, x, which, scale=1.0):
        return {"y": (self.a if which == 0 else self.b)(x) * scale, "which": which}

hvd.manual_seed(rank)
net = Net()
model = hvd.DistributedDataParallel(net)
assert model.module is net and list(model.state_dict()) == list(net.state_dict())
optimizer = hvd.optim.SGD(model.parameters(), lr=0.5)
x = hvd.tensor([[2.0, 4.0]])
for _ in range(3):
    optimizer.zero_grad()
    out = model(x, rank, scale=2.0)
    assert out["which"] == rank
    hvd.sum(out["y"]).backward()
    for layer in (net.a, net.b):
        assert layer.weight.grad.tolist() == [[2.0, 4.0]] and layer.bias.grad.tolist() == [1.0]
    optimizer.step()
for tensor in model.parameters():
    assert hvd.bitwise_equal(hvd.broadcast(tensor, 0), tensor)

optimizer.zero_grad()
with model.no_sync():
    hvd.sum(model(x, 0)["y"]).backward()
    assert net.a.weight.grad.tolist() == [[2.0, 4.0]] and net.b.weight.grad is None
hvd.sum(model(x, 0)["y"]).backward()
assert net.a.weight.grad.tolist() == [[4.0, 8.0]]

seen = []
hook = model.register_forward_hook(lambda module, args, output: seen.append(module is model))
model(x, 0)
hook.remove()
assert seen == [True]

norm = hvd.nn.BatchNorm1d(2)
shared = hvd.DistributedDataParallel(norm, bucket_cap_mb=25, gradient_as_bucket_view=False)
norm.running_mean.fill_(rank)
shared(hvd.tensor([[1.0, 2.0], [3.0, 4.0]]))
assert hvd.bitwise_equal(hvd.broadcast(norm.running_mean, 0), norm.running_mean)
with pytest.raises(hvd.MismatchError):
    hvd.DistributedDataParallel(hvd.nn.Linear(2 + rank, 1))
with pytest.raises(hvd.InvalidArgumentError, match="bucket_cap_mb"):
    hvd.DistributedDataParallel(norm, bucket_cap_mb=-1)
""")


def test_average_gradients_takes_a_module_or_parameters(ranks):
    ranks.check("""
layer = hvd.nn.Linear(2, 1)
for what in (layer, layer.parameters(), iter(layer.parameters())):
    layer.weight.grad = hvd.tensor([[1.0 + 2 * rank, 4.0]])
    hvd.average_gradients(what)
    assert layer.weight.grad.tolist() == [[2.0, 4.0]] and layer.bias.grad is None
hvd.average_gradients(layer, op=hvd.Sum, compression=hvd.Compression.fp16, name="again")
assert layer.weight.grad.tolist() == [[4.0, 8.0]]
""")


class Doubled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, x):
        if (x.numpy() > 90).any():
            raise ValueError("too large")
        return self.inner(x) * 2.0


@pytest.mark.parametrize("rows", [1, 5, 8])
def test_data_parallel_computes_what_the_module_alone_does(rows):
    module = Doubled()
    model = hvd.DataParallel(module, replicas=3)
    assert model.module is module and model.replicas == 3
    assert list(model.state_dict()) == ["inner.weight", "inner.bias"]
    values = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
    results = []
    for each in (module, model):
        x = hvd.tensor(values).requires_grad_()
        each.zero_grad()
        y = each(x)
        hvd.sum(y * y).backward()
        results.append([y.detach().numpy(), x.grad.numpy(),
                        *(param.grad.numpy().copy() for param in module.parameters())])
    for want, got in zip(*results):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)


def test_an_error_in_a_replica_names_it():
    model = hvd.DataParallel(Doubled(), 2)
    x = np.zeros((4, 3), np.float32)
    x[3] = 99
    with pytest.raises(RuntimeError, match=r"(?s)replica 1 of 2 \(rows 2 to 3\).*too large"):
        model(hvd.tensor(x))
    with pytest.raises(hvd.InvalidArgumentError, match="replicas is 0"):
        hvd.DataParallel(Doubled(), 0)
    assert model(hvd.zeros((4, 3))).shape == (4, 2)
