"""Options that PyTorch's DistributedOptimizer has in common with those of C++ and the built-in layer."""

import pytest

START = """
import copy
torch.manual_seed(3)
start = torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.Tanh(), torch.nn.Linear(40, 3))

def train(make=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), steps=5, passes=1, **options):
    model = copy.deepcopy(start)
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(),
                                         backward_passes_per_step=passes, **options)
    for step in range(steps):
        optimizer.zero_grad()
        for number in range(passes):
            x = torch.linspace(-1, 1, 24).view(4, 6) * (1 + rank + step + number)
            model(x).square().mean().backward()
        optimizer.step()
    return model

def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters()))
"""


def test_passes_are_averaged_if_asked(ranks):
    ranks.check("""
for passes in (1, 2):
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [(f"w{passes}", weight)],
                                         backward_passes_per_step=2, average_aggregated_gradients=True)
    for number in range(passes):  # step() closes a window that is not full
        (weight.sum() * (rank + 1) * (number + 1)).backward()
    optimizer.step()
    assert weight.tolist() == [-1.5 * (1 + passes) / 2] * 2, weight
""")


@pytest.mark.parametrize("when", ["after", "before"])
def test_rows_are_clipped(ranks, when):
    ranks.check(f"""
for as_dense in (False, True):
    table, layer = torch.nn.Embedding(5, 2, sparse=True), torch.nn.Linear(2, 1, bias=False)
    model = torch.nn.Sequential(table, layer)
    with torch.no_grad():
        table.weight.fill_(1.0)
        layer.weight.fill_(2.0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), clip_grad_norm=0.5,
        clip_when="{when}", sparse_as_dense=as_dense)
    starts = [parameter.detach().clone() for parameter in model.parameters()]
    model(torch.tensor([1, 1, 3])).sum().backward()  # rows [4, 4], [2, 2]; [3, 3]
    optimizer.step()
    factor = 0.5 / (2 * 16 + 2 * 4 + 2 * 9) ** 0.5
    rows = torch.tensor([[0.0], [4.0], [0.0], [2.0], [0.0]]).expand(5, 2)
    for parameter, start, gradient in zip(model.parameters(), starts, (rows, torch.full((1, 2), 3.0))):
        assert torch.allclose(start - parameter, gradient * factor, atol=1e-6), (start - parameter, factor)
""")


def test_what_adasum_combines_is_clipped_and_averaged(ranks):
    ranks.check("""
def moved(passes=1, closure=False, **options):
    weight = torch.nn.Parameter(torch.zeros(4))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)], op=hvd.Adasum,
                                         backward_passes_per_step=passes, **options)
    def backward():
        (weight * 3).sum().backward()
    for number in range(0 if closure else passes):
        backward()
    optimizer.step(*[backward] * closure)
    return round(weight.norm().item(), 4)

for closure in (False, True):
    assert moved(closure=closure) == 6.0
    assert moved(closure=closure, clip_grad_norm=0.5) == 0.5
    assert moved(closure=closure, clip_grad_norm=0.5, clip_when="before") == 0.5
assert moved(2) == 12.0 and moved(2, average_aggregated_gradients=True) == 6.0
""")


def test_ranks_that_clip_or_average_differently_get_one_error(ranks):
    ranks.check("""
first = rank == 0
for name, options in {
        "clip_grad_norm": {"clip_grad_norm": 0.01 if first else 0.1},
        "clip_grad_norm; rank": {"clip_grad_norm": 1.0, "clip_when": "after" if first else "before"},
        "average_aggregated_gradients": {"average_aggregated_gradients": first}}.items():
    layer = torch.nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), **options)
    layer(torch.ones(1, 3)).sum().backward()
    with pytest.raises(hvd.MismatchError, match="the ranks differ in " + name):
        optimizer.step()
""")


def test_one_rank_alone_clips_and_averages_too(ranks):
    ranks.check("""
weight = torch.nn.Parameter(torch.zeros(4))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)], clip_grad_norm=1.0,
                                     backward_passes_per_step=2, average_aggregated_gradients=True)
for _ in range(2):
    weight.sum().backward()
optimizer.step()
assert torch.allclose(weight.detach(), torch.full((4,), -0.5), atol=1e-5), weight
""", np=1)


@pytest.mark.parametrize("make", [
    "torch.optim.SGD(parameters, lr=0.1, momentum=0.9)", "torch.optim.Adam(parameters, lr=0.01)",
    "torch.optim.AdamW([dict(params=[each], weight_decay=0.01 * place) for place, each in enumerate(parameters)], lr=0.01)"])
def test_overlap_step_changes_no_bit(ranks, make):
    ranks.check(START + f"""
make = lambda parameters: {make}
plain = train(make)
assert same(plain, train(make, overlap_step=True)) and same(plain, train(make, overlap_step=True, groups=4))
""")


def test_overlap_step_goes_without_a_closure(ranks):
    ranks.check("""
sgd = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=1.0)
with pytest.raises(hvd.InvalidArgumentError, match="closure"):
    hvd.DistributedOptimizer(sgd, overlap_step=True).step(lambda: 0.0)
""")


def test_int8_in_a_collective_and_where_it_does_not_go(ranks):
    ranks.check("""
x = torch.arange(8.0) * (rank + 1)
assert torch.allclose(hvd.allreduce(x, compression=hvd.Compression.int8), torch.arange(8.0) * 1.5, atol=0.2)
for call in (lambda: hvd.allreduce(x, op=hvd.Max, compression=hvd.Compression.int8),
             lambda: hvd.reducescatter(x, compression="int8")):
    with pytest.raises(hvd.InvalidArgumentError, match="int8 works with an allreduce by Average"):
        call()
""")


def test_parameters_have_names_from_pairs_or_a_dict_and_groups_a_number(world):
    import numpy as np
    import torch

    layer = torch.nn.Linear(2, 1)

    def wrapped(named_parameters=None, **options):
        return world.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0),
                                          named_parameters, **options)

    named = wrapped(dict(layer.named_parameters()))
    assert named._parameter_names == {layer.weight: "weight", layer.bias: "bias"}
    for nothing in ([], {}, iter(())):
        with pytest.raises(ValueError, match="named_parameters is empty; pass "):
            wrapped(nothing)
    for number in (np.int64(2), np.uint8(2)):
        assert wrapped(groups=number)._hvd_groups == wrapped(num_groups=number)._hvd_groups == 2
    for wrong in (True, np.bool_(True), 1.5):
        with pytest.raises(TypeError, match="groups must be a number of groups"):
            wrapped(groups=wrong)
    for wrong in (True, 1.5, "2", None):
        with pytest.raises(TypeError, match="^num_groups must be an int, got "):
            wrapped(num_groups=wrong)
    for wrong in (-1, np.int64(-1)):
        for name in ("groups", "num_groups"):
            with pytest.raises(ValueError, match="the number of groups is -1, must not be negative"):
                wrapped(**{name: wrong})
