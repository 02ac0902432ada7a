"""Collectives on PyTorch's tensors, by DLPack."""

import pytest
from ranks import Ranks

DTYPES = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 "
          "complex128").split()


@pytest.fixture
def ranks(tmp_path):
    return Ranks(tmp_path)


def test_torch_numpy_and_tensor_give_equal_results_of_their_own_kind(ranks):
    ranks.check(f"""
import copy, torch
for name in {DTYPES}:
    dtype = getattr(torch, name)
    op = hvd.BitOr if dtype == torch.bool else hvd.Sum
    values = (torch.arange(12).reshape(4, 3) % 3 == rank).to(dtype)
    ours = hvd.from_dlpack(values) if name != "bool" else hvd.tensor(values)
    calls = {{
        "allreduce": lambda x: hvd.allreduce(x, op),
        "reducescatter": lambda x: hvd.reducescatter(x, op),
        "allgather": hvd.allgather,
        "broadcast": lambda x: hvd.broadcast(x, 1),
        "alltoall": hvd.alltoall,
        "splits": lambda x: hvd.alltoall(x, [3, 1])[0],
        "scatter": lambda x: hvd.scatter(x, 0),
        "async": lambda x: hvd.synchronize(hvd.allreduce_async(x, op)),
        "grouped": lambda x: hvd.grouped_allreduce([x, x], op)[1],
        "in place": lambda x: hvd.allreduce_(copy.deepcopy(x), op),
    }}
    for what, call in calls.items():
        theirs, mine = call(values), call(ours)
        assert type(theirs) is torch.Tensor and theirs.dtype == dtype, (what, name)
        assert isinstance(mine, hvd.Tensor) and mine.dtype == name, (what, name)
        assert hvd.bitwise_equal(hvd.tensor(theirs), mine), (what, name, theirs, mine)
        if name != "bfloat16":
            arrays = call(values.numpy())
            assert isinstance(arrays, np.ndarray) and (arrays == theirs.numpy()).all(), (what, name)
""")


def test_in_place_calls_write_the_tensors_own_memory(ranks):
    ranks.check("""
import torch
x = torch.full((4,), 1.0 + rank)
view, address = x[1:3], x.data_ptr()
assert hvd.allreduce_(x, hvd.Sum) is x and x.data_ptr() == address and x.tolist() == [3.0] * 4
assert hvd.broadcast_(view, 0) is view
both = [torch.full((2,), float(rank)), torch.full((3,), rank)]
assert hvd.grouped_broadcast_(both, 1) is both and both[1].tolist() == [1, 1, 1]
box = torch.zeros(3)
if rank == 0:
    hvd.send(torch.arange(3.0), 1)
else:
    assert hvd.recv(box, 0) is box and box.tolist() == [0.0, 1.0, 2.0]
flags = torch.tensor([rank == 0, False])
assert hvd.allreduce_(flags, hvd.BitOr) is flags and flags.tolist() == [True, False]
""")


def test_parameters_are_taken_by_their_values_and_written_in_place(ranks):
    ranks.check("""
import torch
model = torch.nn.Linear(3, 2)
with torch.no_grad():
    model.weight.fill_(float(rank))
averaged = hvd.allreduce(model.weight)
assert type(averaged) is torch.Tensor and not averaged.requires_grad
assert averaged.tolist() == [[0.5] * 3] * 2
hvd.broadcast_parameters(model.state_dict(), root_rank=1)
assert model.weight.requires_grad and (model.weight == 1).all()
hvd.broadcast_parameters(model.named_parameters(), root_rank=0)
doubled = model.weight * 2  # not a leaf
assert hvd.allreduce_(doubled, hvd.Sum) is doubled and doubled.requires_grad
assert (doubled == 4).all()
strided = torch.zeros(4, 2)
strided[:, 0] = rank
hvd.broadcast_parameters({"column": strided[:, 0]}, root_rank=1)
assert strided.tolist() == [[1.0, 0.0]] * 4
""")


def test_any_layout_is_read_and_only_contiguous_memory_written(ranks):
    ranks.check("""
import torch
x = torch.arange(12.0).reshape(3, 4)
for view in (x.t(), x[:, ::2], torch.ones(1).expand(5), x[0, 0], x[:0]):
    got = hvd.allreduce(view)
    assert got.shape == view.shape and torch.equal(got, view), view
for view, message in ((x.t(), "trailing underscore"), (torch.ones(1).expand(5), "share memory")):
    with pytest.raises(hvd.InvalidArgumentError, match=message):
        hvd.allreduce_(view)
with pytest.raises(hvd.InvalidArgumentError, match="torch.Tensor.*share memory"):
    hvd.broadcast_parameters({"x": torch.zeros(1).expand(5)})
scalar, empty = torch.tensor(2.0), torch.zeros(0, 3)
assert hvd.allreduce_(scalar, hvd.Sum) is scalar and scalar.item() == 4.0
assert hvd.allreduce_(empty) is empty
""")


def test_what_cannot_be_taken_says_why(ranks):
    ranks.check("""
import torch
with pytest.raises((RuntimeError, BufferError), match="layout"):
    hvd.allreduce(torch.ones(3).to_sparse())
with pytest.raises(Exception, match="conj"):
    hvd.allreduce(torch.ones(3, dtype=torch.complex64).conj())
with pytest.raises(TypeError, match="expected a Tensor"):
    hvd.allreduce(torch.Tensor)  # the class
assert hvd.allreduce(torch.ones(2), hvd.Sum).tolist() == [2.0, 2.0]  # the job goes on
""")


def test_a_tensor_and_torch_share_memory_both_ways():
    import torch

    import horovod_cpp as hvd

    ours = hvd.tensor([1.0, 2.0, 3.0])
    theirs = torch.from_dlpack(ours)
    theirs[0] = 7
    again = hvd.from_dlpack(theirs[1:])
    again[0] = 8
    assert ours.tolist() == theirs.tolist() == [7.0, 8.0, 3.0]
    del ours, theirs
    assert again.tolist() == [8.0, 3.0]
    for name in DTYPES[1:]:
        assert torch.from_dlpack(hvd.ones((2,), dtype=name)).dtype == getattr(torch, name)
        assert hvd.from_dlpack(torch.ones(2, dtype=getattr(torch, name))).dtype == name
    weight = hvd.ones((2,)).requires_grad_()
    with pytest.raises(BufferError, match="detach"):
        torch.from_dlpack(weight)
    assert torch.from_dlpack(weight.detach()).tolist() == [1.0, 1.0]


def test_memory_is_neither_leaked_nor_freed_early(ranks):
    ranks.check("""
import gc, resource, threading, torch
megabyte = 1 << 18  # float32
handles = []
for i in range(8):  # nobody but the engine has the input
    handles.append(hvd.allreduce_async(torch.full((megabyte,), float(i)), hvd.Sum, name=f"early{i}"))
gc.collect()
rubbish = [torch.full((megabyte,), -1.0) for _ in range(8)]
for i, handle in enumerate(handles):
    result = hvd.synchronize(handle)
    assert (result == 2.0 * i).all()
result = hvd.synchronize(handles[0])
del handles
assert result.sum() == 0.0
x, y = torch.ones(megabyte), hvd.ones((megabyte,))
for i in range(1000):
    hvd.allreduce(x[:8192])
    hvd.allreduce_(x)
    hvd.from_dlpack(torch.from_dlpack(y))
    if i == 200:
        hvd.barrier()
        start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
assert grown < 32 * 1024, f"{grown} KiB more"
""")
