"""Parameters and the state of optimizers, from one rank to the others."""

import pytest
from ranks import SIZES


@SIZES
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


@SIZES
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

# Objects with tensors of any kind, which stay what they are.
import types
optimizer = optim.SGD([weight], lr=1.0)
if rank == 1:
    optimizer.param_groups[0]["seen"] = types.SimpleNamespace(
        sparse=torch.eye(2).to_sparse(), narrow=torch.ones(1).expand(3),
        meta=torch.ones(2, device="meta"), model=torch.nn.Linear(2, 1))
hvd.broadcast_optimizer_state(optimizer, root_rank=1)
seen = optimizer.param_groups[0]["seen"]
assert seen.sparse.is_sparse and seen.narrow.tolist() == [1.0] * 3 and seen.meta.is_meta
assert all(isinstance(p, torch.nn.Parameter) and p.requires_grad for p in seen.model.parameters())
assert same_everywhere(*seen.model.parameters(), seen.sparse.to_dense())

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


@pytest.mark.parametrize("np", [2])
def test_what_one_rank_alone_cannot_send_is_an_error_on_all_at_once(ranks, np):
    ranks.check("""
import time, warnings
warnings.simplefilter("ignore")  # PyTorch's, of lazy modules
good = {"layer.weight": torch.zeros(3)}

class Raising(dict):
    def items(self):
        raise ZeroDivisionError("no items")

def broken():
    yield "layer.weight", torch.zeros(3)
    raise RuntimeError("the model is gone")

def fails(kind, words, call):
    "On the rank that is wrong with its own class; on the other with the same words."
    began = time.monotonic()
    with pytest.raises(kind if rank == wrong else hvd.Error, match=words):
        call()
    assert time.monotonic() - began < 20
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum)[0] == size  # the job goes on

lazy = torch.nn.LazyLinear(3)
for wrong in (0, 1):
    for kind, words, params in (
            (hvd.InvalidArgumentError, "'layer.weight': .*run one forward first",
             lambda: {"layer.weight": lazy.weight}),
            (hvd.UnsupportedError, "'layer.weight': .*meta device.*to_empty",
             lambda: {"layer.weight": torch.zeros(3, device="meta")}),
            (TypeError, "'layer.weight': .*dense", lambda: {"layer.weight": torch.eye(3).to_sparse()}),
            (TypeError, "entry 0 .*str, Tensor, int.*pair",
             lambda: [("layer.weight", torch.zeros(3), 5)]),
            (TypeError, "entry 0 .*Tensor, str.*pair", lambda: [(torch.zeros(3), "layer.weight")]),
            (TypeError, "entry 1 .*Tensor.*pair", lambda: [torch.zeros(3), (torch.zeros(3),)]),
            (hvd.InvalidArgumentError, "the name 'layer.weight' twice",
             lambda: [("layer.weight", torch.zeros(3))] * 2),
            (TypeError, "Linear; pass model.state_dict", lambda: torch.nn.Linear(1, 1)),
            (TypeError, "NoneType; pass model.state_dict", lambda: None),
            (ZeroDivisionError, "no items", Raising),
            (RuntimeError, "the model is gone", broken)):
        fails(kind, words, lambda: hvd.broadcast_parameters(params() if rank == wrong else good, 0))

    sgd = lambda *parameters: torch.optim.SGD(parameters, lr=1.0)
    class Unfinished(torch.optim.SGD):
        @property
        def state(self):
            raise AttributeError("state comes later")
        @state.setter
        def state(self, value):
            pass
    fine = torch.nn.Parameter(torch.zeros(3))
    for kind, words, make in (
            (TypeError, "expected a torch.optim.Optimizer, got Linear",
             lambda: torch.nn.Linear(1, 1)),
            (hvd.InvalidArgumentError, "parameter 1 of group 0: .*run one forward first",
             lambda: sgd(fine, lazy.weight))):
        fails(kind, words, lambda: hvd.broadcast_optimizer_state(
            make() if rank == wrong else sgd(fine), 0))
    fails(AttributeError, "state comes later", lambda: hvd.broadcast_optimizer_state(
        Unfinished([fine], lr=1.0) if rank == wrong else sgd(fine), wrong))

    with pytest.raises(hvd.InvalidArgumentError, match="'lazy.weight': .*run one forward first"):
        hvd.DistributedOptimizer(torch.optim.SGD([lazy.weight], lr=1.0),
                                 [("lazy.weight", lazy.weight)])

    class Secret:
        def __reduce__(self):
            raise OSError("not today")
    fails(OSError, "not today", lambda: hvd.broadcast_object(Secret(), wrong))
    fails(OSError, "not today", lambda: hvd.allgather_object(Secret() if rank == wrong else 1))
""", np=np)


def test_tensors_without_elements_share_none(ranks):
    ranks.check("""
import numpy as np
empty = torch.zeros(0, 3).as_strided((0, 3), (0, 0))
hvd.broadcast_parameters([empty, torch.from_numpy(np.zeros((0, 3))), torch.zeros(1).expand(0, 3),
                          torch.zeros(3, 1).expand(3, 0)], 0)
hvd.broadcast_(empty, 0), hvd.allreduce_(empty), hvd.grouped_allreduce_([empty, empty])
import horovod_cpp
horovod_cpp.broadcast_parameters({"empty": np.zeros((0, 3)),
                                  "wide": np.lib.stride_tricks.as_strided(np.zeros(1), (0, 3), (0, 0))})
import pathlib
torch.distributed.init_process_group("horovod_cpp", rank=rank, world_size=size,
                                     init_method=pathlib.Path("store").absolute().as_uri())
torch.distributed.broadcast(empty, 0), torch.distributed.all_reduce(empty)
""")


def test_options_that_differ_in_a_set_are_those_of_the_ranks_that_have_them(ranks):
    ranks.check("""
pair = hvd.add_process_set([1, 2])
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2)) for _ in range(1 + rank)], lr=0.1)
if rank > 0:
    with pytest.raises(hvd.MismatchError, match="groups of rank 2 are not those of rank 1"):
        hvd.broadcast_optimizer_state(optimizer, root_rank=1, process_set=pair)
hvd.allgather_object(None)
""", np=3)
