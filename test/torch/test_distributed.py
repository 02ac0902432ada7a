"""torch.distributed's collectives with backend "horovod_cpp"; each program covers one subject."""

import pytest
from ranks import ByHand, Ranks

# What every program starts with.
PROLOGUE = """
import datetime
import warnings
import pytest
import torch
import torch.distributed as dist
import horovod_cpp.torch as hvd
dist.init_process_group("horovod_cpp", init_method="hvd://",
                        timeout=datetime.timedelta(seconds=30))
rank, size = dist.get_rank(), dist.get_world_size()
warnings.filterwarnings("ignore", "torch.distributed.*deprecated")

def full(value, *shape, dtype=torch.float32):
    return torch.full(shape or (3, 2), value).to(dtype)
"""


@pytest.fixture
def group(tmp_path):
    """Runs a program in a default process group of its ranks."""
    return Ranks(tmp_path, PROLOGUE)


@pytest.mark.parametrize("np", [2, pytest.param(4, marks=pytest.mark.full)])
def test_reductions_are_exact_for_every_dtype_and_op(group, np):
    group.check("""
import math
sums = size * (size + 1) // 2
wants = {dist.ReduceOp.SUM: sums, dist.ReduceOp.PRODUCT: math.factorial(size),
         dist.ReduceOp.MIN: 1, dist.ReduceOp.MAX: size}
for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
              torch.bfloat16, torch.float32, torch.float64):
    for op, want in wants.items():
        x = full(rank + 1, dtype=dtype)
        assert dist.all_reduce(x, op) is None and torch.equal(x, full(want, dtype=dtype))
        x = full(rank + 1, dtype=dtype)
        dist.reduce(x, size - 1, op)
        assert torch.equal(x, full(want if rank == size - 1 else rank + 1, dtype=dtype)), (op, x)
        output = full(0, dtype=dtype)
        dist.reduce_scatter(output, [full(rank + 1, dtype=dtype)] * size, op)
        assert torch.equal(output, full(want, dtype=dtype))
        output = full(0, 2, dtype=dtype)
        dist.reduce_scatter_tensor(output, full(rank + 1, 2 * size, dtype=dtype), op)
        assert torch.equal(output, full(want, 2, dtype=dtype))
several = [full(0, 2), full(0, 3)]
dist.group.WORLD.reduce_scatter_tensor_coalesced(
    several, [full(rank + 1, 2 * size), full(rank + 1, 3 * size)], dist.ReduceScatterOptions()).wait()
assert torch.equal(several[0], full(sums, 2)) and torch.equal(several[1], full(sums, 3))
for op, of in ((dist.ReduceOp.BAND, lambda a, b: a & b), (dist.ReduceOp.BOR, lambda a, b: a | b),
               (dist.ReduceOp.BXOR, lambda a, b: a ^ b)):
    want = 5
    for other in range(1, size):
        want = of(want, 5 + other)
    x = full(5 + rank, dtype=torch.int32)
    dist.all_reduce(x, op)
    assert torch.equal(x, full(want, dtype=torch.int32)), op
x = full(2.0 * rank)
dist.all_reduce(x, dist.ReduceOp.AVG)
assert torch.equal(x, full(size - 1.0))
x = torch.full((2,), complex(rank, 1), dtype=torch.complex64)
dist.all_reduce(x)
assert torch.equal(x, torch.full((2,), complex(sums - size, size), dtype=torch.complex64))
x = torch.tensor(rank)
dist.all_reduce(x)
assert x.item() == sums - size
strided = torch.zeros(3, 4)[:, ::2] + 0
strided = torch.full((3, 4), float(rank))[:, ::2]
dist.all_reduce(strided)
assert torch.equal(strided, full(float(sums - size)))
parameter = torch.nn.Parameter(full(float(rank)))
dist.all_reduce(parameter)
assert torch.equal(parameter.data, full(float(sums - size)))
several = [full(float(rank)), full(rank + 1.0, 5)]
dist.all_reduce_coalesced(several)
assert torch.equal(several[0], full(float(sums - size)))
assert torch.equal(several[1], full(float(sums), 5))
sparse = torch.sparse_coo_tensor([[rank, size]], [1.0, 2.0], (size + 1,))
dist.all_reduce(sparse)
assert sparse.to_dense().tolist() == [1.0] * size + [2.0 * size]
empty = torch.empty(0)
dist.all_reduce(empty)
dist.destroy_process_group()
""", np)


@pytest.mark.parametrize("np", [2, 4])
def test_movements_put_every_tensor_where_it_belongs(group, np):
    group.check("""
for dtype in (torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float64):
    for root in range(size):
        x = full(rank % 2 + 1, dtype=dtype)
        dist.broadcast(x, root)
        assert torch.equal(x, full(root % 2 + 1, dtype=dtype))
outputs = [torch.zeros(3, 2) for _ in range(size)]
dist.all_gather(outputs, full(float(rank)))
assert all(torch.equal(output, full(float(r))) for r, output in enumerate(outputs))
outputs = [torch.zeros(2, 3).t() for _ in range(size)]  # not contiguous
dist.all_gather(outputs, torch.arange(6.0).view(2, 3).t() + rank)
assert all(torch.equal(output, torch.arange(6.0).view(2, 3).t() + r)
           for r, output in enumerate(outputs))
output = torch.zeros(size * 3, 2)
dist.all_gather_into_tensor(output, full(float(rank)))
assert torch.equal(output, torch.arange(size).repeat_interleave(3)[:, None] * torch.ones(1, 2))
lists = [[torch.zeros(2), torch.zeros(3)] for _ in range(size)]
dist.all_gather_coalesced(lists, [full(float(rank), 2), full(-float(rank), 3)])
assert all(torch.equal(a, full(float(r), 2)) and torch.equal(b, full(-float(r), 3))
           for r, (a, b) in enumerate(lists))
for root in range(size):
    outputs = [torch.zeros(3, 2) for _ in range(size)] if rank == root else None
    dist.gather(full(float(rank)), outputs, root)
    if outputs:
        assert all(torch.equal(output, full(float(r))) for r, output in enumerate(outputs))
    output = torch.zeros(3, 2)
    dist.scatter(output, [full(10.0 + r) for r in range(size)] if rank == root else None, root)
    assert torch.equal(output, full(10.0 + rank))
output = torch.zeros(size, 2)
dist.all_to_all_single(output, 10.0 * rank + torch.arange(size)[:, None] + torch.zeros(1, 2))
assert torch.equal(output, 10.0 * torch.arange(size)[:, None] + rank + torch.zeros(1, 2))
splits = list(range(size))  # r rows for rank r
output = torch.zeros(size * rank, 2)
dist.all_to_all_single(output, torch.full((sum(splits), 2), float(rank)), [rank] * size, splits)
assert torch.equal(output[:, 0], torch.arange(float(size)).repeat_interleave(rank))
outputs = [torch.zeros(rank + r) for r in range(size)]
dist.all_to_all(outputs, [torch.full((rank + r,), float(rank)) for r in range(size)])
assert all(torch.equal(output, torch.full((rank + r,), float(r)))
           for r, output in enumerate(outputs))
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
assert objects == [{"rank": r, "text": "x" * r} for r in range(size)]
objects = [("root", [1, 2])] if rank == 0 else [None]
dist.broadcast_object_list(objects, 0)
assert objects == [("root", [1, 2])]
dist.barrier()
dist.destroy_process_group()
""", np)


def test_transfers_meet_by_rank_and_tag(group):
    group.check("""
right, left = (rank + 1) % size, (rank - 1) % size
received = torch.zeros(3, 2)
request = dist.irecv(received, left, tag=7)
dist.send(full(float(rank)), right, tag=7)
assert request.wait() and torch.equal(received, full(float(left)))
if rank % 2:
    assert dist.recv(received, left) == left and torch.equal(received, full(float(left)))
else:
    dist.send(full(float(rank)), rank + 1)
# Tags cross over, and a call that others wait for does not wait for a transfer.
first, second = torch.zeros(2), torch.zeros(4, 2)[:, 0]
requests = [dist.irecv(first, left, tag=1), dist.irecv(second, left, tag=2)]
total = torch.ones(1)
dist.all_reduce(total, async_op=True).get_future().wait()
assert total.item() == size
sends = [dist.isend(full(2.0, 4), right, tag=2), dist.isend(full(1.0, 2), right, tag=1)]
for request in requests + sends:
    request.wait()
assert torch.equal(first, full(1.0, 2)) and torch.equal(second, full(2.0, 4))
operations = [dist.P2POp(dist.isend, full(float(rank)), right),
              dist.P2POp(dist.irecv, received, left)]
for request in dist.batch_isend_irecv(operations):
    request.wait()
assert torch.equal(received, full(float(left)))
with pytest.raises(hvd.UnsupportedError, match="src="):
    dist.recv(received)
with pytest.raises(ValueError, match="tag"):
    dist.isend(received, right, tag=1 << 20)
request = dist.irecv(torch.zeros(rank + 1), left) if rank == 0 else None
if rank == size - 1:
    with pytest.raises(hvd.MismatchError, match="elements"):
        dist.send(torch.zeros(9), 0)
if request:
    with pytest.raises(hvd.MismatchError, match="elements"):
        request.wait()
dist.barrier()
dist.destroy_process_group()
""", 4)


def test_asynchronous_calls_give_works_and_futures(group):
    group.check("""
import threading
works = []
for number in range(600):  # more than the engine has names for
    x = full(float(number), 2)
    works.append((dist.all_reduce(x, async_op=True), x, number))
for work, x, number in reversed(works):
    assert work.wait() is True
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert work.result()[0] is x and torch.equal(x, full(float(number * size), 2))
x, y = torch.ones(3), torch.zeros(3 * size)
seen = []
future = dist.all_reduce(x, async_op=True).get_future().then(lambda done: seen.append(done.value()))
after = dist.all_gather_into_tensor(y, x[:3].clone(), async_op=True).get_future()
after.wait()
assert seen and seen[0][0] is x and x.tolist() == [size] * 3  # in order
def after_rank_0(start):
    if rank == 1:
        dist.recv(torch.zeros(1), 0)
    future = start()
    if rank == 0:
        dist.send(torch.zeros(1), 1)
    return future
def total(x):
    return dist.all_reduce(x, async_op=True)
both = after_rank_0(lambda: total(torch.ones(1)).get_future().then(  # a callback that waits
    lambda done: after_rank_0(lambda: total(done.value()[0])).get_future().wait()[0]))
assert both.wait().tolist() == [size**2]
outputs = [torch.zeros(3) for _ in range(size)]
for work in (dist.broadcast(x, 0, async_op=True), dist.reduce(x, 0, async_op=True),
             dist.all_gather(outputs, x, async_op=True), dist.barrier(async_op=True),
             dist.gather(x, outputs if rank == 0 else None, async_op=True),
             dist.scatter(x, outputs if rank == 0 else None, async_op=True),
             dist.reduce_scatter(x, outputs, async_op=True),
             dist.all_to_all(outputs, [x] * size, async_op=True),
             dist.all_to_all_single(torch.zeros(size), torch.zeros(size), async_op=True)):
    assert work.wait()
    assert work.is_success()
for outputs, work in ((outputs, dist.gather(x, outputs if rank == 0 else None, async_op=True)),
                      (outputs, dist.all_to_all(outputs, [x] * size, async_op=True)),
                      ([y], dist.all_to_all_single(y, y.clone(), async_op=True)),
                      ([x], dist.scatter(x, outputs if rank == 0 else None, async_op=True))):
    assert all(a is b for a, b in zip(work.result(), outputs))  # the caller's own
lazy = dist.all_reduce(torch.ones(1), async_op=True)
while not lazy.is_completed():
    pass
dist.destroy_process_group()
assert not [thread for thread in threading.enumerate() if thread.name == "hvd-futures"]
""")


def test_groups_of_some_ranks_work_side_by_side(group):
    group.check("""
from datetime import timedelta
everyone = dist.new_group()
twin = dist.new_group()  # of the same ranks: calls of the two do not meet
alone = [dist.new_group([r]) for r in range(size)][rank]  # every rank makes all of them
x = full(float(rank))
works = []
for number, each in enumerate([everyone, twin] if rank else [twin, everyone]):
    y = torch.full((2,), 1.0 if each is twin else 10.0)
    works.append((dist.all_reduce(y, group=each, async_op=True), y, each))
for work, y, each in works:
    work.wait()
    assert y[0] == (size if each is twin else 10 * size)
dist.all_reduce(x, group=alone)
dist.broadcast(x, rank, group=alone)
assert torch.equal(x, full(float(rank)))
assert dist.get_world_size(alone) == 1 and dist.get_rank(alone) == 0
low = dist.new_group(list(range(size // 2)))
high = dist.new_group(list(range(size // 2, size)), timeout=timedelta(seconds=60))
again = dist.new_group(list(range(size // 2, size)))
mine = low if rank < size // 2 else high
if size > 2:  # ranks outside hear of groups in a thread, while they add sets of the program's
    for left in range(1, size):
        dist.new_group([rank for rank in range(size) if rank != left])
        assert hvd.add_process_set([0, left]).ranks == [0, left]
pair = hvd.add_process_set([0, size - 1])  # a set of the program's, and a group of the same ranks
assert pair.process_set_id != hvd.global_process_set.process_set_id
first_and_last = dist.new_group([0, size - 1])
if rank in (0, size - 1):
    x = torch.ones(1)
    dist.all_reduce(x, group=first_and_last)
    assert x.item() == hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=pair).item() == 2
members = list(range(size // 2)) if rank < size // 2 else list(range(size // 2, size))
x = full(float(rank))
dist.all_reduce(x, group=mine)
assert torch.equal(x, full(float(sum(members)))), x
outputs = [torch.zeros(3, 2) for _ in members]
dist.all_gather(outputs, full(float(rank)), group=mine)
assert [output[0, 0].item() for output in outputs] == members
x = full(float(rank))
dist.broadcast(x, members[-1], group=mine)
assert torch.equal(x, full(float(members[-1])))
outputs = [torch.zeros(3, 2) for _ in members] if rank == members[-1] else None
dist.gather(full(float(rank)), outputs, members[-1], group=mine)
if outputs:
    assert [output[0, 0].item() for output in outputs] == members
if len(members) > 1:
    if rank == members[0]:
        dist.send(full(5.0), members[1], group=mine)
    elif rank == members[1]:
        x = full(0.0)
        assert dist.recv(x, members[0], group=mine) == members[0] and torch.equal(x, full(5.0))
if rank >= size // 2:
    dist.barrier(group=again)
    dist.destroy_process_group(again)
dist.barrier()
dist.destroy_process_group()
assert not hvd.is_initialized()
""", 4)


def test_mistakes_and_disagreements_are_errors_that_name_them(group):
    group.check("""
x = torch.zeros(3)
with pytest.raises(ValueError, match="different sizes"):
    dist.reduce_scatter(x, [torch.zeros(3), torch.zeros(2)] + [x] * (size - 2))
with pytest.raises(ValueError, match="1 tensors for 2 ranks"):
    dist.all_gather([x], x)
with pytest.raises(ValueError, match="elements"):
    dist.all_gather_into_tensor(x, x)
with pytest.raises(ValueError, match="output_split_sizes"):
    dist.all_to_all_single(x, x, [1, 1], [1, 2])
with pytest.raises(hvd.UnsupportedError, match="BXOR"):
    dist.reduce(x.int(), 0, dist.ReduceOp.BXOR)
with pytest.raises(hvd.UnsupportedError, match="meta"):
    dist.all_reduce(torch.zeros(2, device="meta"))
with pytest.raises(hvd.Error, match="src"):
    dist.irecv(x)
with pytest.raises(hvd.UnsupportedError, match="ascending"):  # PyTorch 2 with sort_ranks=False
    hvd.distributed.session.current().groups.make("turned", [1, 0], 9)
# What could not be written afterwards is refused before anything travels; negated views are written.
narrow = torch.zeros(1).expand(3)
for call in (lambda: dist.all_reduce(narrow), lambda: dist.broadcast(narrow, 0),
             lambda: dist.all_gather([narrow] * size, x), lambda: dist.reduce(narrow, rank),
             lambda: dist.all_reduce(narrow.int().expand(3)[:1].expand(3), dist.ReduceOp.BXOR),
             lambda: dist.all_gather_into_tensor(torch.zeros(1).expand(3 * size), x),
             lambda: dist.reduce_scatter(narrow, [x] * size), lambda: dist.recv(narrow, 1 - rank),
             lambda: dist.scatter(narrow, [x] * size, rank),
             lambda: dist.gather(x, [narrow] * size, rank),
             lambda: dist.all_to_all([narrow] * size, [x] * size),
             lambda: dist.all_to_all_single(torch.zeros(1).expand(size), torch.zeros(size))):
    with pytest.raises(hvd.InvalidArgumentError, match="share memory"):
        call()
# Nor is what has another dtype converted, which might lose values.
halves = torch.tensor([1.5] * size)
for call in (lambda: dist.all_gather_into_tensor(torch.zeros(size**2, dtype=torch.int64), halves),
             lambda: dist.reduce_scatter_tensor(torch.zeros(1, dtype=torch.int64), halves)):
    with pytest.raises(hvd.InvalidArgumentError, match="output is of torch.int64 .* torch.float32"):
        call()
turned = torch.tensor([1 + 2j, 3 - 1j]).mul(rank + 1).conj().imag
assert turned.is_neg()  # its memory has the negatives
dist.all_reduce(turned)
assert turned.tolist() == [-6, 3]
# What ranks disagree on is an error on all of them, from wait(), and the group goes on.
def mismatch(call, *words):
    with pytest.raises(hvd.MismatchError) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value

mismatch(lambda: dist.all_reduce(torch.zeros(3 + rank)), "[3]", "[4]")
mismatch(lambda: dist.all_reduce(torch.zeros(3).to([torch.float32, torch.int32][rank])),
         "float32", "int32")
mismatch(lambda: dist.all_reduce(x, [dist.ReduceOp.SUM, dist.ReduceOp.MAX][rank]))
mismatch(lambda: dist.broadcast(x, rank), "root")
bits = torch.ones(3, dtype=torch.int32)
mismatch(lambda: dist.all_reduce(bits, [dist.ReduceOp.BXOR, dist.ReduceOp.SUM][rank]),
         "allgather", "allreduce")
rows = torch.sparse_coo_tensor([[rank]], [1.0], (3,))
mismatch(lambda: dist.all_reduce([rows, torch.zeros(3)][rank]), "allgather on rank 0", "allreduce on rank 1")
mismatch(lambda: [lambda: dist.broadcast(x, 0), dist.barrier][rank](), "broadcast", "barrier")
mismatch(lambda: dist.all_gather([torch.zeros(3 + rank)] * 2, torch.zeros(3 + rank)))
mismatch(lambda: dist._broadcast_coalesced(dist.group.WORLD, [torch.zeros(3 + rank)], 99, 0))  # C++
work = dist.all_reduce(torch.zeros(3 + rank), async_op=True)
mismatch(work.wait)
mismatch(work.wait)
assert work.is_completed() and not work.is_success()
assert isinstance(work.exception(), hvd.MismatchError)
with pytest.raises(RuntimeError, match="MismatchError"):
    dist.all_reduce(torch.zeros(3 + rank), async_op=True).get_future().wait()
ones = torch.ones(3)
dist.all_reduce(ones)
assert ones.tolist() == [size] * 3
# A rank that does not come.
patient = dist.new_group(timeout=datetime.timedelta(seconds=77))
assert patient._timeout == 77
if rank == 0:
    patient.set_timeout(datetime.timedelta(seconds=0.5))  # not before: making it takes time too
    late = dist.all_reduce(x, group=patient, async_op=True)
    with pytest.raises(hvd.StalledError, match=r"all_reduce by rank 0 .*\\[0, 1\\].*0.5 s"):
        late.wait()
    with pytest.raises(hvd.StalledError, match="0.1 s"):
        late.wait(datetime.timedelta(seconds=0.1))
    with pytest.raises(RuntimeError, match="StalledError"):
        late.get_future().wait()
    with pytest.raises(hvd.StalledError, match="recv from rank 1"):
        dist.recv(torch.zeros(1), 1, group=patient)
dist.barrier()
if rank == 1:
    dist.all_reduce(x, group=patient)
    dist.send(torch.zeros(1), 0, group=patient)
dist.barrier()
dist.destroy_process_group()
with pytest.raises(Exception, match="[Dd]efault process group"):
    dist.all_reduce(x)
""")


def test_the_rank_that_dies_is_named(tmp_path):
    by_hand = ByHand(tmp_path, port="0")  # hvdrun would soon end rank 0 too
    meeting = {"HVD_RENDEZVOUS": f"file://{tmp_path}/meeting"}
    survivor, victim = (by_hand.start(PROLOGUE + """
import os
dist.barrier()
if rank == 1:
    os._exit(7)
with pytest.raises(hvd.PeerLostError, match="rank 1"):
    dist.all_reduce(torch.ones(2))
print("lost", flush=True)
""", rank, 2, meeting) for rank in range(2))
    try:
        said, _ = survivor.communicate(timeout=120)
        assert "lost" in said.splitlines(), said
        assert victim.wait(timeout=30) == 7
    finally:
        by_hand.end()
