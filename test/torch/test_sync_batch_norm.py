"""SyncBatchNorm against PyTorch's BatchNorm on the joined batch."""

import pytest


@pytest.mark.parametrize("np", [2, 4])
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
    for options in ({}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}):
        for dtype in (torch.float64, torch.float32):
            plain = kind(4, **options).to(dtype)
            if plain.affine:
                torch.nn.init.constant_(plain.weight, 1.5)
                torch.nn.init.constant_(plain.bias, -0.5)
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


@pytest.mark.parametrize("np", [2, 4])
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
