"""Gradients of collectives: those of Horovod."""

import pytest
from ranks import SIZES


@SIZES
def test_gradients_of_every_call(ranks, np):
    ranks.check("""
def gradient(call, x, factors=None):
    "Of the sum of call(x), weighted by factors."
    x = x.clone().requires_grad_()
    y = call(x)
    assert y.requires_grad
    (y * (torch.ones_like(y) if factors is None else factors)).sum().backward()
    return x.grad

x = torch.ones(4, 3)
weight = torch.full((4, 3), float(rank + 1))  # the gradient of each rank's result
total = sum(range(1, size + 1))
mean = total / size
assert (gradient(lambda t: hvd.allreduce(t), x, weight) == mean).all()
assert (gradient(lambda t: hvd.allreduce(t, op=hvd.Sum, name="x"), x, weight) == total).all()
assert (gradient(lambda t: hvd.allreduce(t, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), x,
                 weight) == 2 * total).all()
assert (gradient(lambda t: hvd.allreduce(t, compression=hvd.Compression.fp16), x, weight) == mean).all()
on_root = gradient(lambda t: hvd.broadcast(t, 1), x, weight)
assert (on_root == (mean if rank == 1 else 0.0)).all()

# allgather: this rank's rows of the average.
rows = torch.ones(rank + 1, 2)
factors = torch.arange(size * (size + 1) // 2).float()[:, None].expand(-1, 2) + rank
first = sum(range(1, rank + 1))
want = factors[first: first + rank + 1] - rank + (size - 1) / 2
assert torch.equal(gradient(lambda t: hvd.allgather(t), rows, factors), want)

# alltoall: the way back.
splits = [rank + 1] * size
sent = gradient(lambda t: hvd.alltoall(t, splits)[0], torch.ones((rank + 1) * size, 2), rank + 1.0)
assert sent[:, 0].tolist() == torch.arange(1.0, size + 1).repeat_interleave(rank + 1).tolist()
sent = gradient(lambda t: hvd.alltoall(t), torch.ones(size * (rank + 1)), rank + 1.0)
assert sent.tolist() == torch.arange(1.0, size + 1).repeat_interleave(rank + 1).tolist()

# reducescatter: the allgather, and with Sum times the ranks.
rows = torch.ones(size + 1, 2)
of_rows = [1] + list(range(1, size + 1))
assert gradient(lambda t: hvd.reducescatter(t), rows, rank + 1.0)[:, 0].tolist() == of_rows
scattered = gradient(lambda t: hvd.reducescatter(t, op=hvd.Sum, prescale_factor=0.5), rows, rank + 1.0)
assert scattered[:, 0].tolist() == [size * 0.5 * value for value in of_rows]

# Grouped.
def grouped(call, a, b):
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    one, two = call([a, b])
    ((one * (rank + 1)).sum() + (two * 10).sum()).backward()
    return a.grad, b.grad

a, b = grouped(lambda ts: hvd.grouped_allreduce(ts, op=hvd.Sum, name="g"), x, torch.ones(2).double())
assert (a == total).all() and (b == 10 * size).all()
a, b = grouped(lambda ts: hvd.grouped_allgather(ts), torch.ones(rank + 1), x)
assert torch.equal(a, torch.full((rank + 1,), mean)) and torch.equal(b, torch.full((4, 3), 10.0))
a, b = grouped(lambda ts: hvd.grouped_reducescatter(ts, op=hvd.Sum), torch.ones(size), torch.ones(size))
assert a.tolist() == [size * float(r + 1) for r in range(size)] and b.tolist() == [10.0 * size] * size
a = torch.ones(2, requires_grad=True)
one, two = hvd.grouped_allreduce([a, torch.ones(2)])  # one of the results is not used
one.sum().backward()
assert a.grad.tolist() == [1.0, 1.0]
for dtype in (torch.bool, torch.int64):  # and one has no gradient
    for call, want in ((hvd.grouped_allgather, mean),
                       (lambda ts: hvd.grouped_broadcast(ts, 0), 0.0 if rank else mean)):
        a = torch.ones(2, requires_grad=True)
        whole, one = call([torch.ones(3, dtype=dtype), a])
        (one * (rank + 1)).sum().backward()
        assert a.grad.tolist() == [want] * 2 and not whole.requires_grad
""", np=np)


@SIZES
def test_gradients_of_gradients_and_what_has_none(ranks, np):
    ranks.check("""
x = torch.full((3,), rank + 1.0, requires_grad=True)
y = hvd.allreduce(x * x, op=hvd.Sum)
first, = torch.autograd.grad(y.sum(), x, create_graph=True)  # 2 x, for each rank's sum
assert first.tolist() == [2.0 * size * (rank + 1)] * 3
second, = torch.autograd.grad(first.sum(), x)
assert second.tolist() == [2.0 * size] * 3 or second.tolist() == [2.0 * size * size] * 3, second

for op in (hvd.Min, hvd.Max, hvd.Product, hvd.Adasum):
    with pytest.raises(hvd.UnsupportedError, match=op.name):
        hvd.allreduce(x, op=op).sum().backward()
with torch.no_grad():
    assert not hvd.allreduce(x).requires_grad
assert not hvd.synchronize(hvd.allreduce_async(x)).requires_grad

# A call in place on what backward() needs is noticed.
z = torch.full((3,), 2.0)
y = (x * z).sum()
hvd.allreduce_(z, op=hvd.Sum)
with pytest.raises(RuntimeError, match="modified by an inplace"):
    y.backward()
parameter = torch.nn.Parameter(torch.full((2,), float(rank)))
assert hvd.broadcast_(parameter, 1) is parameter and parameter.tolist() == [1.0, 1.0]
with torch.inference_mode():
    assert hvd.allreduce_(torch.ones(2), op=hvd.Sum).tolist() == [size, size]
""", np=np)


@SIZES
def test_compression_and_sparse_tensors(ranks, np):
    ranks.check("""
total = sum(range(1, size + 1))
x = torch.tensor([1.0, 1.0 + 2**-12, 100000.0]) * (rank + 1)
for kind, dtype in ((hvd.Compression.fp16, torch.float16), (hvd.Compression.bf16, torch.bfloat16)):
    result = hvd.allreduce(x, op=hvd.Sum, compression=kind)
    assert result.dtype == torch.float32 and result[0] == result[1] == total
    assert torch.isinf(result[2]) == (dtype == torch.float16) and same_everywhere(result[:2])
    whole = torch.tensor([7, 8])
    assert hvd.allreduce(whole, op=hvd.Sum, compression=kind).tolist() == [7 * size, 8 * size]
    one, two = hvd.grouped_allreduce([x[:2], whole], op=hvd.Sum, compression=kind)
    assert one.tolist() == [total] * 2 and two.tolist() == [7 * size, 8 * size]
    rows = hvd.reducescatter(x[1].expand(size), op=hvd.Sum, compression=kind)
    assert rows.tolist() == [total] and rows.dtype == torch.float32
    travels, context = kind.compress(x)
    assert travels.dtype == dtype and kind.decompress(travels, context).dtype == torch.float32
    assert kind.decompress(*kind.compress(x.double())).dtype == torch.float64
    assert kind.compress(whole)[0] is whole

class Halves(hvd.Compression.fp16):
    "Of a class of ours: its own functions must be used."
    @staticmethod
    def compress(tensor):
        return tensor.double() / 2, tensor.dtype
    @staticmethod
    def decompress(tensor, ctx):
        return (tensor * 2).to(ctx)

assert torch.equal(hvd.allreduce(x, op=hvd.Sum, compression=Halves), total * x / (rank + 1))
assert hvd.allreduce(x[:2], op=hvd.Max, compression=hvd.Compression.fp16).tolist() == [size] * 2

places = torch.tensor([[0, 2], [1, rank % 2]])
mine = torch.sparse_coo_tensor(places, torch.tensor([1.0, 10.0 * (rank + 1)]), (4, 2))
dense = sum(hvd.allgather_object(mine.to_dense()))
for op, divisor in ((hvd.Sum, 1), (hvd.Average, size)):
    handle = hvd.sparse_allreduce_async(mine, "sparse", op)
    result = hvd.synchronize(handle)
    assert result.is_sparse and torch.equal(result.to_dense(), dense / divisor)
    assert handle() is result  # as in Horovod
hybrid = torch.sparse_coo_tensor(torch.tensor([[3] * rank]), torch.ones(rank, 2), (5, 2))  # none on rank 0
result = hvd.sparse_allreduce_async(hybrid, None, hvd.Sum).synchronize()
assert result.to_dense()[3].tolist() == [total - size] * 2 == [result.to_dense().sum() / 2] * 2
with pytest.raises(ValueError, match="Max"):
    hvd.sparse_allreduce_async(mine, "sparse", hvd.Max)
for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.complex128, torch.uint8):
    for axes in (1, 2, 3):  # coordinates travel as elements of the dtype
        values = torch.sparse_coo_tensor([[rank, 4]] * axes, torch.ones(2, dtype=dtype), (5,) * axes)
        result = hvd.sparse_allreduce_async(values, "kind", hvd.Sum).synchronize()
        want = {(r,) * axes: 1 for r in range(size) if r != 4} | {(4,) * axes: size}
        assert result.dtype == dtype and result.indices().t().tolist() == [list(at) for at in sorted(want)]
        assert result.values().tolist() == [want[at] for at in sorted(want)], (dtype, axes)
ones = torch.sparse_coo_tensor([[0]], torch.tensor([1]), (2,))
assert hvd.sparse_allreduce_async(ones, None, hvd.Average).synchronize().to_dense().tolist() == [1, 0]
for shape in ((4 + rank, 2), (4, 2 + rank)):
    with pytest.raises(hvd.MismatchError, match="'places'.*disagree about the shape"):
        hvd.sparse_allreduce_async(torch.ones(shape).to_sparse(), "places", hvd.Sum).synchronize()

def one_or_the_other():
    if rank % 2:
        return hvd.allreduce(torch.ones(4, 2), name="sparse")
    return hvd.sparse_allreduce_async(mine, "sparse", hvd.Sum).synchronize()
with pytest.raises(hvd.MismatchError, match="sparse.*allgather on rank 0, allreduce on rank 1"):
    one_or_the_other()
table = torch.nn.Embedding(4, 2, sparse=rank % 2 == 0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0))
table(torch.tensor([1])).sum().backward()
with pytest.raises(hvd.MismatchError, match="allgather on rank 0, allreduce on rank 1"):
    optimizer.step()
assert hvd.sparse_allreduce_async(mine, "sparse", hvd.Sum).synchronize().is_sparse
""", np=np)


@pytest.mark.parametrize("np", [2])
def test_a_sparse_gradient_goes_with_sums_only_and_else_the_parameter_is_named(ranks, np):
    ranks.check("""
torch.manual_seed(1)
for op in (hvd.Min, hvd.Max, hvd.Product):
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0),
                                         table.named_parameters(), op=op)
    with pytest.raises(hvd.InvalidArgumentError, match=(
            f"^DistributedOptimizer: the gradient of 'weight' is sparse, and op is {op.name}, .*"
            "sparse_as_dense=True")):
        table(torch.tensor([rank])).sum().backward()
        optimizer.step()
    del optimizer
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0),
                                         table.named_parameters(), op=op, sparse_as_dense=True)
    table(torch.tensor([1])).sum().backward()
    optimizer.step()
    assert same_everywhere(table.weight)
""", np=np)


def test_coordinates_that_are_right_are_not_checked_where_pytorch_asks(ranks):
    ranks.prologue = """
import torch
torch.sparse.check_sparse_tensor_invariants = object  # as in PyTorch 2
""" + ranks.prologue
    ranks.check("""
table = torch.nn.Embedding(4, 2, sparse=True)
table(torch.tensor([1])).sum().backward()
of_both = table.weight.grad.coalesce()

made, said = torch.sparse_coo_tensor, []
def recording(*args, **options):
    said.append(options.pop("check_invariants", "nothing"))
    return made(*args, **options)
torch.sparse_coo_tensor = recording
handle = hvd.sparse_allreduce_async(of_both, "rows", hvd.Sum)
assert torch.equal(handle.synchronize().to_dense(), 2 * of_both.to_dense())
from horovod_cpp.torch import gradients
assert gradients.coordinates(torch.nn.Parameter(torch.zeros(4, 2)), 1)._nnz() == 0
assert said == [False, False], said
""", own_processes=True)


def test_gradients_have_the_layouts_of_their_parameters_and_pytorch_warns_of_none(ranks):
    ranks.check("""
import warnings
kinds = {
    "channels last": lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "one pixel": lambda: torch.ones(4, 3, 1, 1).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.ones(3, 4).t(),
    "transposed on rank 1": lambda: torch.ones(3, 4).t() if rank else torch.ones(4, 3),
    "every second": lambda: torch.ones(3, 8)[:, ::2],
    "contiguous": lambda: torch.ones(3, 4),
}
def strides(tensor):
    return [stride for stride, extent in zip(tensor.stride(), tensor.shape) if extent > 1]

with warnings.catch_warnings():
    warnings.simplefilter("error")
    for options in ({}, {"gradient_as_bucket_view": False}, {"compression": "fp16"},
                    {"compression": hvd.Compression.powersgd(1)}, {"overlap_step": True},
                    {"clip_grad_norm": 1e6}, {"backward_passes_per_step": 2}, {"op": hvd.Adasum}):
        parameters = {name: torch.nn.Parameter(make()) for name, make in kinds.items()}
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters.values(), lr=0.0),
                                             parameters.items(), **options)
        for step in range(8):
            optimizer.zero_grad(set_to_none=step % 3 == 0)
            for again in range(2):
                sum((each * torch.arange(float(each.numel())).view(each.shape)).sum() * (step + 1 + rank)
                    for name, each in parameters.items() if step != 5 or name != "transposed").backward()
            optimizer.step()
            for name, each in parameters.items():
                if "op" not in options and "powersgd" not in str(options):
                    want = torch.arange(float(each.numel())).view(each.shape) * 2 * (step + 1.5)
                    want = want * (step != 5 or name != "transposed")
                    assert torch.equal(each.grad, want), (options, name, step, each.grad, want)
                if name != "every second":
                    assert strides(each.grad) == strides(each), (options, name, step)
        del optimizer

# Given another layout later, on one rank.
weight = torch.nn.Parameter(torch.zeros(2, 3, 2, 2))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.0), [("w", weight)])
for step in range(6):
    if step == 3 and rank == 1:
        weight.data = weight.data.to(memory_format=torch.channels_last)
    optimizer.zero_grad(set_to_none=True)
    (weight * torch.arange(24.0).view(weight.shape)).sum().mul(rank + 1).backward()
    optimizer.step()
    assert torch.equal(weight.grad, torch.arange(24.0).view(weight.shape) * 1.5)
    assert strides(weight.grad) == strides(weight)
""")
