"""Parameters and the state of optimizers, from one rank to the others."""

import pytest


@pytest.mark.parametrize("np", [2, 4])
def test_parameters_of_the_root_everywhere(ranks, np):
    ranks.check("""
torch.manual_seed(rank)
def make():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                               torch.nn.Linear(64, 2))
model = make()
model(torch.randn(2, 3, 6, 6))
model[0].to(memory_format=torch.channels_last)
assert not model[0].weight.is_contiguous()
before = [t.clone() for t in model.state_dict().values()]
hvd.broadcast_parameters(model.state_dict(), root_rank=1)
after = list(model.state_dict().values())
assert same_everywhere(*after)
if rank == 1:
    assert all(torch.equal(a, b) for a, b in zip(before, after))
assert not model[0].weight.is_contiguous() and model[1].num_batches_tracked.dtype == torch.int64
hvd.broadcast_parameters(model.named_parameters(), 0)
half = [torch.full((3,), float(rank), dtype=torch.bfloat16), None, torch.tensor(rank == 0)]
hvd.broadcast_parameters(half, 0)
assert half[0].tolist() == [0.0] * 3 and half[2]
with pytest.raises(TypeError, match="extra"):
    hvd.broadcast_parameters({"extra": 3}, 0)
for wrong in (model, 5, None):
    with pytest.raises(TypeError, match=r"model.state_dict\\(\\) or model.named_parameters\\(\\)"):
        hvd.broadcast_parameters(wrong, 0)
with pytest.raises(hvd.MismatchError, match="w"):
    hvd.broadcast_parameters({"w": torch.ones(2 + rank)}, 0)
with pytest.raises(hvd.InvalidArgumentError, match="'narrow': .* share memory"):
    hvd.broadcast_parameters({"narrow": torch.ones(1).expand(3)}, 0)
for wrong, root in ((0, 0), (size - 1, 0)):
    bad = torch.ones(1).expand(3) if rank == wrong else torch.ones(3)
    with pytest.raises(hvd.InvalidArgumentError if rank == wrong else hvd.MismatchError,
                       match="'narrow': .* share memory"):
        hvd.broadcast_parameters({"narrow": bad}, root)
turned = torch.tensor([1 + 1j]).mul(rank + 1).conj()
hvd.broadcast_parameters([turned], 1)
assert turned.tolist() == [2 - 2j]
with pytest.raises(ValueError, match="root"):
    hvd.broadcast_parameters(model.state_dict(), 7)
assert hvd.allreduce(torch.ones(1), op=hvd.Sum)[0] == size
""", np=np)


@pytest.mark.parametrize("np", [2, 4])
def test_state_of_every_optimizer_without_side_effects(ranks, np):
    ranks.check("""
import copy
optim = torch.optim
kinds = {name: getattr(optim, name) for name in dir(optim) if isinstance(getattr(optim, name), type)
         and issubclass(getattr(optim, name), optim.Optimizer) and name != "Optimizer"}
options = {"SGD": [{}, {"momentum": 0.9}], "Adam": [{}, {"amsgrad": True}, {"capturable": False}],
           "RMSprop": [{"centered": True, "momentum": 0.5}], "LBFGS": [{"history_size": 3}]}
assert {"SGD", "Adam", "AdamW", "Adagrad", "LBFGS", "SparseAdam", "Rprop"} <= set(kinds)

def model():
    torch.manual_seed(5)
    return torch.nn.Embedding(4, 3, sparse=True), torch.nn.Linear(3, 3), torch.nn.Linear(2, 2)

def make(name, given):
    embedding, layer, unused = model()
    if name == "SparseAdam":
        return kinds[name](list(embedding.parameters()), lr=0.125), embedding, layer
    parameters = list(layer.parameters()) + list(unused.parameters())
    if name == "Muon":
        parameters = [p for p in parameters if p.dim() == 2]
    parameters[-1].requires_grad_(False)  # frozen: it never has state
    groups = [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.25}]
    if name == "LBFGS":
        groups = [p for p in parameters if p.requires_grad]
    return kinds[name](groups, lr=0.125, **given), embedding, layer

def train(optimizer, embedding, layer, steps):
    for step in range(steps):
        def closure():
            optimizer.zero_grad()
            x = embedding(torch.tensor([step % 4, 1]))
            if type(optimizer).__name__ != "SparseAdam":
                x = x.detach()
            loss = layer(x).pow(2).sum()
            loss.backward()
            return loss
        optimizer.step(closure)

def flat(value):
    if isinstance(value, torch.Tensor):
        return (str(value.dtype), value.tolist())
    if isinstance(value, dict):
        return {str(key): flat(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [flat(each) for each in value]
    return value

for name, kind in sorted(kinds.items()):
    for given in options.get(name, [{}]):
        optimizer, embedding, layer = make(name, given)
        if rank == 0:
            train(optimizer, embedding, layer, 3)
            optimizer.param_groups[0]["lr"] = 0.5
            optimizer.param_groups[0]["initial_lr"] = 0.75
        before = flat(copy.deepcopy(optimizer.state_dict()))
        values = flat([p for group in optimizer.param_groups for p in group["params"]])
        gradients = flat([p.grad for group in optimizer.param_groups for p in group["params"]
                          if p.grad is not None and not p.grad.is_sparse])
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        after = flat(optimizer.state_dict())
        assert after == hvd.broadcast_object(after, 0), name
        if rank == 0:
            assert after == before, name
        assert optimizer.param_groups[0]["lr"] == 0.5
        assert values == flat([p for group in optimizer.param_groups for p in group["params"]])
        assert gradients == flat([p.grad for group in optimizer.param_groups for p in group["params"]
                                  if p.grad is not None and not p.grad.is_sparse])
        hvd.broadcast_parameters(list(layer.parameters()) + list(embedding.parameters()), 0)
        train(optimizer, embedding, layer, 2)  # all go on alike
        assert same_everywhere(*layer.parameters(), embedding.weight), name

# Containers of any kind in the state of an optimizer of one's own.
import collections
weight = torch.nn.Parameter(torch.zeros(2))
optimizer = optim.SGD([weight], lr=1.0)
optimizer.state[weight]["lists"] = collections.defaultdict(list, a=[torch.ones(2) * rank])
optimizer.state[weight]["ordered"] = collections.OrderedDict(b=torch.ones(1) * rank, a=(rank,))
hvd.broadcast_optimizer_state(optimizer, root_rank=1)
state = optimizer.state[weight]
assert state["lists"]["a"][0].tolist() == [1.0, 1.0] and state["lists"]["new"] == []
assert type(state["ordered"]) is collections.OrderedDict
assert list(state["ordered"].items()) == [("b", torch.ones(1)), ("a", (1,))]

optimizer, _, _ = make("Adam", {})
if rank == 1:
    train(*make("Adam", {}), 1)
hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=None)  # no state: none afterwards
assert len(optimizer.state) == 0
linear = torch.nn.Linear(2 + rank, 2)
with pytest.raises(hvd.MismatchError, match=r"\\[2, 3\\]"):
    hvd.broadcast_optimizer_state(optim.SGD(linear.parameters(), lr=1.0), root_rank=0)
with pytest.raises(TypeError, match="Linear"):
    hvd.broadcast_optimizer_state(linear, 0)
with pytest.raises(ValueError, match="root"):
    hvd.broadcast_optimizer_state(optimizer, 5)
""", np=np)
