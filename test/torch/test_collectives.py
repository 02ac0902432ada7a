"""Collectives on torch.Tensor; each program covers one subject."""

import pytest
import torch
from ranks import SIZES


def test_every_call_over_one_rank_gives_its_input(world):
    x = torch.arange(6.0).view(3, 2)
    for call in (world.allreduce, world.allgather, world.alltoall, world.reducescatter):
        result = call(x)
        assert torch.equal(result, x) and result.data_ptr() != x.data_ptr()
    assert torch.equal(world.broadcast(x, 0), x)
    assert world.allreduce_(x) is x and world.broadcast_(x, 0) is x
    assert [t.tolist() for t in world.grouped_allreduce([x, x[0]])] == [x.tolist(), [0.0, 1.0]]
    assert world.allreduce(torch.tensor(3)).shape == ()
    output, received = world.alltoall(x, torch.tensor([3]))
    assert torch.equal(output, x) and received.tolist() == [3] and received.dtype == torch.int32
    assert world.join() == 0


def test_mistakes_are_errors_that_name_them(world):
    x = torch.ones(4, 2)
    for call in (world.allreduce, world.allgather_async, world.allreduce_, world.reducescatter):
        with pytest.raises(TypeError, match="list"):
            call([1.0])
        with pytest.raises(TypeError, match="quint8"):
            call(torch.quantize_per_tensor(x, 1.0, 0, torch.quint8))
        with pytest.raises(TypeError, match="sparse"):
            call(x.to_sparse())
    with pytest.raises(world.UnsupportedError, match="meta"):
        world.allreduce(torch.ones(2, device="meta"))
    for call in (world.allreduce_, world.allreduce_async_):
        with pytest.raises(ValueError, match="contiguous"):
            call(x.t())
        with pytest.raises(ValueError, match="resolve_conj"):
            call(torch.ones(2, dtype=torch.complex64).conj())
    with pytest.raises(ValueError, match="exclude"):
        world.allreduce(x, average=True, op=world.Sum)
    with pytest.raises(ValueError, match="op=77"):
        world.allreduce(x, op=77)
    with pytest.raises(ValueError, match="op='summ' is not a reduction .*did you mean sum"):
        world.allreduce(x, op="summ")
    with pytest.raises(ValueError, match="'fp17' is not a compression .*did you mean fp16"):
        world.allreduce(x, compression="fp17")
    with pytest.raises(ValueError, match="root"):
        world.broadcast(x, 1)
    with pytest.raises(ValueError, match="splits"):
        world.alltoall(x, torch.ones(1, 1, dtype=torch.int32))
    for splits in ([4.0], torch.tensor([4.0])):
        for call in (world.alltoall, world.alltoall_async):
            with pytest.raises(world.InvalidArgumentError, match=r"splits=\[4.0\]: expected int"):
                call(x, splits)
    for call in (world.reducescatter, world.reducescatter_async, world.grouped_reducescatter):
        for given in (x, x.int()):
            with pytest.raises(NotImplementedError, match="only an allreduce takes Adasum") as caught:
                call(given if call is not world.grouped_reducescatter else [given], op=world.Adasum)
            assert isinstance(caught.value, world.Error)
    with pytest.raises(ValueError):
        world.alltoall(x, [3])
    with pytest.raises(ValueError):
        world.allgather(torch.tensor(1.0))
    for call, given in ((world.poll, 7), (world.synchronize, None)):
        with pytest.raises(TypeError, match=f"handle must be what .* call returned, got {given}"):
            call(given)
    with pytest.raises(TypeError, match="compress"):
        world.allreduce(x, compression=3)
    with pytest.raises(world.UnsupportedError, match="comm"):
        world.init(comm=[0])
    with pytest.raises(TypeError, match="sparse"):
        world.sparse_allreduce_async(x, "s", world.Sum)


def test_reductions_and_compressions_go_by_their_names_too(world):
    x = torch.tensor([1.5, 2049.0])
    for op in ("sum", "Average", "MIN", "adasum", "product"):
        assert torch.equal(world.allreduce(x, op=op), x)
        assert torch.equal(world.synchronize(world.grouped_allreduce_async([x], op=op))[0], x)
    assert torch.equal(world.allreduce(torch.tensor([6]), op="bitor"), torch.tensor([6]))
    assert torch.equal(world.reducescatter(x, op="max"), x)
    assert torch.equal(world.sparse_allreduce_async(x.to_sparse(), None, "sum")().to_dense(), x)
    assert torch.equal(world.allreduce(x, compression="none"), x)
    assert torch.equal(world.grouped_allreduce([x], compression="FP16")[0], x)
    optimizer = world.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(x)], lr=1.0),
                                           op="sum", compression="bf16")
    optimizer.step()


def test_calls_before_init_say_so():
    import horovod_cpp.torch as hvd

    assert not hvd.is_initialized()
    with pytest.raises(ValueError, match="init"):
        hvd.allreduce(torch.ones(1))
    with pytest.raises(ValueError, match="init"):
        hvd.rank()


def test_elastic_names_say_what_is_missing():
    import horovod_cpp.torch as hvd

    assert not hasattr(hvd, "elastic")
    with pytest.raises(AttributeError, match="elastic jobs"):
        hvd.elastic.run
    with pytest.raises(ImportError, match="elastic jobs"):
        from horovod_cpp.torch import elastic  # noqa: F401


@SIZES
def test_reductions_are_exact_for_every_dtype(ranks, np):
    ranks.check("""
dtypes = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
          torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]
total = sum(range(size))
for dtype in dtypes:
    mine = torch.full((5, 3), rank + 1).to(dtype)
    results = {hvd.Sum: total + size, hvd.Average: (total + size) / size}
    if not dtype.is_complex:
        results.update({hvd.Min: 1, hvd.Max: size})
    for op, want in results.items():
        want = torch.full((5, 3), want).to(dtype)
        result = hvd.allreduce(mine, op=op)
        assert result.dtype == dtype and torch.equal(result, want), (dtype, op, result)
        assert torch.equal(hvd.synchronize(hvd.allreduce_async(mine, op=op)), want)
        target = mine.clone()
        assert hvd.allreduce_(target, op=op) is target and torch.equal(target, want)
        target = mine.clone()
        assert hvd.allreduce_async_(target, op=op).synchronize() is target
        assert torch.equal(target, want)
    rows = hvd.reducescatter(mine, op=hvd.Sum)
    assert len(rows) == len(torch.arange(5).tensor_split(size)[rank])
    assert torch.equal(rows, torch.full_like(rows, total + size))
    assert torch.equal(hvd.synchronize(hvd.reducescatter_async(mine, op=hvd.Sum)), rows)
flags = torch.tensor([rank == 0, True, False])
assert hvd.allreduce(flags, op=hvd.Sum).tolist() == [True, True, False]
assert hvd.allreduce(flags, op=hvd.Product).tolist() == [False, True, False]
assert hvd.allreduce(torch.tensor([rank + 1]), average=False).tolist() == [total + size]
assert hvd.allreduce(torch.ones(2), op=int(hvd.Sum)).tolist() == [size, size]
scaled = hvd.allreduce(torch.ones(2), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
assert scaled.tolist() == [2.0 * size] * 2
assert hvd.reducescatter(torch.ones(size, 2), op=hvd.Sum, prescale_factor=0.5).tolist() == [[size / 2] * 2]
adasum = hvd.allreduce(torch.ones(4), op=hvd.Adasum)
assert torch.allclose(adasum, torch.ones(4)) and same_everywhere(adasum)
""", np=np)


@pytest.mark.parametrize("np", [2, pytest.param(4, marks=pytest.mark.full)])
def test_movement_is_exact_for_every_dtype(ranks, np):
    ranks.check("""
dtypes = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
          torch.bfloat16, torch.float32, torch.float64, torch.complex64]
for dtype in dtypes:
    mine = torch.full((rank, 2), rank).to(dtype)  # none from rank 0
    want = torch.cat([torch.full((other, 2), other).to(dtype) for other in range(size)])
    result = hvd.allgather(mine)
    assert result.dtype == dtype and torch.equal(result, want)
    assert torch.equal(hvd.synchronize(hvd.allgather_async(mine, name="rows")), want)
    mine = torch.full((2, 3), rank).to(dtype)
    want = torch.full((2, 3), 1).to(dtype)
    assert torch.equal(hvd.broadcast(mine, 1), want)
    assert torch.equal(hvd.broadcast_async(mine, 1).synchronize(), want)
    assert hvd.broadcast_(mine, root_rank=1) is mine and torch.equal(mine, want)
    mine = (torch.arange(size) + 10 * rank).to(dtype)
    assert torch.equal(hvd.alltoall(mine), (10 * torch.arange(size) + rank).to(dtype))
splits = torch.arange(size) + 1  # one row more for each rank
mine = torch.full((int(splits.sum()),), rank)
for given in (splits.to(torch.int32), splits.tolist()):
    output, received = hvd.alltoall(mine, given)
    assert received.tolist() == [rank + 1] * size and received.dtype == torch.int32
    assert output.tolist() == torch.arange(size).repeat_interleave(rank + 1).tolist()
output, received = hvd.synchronize(hvd.alltoall_async(torch.zeros(0, 3)))
assert output.shape == (0, 3) and received.tolist() == [0] * size
target = torch.full((3,), float(rank))
handle = hvd.broadcast_async_(target, 0, name="in place")
while not hvd.poll(handle):
    pass
assert hvd.synchronize(handle) is target and hvd.synchronize(handle).tolist() == [0.0] * 3
hvd.barrier()
assert hvd.broadcast_object({"of": rank}, 1) == {"of": 1}
assert hvd.allgather_object("x" * rank) == ["x" * other for other in range(size)]
""", np=np)


@SIZES
def test_layouts_that_are_not_dense_are_read_as_they_look(ranks, np):
    ranks.check("""
base = torch.arange(24.0).view(4, 6) * (rank + 1)
views = [base.t(), base[:, ::2], base[1], torch.tensor(2.0).expand(3, 2) * (rank + 1),
         torch.ones(1, rank + 1)[0, 0].expand(4), base.to(torch.complex64).mul(1j).conj(),
         base.to(torch.complex64).mul(1j).conj().imag, base.view(2, 2, 2, 3).contiguous(
             memory_format=torch.channels_last), torch.nn.Parameter(base)]
for view in views:
    sums = hvd.allgather_object(view.detach().resolve_conj().clone())
    assert torch.equal(hvd.allreduce(view, op=hvd.Sum), sum(sums)), view
    if view.dim() > 1:
        assert torch.equal(hvd.allgather(view), torch.cat(sums))
    assert torch.equal(hvd.broadcast(view, 1), sums[1])
assert hvd.allreduce(torch.empty(0, 3)).shape == (0, 3)
assert hvd.allgather(torch.empty(0, 3)).shape == (0, 3)
row = base[1]  # contiguous memory inside of another tensor
hvd.allreduce_(row, op=hvd.Sum)
total = sum(range(1, size + 1))
assert base[1].tolist() == [total * value for value in range(6, 12)] and base[0, 1] == rank + 1
""", np=np)


@SIZES
def test_grouped_calls_run_as_one(ranks, np):
    ranks.check("""
tensors = [torch.full((3,), float(rank)), torch.full((2, 2), rank), torch.ones(0),
           torch.tensor(1.5, dtype=torch.bfloat16)]
total = sum(range(size))
want = [[total] * 3, [[total] * 2] * 2, [], 1.5 * size]
for result in (hvd.grouped_allreduce(tensors, op=hvd.Sum), hvd.grouped_allreduce(tuple(tensors), average=False),
               hvd.synchronize(hvd.grouped_allreduce_async(tensors, op=hvd.Sum, name="group"))):
    assert [t.tolist() for t in result] == want and [t.dtype for t in result] == [t.dtype for t in tensors]
copies = [tensor.clone() for tensor in tensors]
assert all(a is b for a, b in zip(hvd.grouped_allreduce_(copies, op=hvd.Sum), copies))
assert [t.tolist() for t in copies] == want
copies = [tensor.clone() for tensor in tensors]
hvd.synchronize(hvd.grouped_allreduce_async_(copies, op=hvd.Sum))
assert [t.tolist() for t in copies] == want
rows = [torch.full((rank + 1, 2), rank), torch.full((1,), float(rank))]
for result in (hvd.grouped_allgather(rows), hvd.grouped_allgather_async(rows).synchronize()):
    assert result[0].tolist() == [[of] * 2 for of in range(size) for row in range(of + 1)]
    assert result[1].tolist() == list(range(size))
parts = [torch.ones(size + 1, 2), torch.full((size,), rank)]
for result in (hvd.grouped_reducescatter(parts, op=hvd.Sum),
               hvd.grouped_reducescatter_async(parts, op=hvd.Sum).synchronize()):
    assert result[0].tolist() == [[size] * 2] * (2 if rank == 0 else 1) and result[1].tolist() == [total]
for root in range(size):
    sent = [torch.full((2, 3), rank), torch.tensor([rank + 0.5], dtype=torch.bfloat16), torch.ones(0)]
    want = [[[root] * 3] * 2, [root + 0.5], []]
    for result in (hvd.grouped_broadcast(sent, root), hvd.grouped_broadcast(tuple(sent), root, name="b"),
                   hvd.synchronize(hvd.grouped_broadcast_async(sent, root))):
        assert [t.tolist() for t in result] == want and [t.dtype for t in result] == [t.dtype for t in sent]
    copies = [tensor.clone() for tensor in sent]
    assert all(a is b for a, b in zip(hvd.grouped_broadcast_(copies, root), copies))
    assert [t.tolist() for t in copies] == want
    copies = [tensor.clone() for tensor in sent]
    hvd.grouped_broadcast_async_(copies, root).synchronize()
    assert [t.tolist() for t in copies] == want
    assert sent[0].tolist() == [[rank] * 3] * 2
a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
first, second = hvd.grouped_broadcast([a, b], size - 1)
((first + 2 * second) * (rank + 1)).sum().backward()
mean = (size + 1) / 2 if rank == size - 1 else 0.0  # as broadcast(): the average on the root
assert a.grad.tolist() == [mean] * 2 and b.grad.tolist() == [2 * mean] * 2
assert hvd.grouped_allreduce([]) == []
with pytest.raises(TypeError):  # nothing of it was submitted
    hvd.grouped_allreduce([torch.ones(2), "x"], name="half")
assert hvd.allreduce(torch.ones(2), name="half").tolist() == [1.0, 1.0]
""", np=np)


@SIZES
def test_ranks_that_disagree_get_one_error_and_go_on(ranks, np):
    ranks.check("""
odd = rank % 2  # the error names two ranks of one kind each
def fails(call, *words):
    with pytest.raises(hvd.MismatchError) as caught:
        call()
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert len(set(hvd.allgather_object(text))) == 1
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size, size]

fails(lambda: hvd.allreduce(torch.ones(2 + odd), name="shape"), "shape", "[2]", "[3]")
fails(lambda: hvd.allreduce_(torch.ones(2, dtype=[torch.half, torch.bfloat16][odd]), name="kind"),
      "kind", "float16", "bfloat16")
fails(lambda: hvd.allreduce(torch.ones(2), op=[hvd.Min, hvd.Max][odd], name="op"), "Min", "Max")
fails(lambda: hvd.allreduce(torch.ones(2), prescale_factor=1.0 + odd, name="scale"), "scale")
fails(lambda: hvd.allreduce(torch.ones(2), name="wire",
                            compression=[hvd.Compression.none, hvd.Compression.fp16][odd]), "wire")
fails(lambda: hvd.broadcast(torch.ones(2), odd, name="root"), "root")
fails(lambda: hvd.allgather(torch.ones(2, 2 + odd), name="rows"), "rows")
fails(lambda: hvd.grouped_allreduce([torch.ones(2)] * (1 + odd), name="members"), "members")
handle = hvd.allreduce_async(torch.ones(2 + odd), name="again")
for attempt in range(2):
    with pytest.raises(hvd.MismatchError):
        handle.synchronize()
if rank == 0:
    first = hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="twice")
    with pytest.raises(ValueError, match="twice"):
        hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="twice")
    hvd.barrier()
    assert hvd.synchronize(first).tolist() == [size, size]
else:
    hvd.barrier()
    hvd.allreduce(torch.ones(2), op=hvd.Sum, name="twice")
""", np=np)


def test_process_sets_and_join(ranks):
    ranks.check("""
evens, odds = hvd.ProcessSet([0, 2]), hvd.ProcessSet([1, 3])
hvd.shutdown()
hvd.init(process_sets=[evens, odds])
mine, other = (evens, odds) if rank % 2 == 0 else (odds, evens)
total = sum(mine.ranks)
x = torch.full((4, 2), float(rank), requires_grad=True)
assert hvd.allreduce(x, op=hvd.Sum, process_set=mine)[0, 0] == total
assert hvd.allgather(x, process_set=mine)[:, 0].tolist() == [mine.ranks[0]] * 4 + [mine.ranks[1]] * 4
assert hvd.broadcast(x, mine.ranks[1], process_set=mine)[0, 0] == mine.ranks[1]
assert hvd.alltoall(x, process_set=mine)[:, 0].tolist() == [mine.ranks[0]] * 2 + [mine.ranks[1]] * 2
assert hvd.reducescatter(x, op=hvd.Sum, process_set=mine).shape == (2, 2)
assert hvd.allgather_object(rank, process_set=mine) == mine.ranks
hvd.barrier(mine)
hvd.broadcast(x, mine.ranks[0], process_set=mine).sum().backward()
assert x.grad[0, 0] == (1.0 if rank == mine.ranks[0] else 0.0)
with pytest.raises(ValueError):
    hvd.allreduce(x, process_set=other)
with pytest.raises(ValueError, match="root"):
    hvd.broadcast(x, other.ranks[0], process_set=mine)
parameters = {"w": torch.full((3,), float(rank))}
hvd.broadcast_parameters(parameters, mine.ranks[1], process_set=mine)
assert parameters["w"][0] == mine.ranks[1]
third = hvd.add_process_set([0, 1])
assert third.included() == (rank < 2)
assert hvd.remove_process_set(third)

# Horovod's averages divide by all ranks, whoever has joined.
for average, divisor in (("size", 4), ("contributed", 2)):
    if rank >= 2:
        while hvd.allreduce(torch.ones(1), op=hvd.Sum)[0] > 2:
            pass  # ranks 0 and 1 have not joined yet
        assert hvd.allreduce(torch.full((2,), 6.0)).tolist() == [12.0 / divisor] * 2
    last = hvd.join(average=average)
    assert last in (2, 3) and hvd.allgather_object(last) == [last] * 4
""", np=4)


def test_an_object_that_keeps_its_handle_goes_when_it_is_dropped(world):
    import gc
    import weakref

    import torch

    for start in (world.allreduce_async_, world.allreduce_async, world.alltoall_async,
                  lambda tensor: world.grouped_allreduce_async_([tensor])):
        tensor = torch.ones(4)
        tensor.handle = start(tensor)
        result = tensor.handle.synchronize()
        assert tensor.handle.synchronize() is result and tensor.handle.poll()
        reference = weakref.ref(tensor)
        del tensor, result
        gc.collect()
        assert reference() is None


def test_tensors_of_one_in_place_call_may_not_share_memory(ranks):
    ranks.check("""
a = torch.arange(6.0)
for overlapping in ([a, a], [a[:4], a[2:]], [a[5:], torch.ones(2), a.view(2, 3)]):
    last = len(overlapping) - 1
    with pytest.raises(ValueError, match=f"tensors 0 and {last}, which share memory"):
        hvd.grouped_allreduce_(overlapping, op=hvd.Sum)
assert a.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
hvd.grouped_allreduce_([a[3:], a[:3], torch.empty(0), a[2:2]], op=hvd.Sum)  # side by side
assert a.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
assert [t.tolist() for t in hvd.grouped_allreduce([a[:2], a[:2]])] == [[0.0, 2.0]] * 2
""")


def test_memory_that_a_tensor_loses_in_flight_lives_until_the_call_ends(ranks):
    ranks.check("""
import gc
def replace(a):
    a.data = torch.zeros(1)
def leave(a):
    a.set_(torch.zeros(1))
calls = {
    "reduce": lambda a: hvd.allreduce_async_(a, op=hvd.Sum, name="in place"),
    "group": lambda a: hvd.grouped_allreduce_async_([torch.ones(2), a], op=hvd.Sum, name="in place"),
    "broadcast": lambda a: hvd.broadcast_async_(a, 0, name="in place"),
}
for change in (replace, leave):
    for name, call in calls.items():
        hvd.barrier()
        a = torch.ones(3_000_000)
        if rank == 0:  # the other one is late: the call still runs when the memory is left
            handle = call(a)
            change(a)
            gc.collect()
        hvd.barrier()
        if rank == 1:
            handle = call(a)
            assert handle.synchronize() is not None
        else:
            with pytest.raises(ValueError, match="tensor . of an in-place call.*other memory"):
                handle.synchronize()
            assert a.tolist() == [0.0]
    a = torch.ones(3_000_000)  # an input may go: the call has it
    if rank == 0:
        handle = hvd.allreduce_async(a, op=hvd.Sum, name="input")
        change(a)
    hvd.barrier()
    if rank == 1:
        handle = hvd.allreduce_async(a, op=hvd.Sum, name="input")
    assert (handle.synchronize() == 2).all()
a = torch.ones(1000)
handle = hvd.allreduce_async_(a, op=hvd.Sum, name="resized")
while not handle.poll():  # a call that reads memory which resize_() gave back cannot be saved
    pass
a.resize_(1_000_000)
with pytest.raises(ValueError, match="resize_"):
    handle.synchronize()
""")


def test_tensors_with_lazy_conjugates_and_negatives(ranks):
    ranks.check("""
def make(kind):
    x = torch.tensor([[1 + 2j, 3 - 1j], [2 - 2j, 5j]]) * (rank + 1)
    return x.conj() if kind == "conj" else x.conj().imag

for kind in ("conj", "neg"):
    x = make(kind)
    assert x.is_conj() or x.is_neg()
    plain = x.resolve_conj().resolve_neg()
    one = plain / (rank + 1)
    mean, every = one * 1.5, torch.cat([one, one * 2])
    for given, want in (
            (hvd.allreduce(x), mean), (hvd.allreduce_async(x).synchronize(), mean),
            (hvd.grouped_allreduce([x, x])[1], mean), (hvd.allgather(x), every),
            (hvd.grouped_allgather([x, x])[1], every), (hvd.broadcast(x, 1), one * 2),
            (hvd.grouped_broadcast([x, x], 1)[1], one * 2),
            (hvd.reducescatter(x), mean[rank:rank + 1]),
            (hvd.grouped_reducescatter([x, x])[1], mean[rank:rank + 1]),
            (hvd.alltoall(x), every[rank::2]),
            (hvd.sparse_allreduce_async(x.to_sparse(1), None, hvd.Average).synchronize().to_dense(),
             mean)):
        assert torch.allclose(given, want), (kind, given, want)
    for call in (hvd.allreduce_, hvd.allreduce_async_, lambda x: hvd.grouped_allreduce_([x]),
                 lambda x: hvd.broadcast_(x, 0), lambda x: hvd.grouped_broadcast_([x], 0)):
        with pytest.raises(hvd.InvalidArgumentError, match="resolve_conj"):
            call(x)
    assert torch.equal(x, plain)
    x.requires_grad_()
    hvd.allreduce(x, op=hvd.Sum).abs().sum().backward()
    alone = one.detach().requires_grad_()
    (alone * 3).abs().sum().backward()
    assert torch.allclose(x.grad, alone.grad / 3 * 2), (x.grad, alone.grad)
    turned = make(kind)
    hvd.broadcast_parameters([turned], 1)
    assert torch.allclose(turned, one * 2) and (turned.is_conj() or turned.is_neg())
""")
