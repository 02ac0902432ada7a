"""SyncBatchNorm against PyTorch's BatchNorm on the joined batch."""

from ranks import SIZES


@SIZES
def test_statistics_values_and_gradients_are_those_of_the_joined_batch(ranks, np):
    ranks.check("""
import copy
parts = {2: [3, 5], 4: [4, 0, 2, 1]}[size]  # a rank may have nothing

def joined(shape, dtype):
    random = torch.Generator().manual_seed(1)
    whole = torch.randn(sum(parts), *shape, generator=random, dtype=torch.float64) * 3 + 100
    return whole.to(dtype), torch.randn(sum(parts), *shape, generator=random, dtype=torch.float64).to(dtype)

def close(a, b, dtype):
    bound = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 0.1}[dtype]
    assert a.dtype == b.dtype and torch.allclose(a.double(), b.double(), atol=bound, rtol=bound), (a - b).abs().max()

for kind, shape in ((torch.nn.BatchNorm1d, (4,)), (torch.nn.BatchNorm1d, (4, 3)),
                    (torch.nn.BatchNorm2d, (4, 3, 2)), (torch.nn.BatchNorm3d, (4, 2, 1, 2))):
    for without, options in ((None, {}), (None, {"momentum": None}), (None, {"affine": False}),
                             (None, {"track_running_stats": False}), ("bias", {}), ("weight", {})):
        for dtype in (torch.float64, torch.float32):
            plain = kind(4, **options).to(dtype)
            if plain.affine:
                torch.nn.init.constant_(plain.weight, 1.5)
                torch.nn.init.constant_(plain.bias, -0.5)
            if without:  # as with bias=False in PyTorch 2
                setattr(plain, without, None)
            ours = hvd.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
            assert type(ours) is hvd.SyncBatchNorm
            for round in range(2):
                x, factors = joined(shape, dtype)
                own = x.split(parts)[rank].clone().requires_grad_()
                x.requires_grad_()
                want = plain(x)
                given = ours(own)
                close(given, want.split(parts)[rank], dtype)
                (want * factors).sum().backward()
                (given * factors.split(parts)[rank]).sum().backward()
                close(own.grad, x.grad.split(parts)[rank], dtype)
            for name, value in ours.state_dict().items():
                close(value, plain.state_dict()[name], dtype)
                assert same_everywhere(value)
            if plain.affine:  # each rank has its own part, as with a BatchNorm; an optimizer adds up
                for a, b in zip(ours.parameters(), plain.parameters()):
                    close(hvd.allreduce(a.grad, op=hvd.Sum), b.grad, dtype)
            plain.eval(), ours.eval()
            if rank == 0:  # alone, also where it takes the batch's own statistics
                close(ours(x.detach()), plain(x.detach()), dtype)
""", np=np)


@SIZES
def test_models_train_with_unique_names(ranks, np):
    ranks.check("""
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
                            torch.nn.Conv2d(4, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                            torch.nn.Linear(64, 2))
names = list(model.state_dict())
model = hvd.SyncBatchNorm.convert_sync_batchnorm(model)
assert list(model.state_dict()) == names
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
x = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(rank))
losses = []
for _ in range(10):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([0, 1, 0, 1]))
    loss.backward()
    optimizer.step()
    losses.append(float(loss))
assert losses[-1] < losses[0] and same_everywhere(*model.state_dict().values())
assert model[1]._name != model[4]._name

half = hvd.SyncBatchNorm(2)
y = half(torch.tensor([[1.0, 2.0], [3.0, 6.0]]).to(torch.bfloat16) + 10 * rank)
assert y.dtype == torch.bfloat16 and hvd.allreduce(y.float().sum(0), op=hvd.Sum).abs().max() < 0.1
with pytest.raises(ValueError, match="channels"):
    half(torch.ones(2, 3))
with pytest.raises(ValueError, match="axis of channels"):
    half(torch.ones(2))
with pytest.raises(ValueError, match="fewer than two"):
    hvd.SyncBatchNorm(2)(torch.ones(int(rank == 0), 2))
import copy, pickle
model = pickle.loads(pickle.dumps(model)), copy.deepcopy(model)
resumed = pickle.loads(pickle.dumps(half)) if rank == 0 else hvd.SyncBatchNorm(2)
resumed(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
alone = hvd.SyncBatchNorm(1, process_set=hvd.add_process_set([0]))
for copied in (copy.deepcopy(alone), pickle.loads(pickle.dumps(alone))):
    assert copied(torch.tensor([[1.0], [3.0]]) * (rank + 1)).detach().view(-1).tolist() == pytest.approx([-1, 1], abs=1e-4)
""", np=np)


def test_errors_and_reports_name_the_layer(ranks):
    text = ranks.check("""
import time
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.BatchNorm1d(2)))
model = hvd.SyncBatchNorm.convert_sync_batchnorm(model)
alone = hvd.SyncBatchNorm(2)
for layer, called in ((model, "SyncBatchNorm '1.0'"), (alone, "SyncBatchNorm")):
    x = torch.arange(8.0).reshape(4, 2).requires_grad_()
    twice = f"^backward of {called} cannot be differentiated: it has no second derivative$"
    first, = torch.autograd.grad((layer(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(hvd.InvalidArgumentError, match=twice):
        torch.autograd.grad(first.sum(), x)
    (layer(x) ** 3).sum().backward(create_graph=True)
    with pytest.raises(hvd.InvalidArgumentError, match=twice):
        x.grad.sum().backward()
    with pytest.raises(hvd.InvalidArgumentError, match=f"^{called}: .* fewer than two values"):
        layer(torch.ones(int(rank == 0), 2))
with pytest.raises(hvd.InvalidArgumentError, match="^SyncBatchNorm '1.0': input .* has 3 channels, not 2"):
    model[1](torch.ones(2, 3))
if rank == 0:
    time.sleep(3)
model(x)
""", environment={"HOROVOD_STALL_CHECK_TIME_SECONDS": "1"})
    assert "waiting in 'sync_batch_norm.1.0.forward' (allgather) for rank 0" in text, text
