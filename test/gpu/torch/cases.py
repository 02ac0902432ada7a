"""horovod_cpp.torch and DLPack on a real GPU, on one rank or on several that share it.

    HVD_GPU_OPERATIONS=host python3 test/gpu/torch/cases.py     on each rank

Prints a line for each case; stops at the first that fails.
"""

import os

import torch

import horovod_cpp.torch as hvd
from horovod_cpp import _native
from horovod_cpp.torch import memory


def filled_late(values):
    """A tensor whose values are there when the current stream has done a long job."""
    tensor = torch.zeros_like(values)
    torch.cuda._sleep(50_000_000)  # clock ticks: tens of milliseconds
    tensor.copy_(values, non_blocking=True)
    return tensor


def reductions(rank, size):
    total = sum(range(1, size + 1))
    for count in (1, 3, 1000, 70001):
        numbers = torch.arange(count, device="cuda").float() % 97
        x = numbers * (rank + 1)
        assert torch.equal(hvd.allreduce(x, op=hvd.Sum), numbers * total)
        assert torch.equal(x, numbers * (rank + 1))
        assert hvd.allreduce_(x, op=hvd.Sum) is x and torch.equal(x, numbers * total)
    half = torch.full((1000,), 0.5, device="cuda")
    assert torch.equal(hvd.allreduce(half, op=hvd.Sum, compression=hvd.Compression.fp16),
                       half * size)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64):
        x = torch.full((100,), rank, device="cuda", dtype=dtype)
        assert torch.equal(hvd.allreduce(x, op=hvd.Max), torch.full_like(x, size - 1))
    mixed = [torch.ones(5, device="cuda"), torch.ones(3), torch.ones(2, device="cuda").long()]
    for tensor in hvd.grouped_allreduce(mixed, op=hvd.Sum):
        assert (tensor == size).all()


def movement(rank, size):
    rows = torch.full((rank + 1, 2), rank, device="cuda")
    expected = torch.cat([torch.full((r + 1, 2), r) for r in range(size)])
    assert torch.equal(hvd.allgather(rows).cpu(), expected)
    assert hvd.broadcast(rows[:1].clone(), size - 1).tolist() == [[size - 1] * 2]
    out, splits = hvd.alltoall(torch.full((size,), rank, device="cuda"), [1] * size)
    assert out.tolist() == list(range(size)) and splits.tolist() == [1] * size
    mine = hvd.reducescatter(torch.arange(size, device="cuda").float(), op=hvd.Sum)
    assert mine.tolist() == [rank * size]


def the_current_stream_comes_first(rank, size):
    values = torch.arange(100000, device="cuda").float()
    side = torch.cuda.Stream()
    for stream in (torch.cuda.default_stream(), side):
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            late = filled_late(values)
            hvd.allreduce_(late, op=hvd.Sum)
            assert torch.equal(late, values * size)
            handles = [hvd.allreduce_async(filled_late(values), op=hvd.Sum) for _ in range(3)]
            for handle in handles:  # their inputs are nobody else's any more
                assert torch.equal(handle.synchronize(), values * size)


def memory_for_gradients(rank, size):
    """What the optimizer asks for on more than one rank."""
    like = [torch.ones(5, device="cuda"), torch.ones(3, 16, device="cuda")]
    places = _native._GradientViews([memory.source(each) for each in like],
                                    hvd.global_process_set, "case").take()
    if os.environ["HVD_GPU_OPERATIONS"] != "nccl":
        assert places == [None, None]
        return
    last, first = views = [memory.shared(place) for place in places]
    assert last.data_ptr() == first.data_ptr() + 192 and first.is_cuda
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            for view, each in zip(views, like):
                view.copy_(filled_late(each * (rank + 1)))
            hvd.grouped_allreduce_(views, op=hvd.Sum)
            for view, each in zip(views, like):
                assert torch.equal(view, each * sum(range(1, size + 1)))


def streams_wait_and_the_host_does_not(rank, size):
    values = torch.arange(100000, device="cuda").float()
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    sums = []
    for step in range(20):
        with torch.cuda.stream(one):
            handle = hvd.allreduce_async(filled_late(values) if step == 0 else values + step,
                                         op=hvd.Sum, name="one name")
        with torch.cuda.stream(other):  # another one than it was asked for on
            sums.append(handle.synchronize() * 2)
            del handle
            torch.randn(100000, device="cuda")  # memory that nobody else may still use
    other.synchronize()
    for step, total in enumerate(sums):
        assert torch.equal(total, (values + step) * 2 * size)


def training(rank, size):
    def train(device, view):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(6, 50), torch.nn.Tanh(), torch.nn.Linear(50, 3))
        model.to(device)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.Adam(model.parameters(), 0.01), model.named_parameters(),
            gradient_as_bucket_view=view)
        hvd.broadcast_parameters(model.state_dict(), 0)
        hvd.broadcast_optimizer_state(optimizer, 0)
        for step in range(20):
            torch.manual_seed(10 * step + rank)
            optimizer.zero_grad()
            model(torch.randn(32, 6).to(device)).square().mean().backward()
            optimizer.step()
        hvd.broadcast_optimizer_state(optimizer, 0)
        return torch.cat([each.detach().cpu().view(-1) for each in model.parameters()])

    expected = train("cpu", True)
    for view in (True, False):
        got = train("cuda", view)
        assert torch.allclose(got, expected, atol=1e-4)
        others = hvd.allgather(got[None])
        assert all(torch.equal(other, got) for other in others)


def batch_norm_and_gradients(rank, size):
    norm, plain = hvd.SyncBatchNorm(3).cuda(), torch.nn.BatchNorm1d(3).cuda()
    x = torch.randn(4, 3, device="cuda", requires_grad=True)
    everyone = hvd.allgather(x)
    assert torch.allclose(norm(x), plain(everyone)[4 * rank:4 * rank + 4], atol=1e-5)
    norm(x).square().sum().backward()
    assert x.grad is not None


def sparse_gradients(rank, size):
    places = torch.tensor([[rank, size]], device="cuda")
    sparse = torch.sparse_coo_tensor(places, torch.ones(2, device="cuda"), (size + 1,))
    summed = hvd.sparse_allreduce_async(sparse, "sparse", hvd.Sum).synchronize().to_dense()
    assert summed.tolist() == [1] * size + [size]
    words = torch.nn.Embedding(size + 2, 2, sparse=True).cuda()
    hvd.broadcast_parameters(words.state_dict(), 0)
    sgd = hvd.DistributedOptimizer(torch.optim.SGD(words.parameters(), 1.0), op=hvd.Sum)
    before = words.weight.detach().clone()
    for _ in range(2):
        sgd.zero_grad()
        words(torch.tensor([0, rank + 1], device="cuda")).sum().backward()
        sgd.step()
    moved = (before - words.weight.detach())[:, 0]
    assert torch.allclose(moved.cpu(), torch.tensor([2.0 * size] + [2.0] * size + [0.0]))


def arrays_of_cupy(rank, size):
    try:
        import cupy
    except ImportError:
        print("CuPy is not here: nothing is known about it")
        return
    import horovod_cpp

    x = cupy.arange(1000, dtype=cupy.float32)
    result = horovod_cpp.allreduce(x, horovod_cpp.Sum)
    assert isinstance(result, cupy.ndarray) and (result == x * size).all()
    with cupy.cuda.Stream(non_blocking=True):
        y = cupy.arange(1000, dtype=cupy.float32) * 2
        assert horovod_cpp.allreduce_(y, horovod_cpp.Sum) is y
        assert (y == x * 2 * size).all()


def main():
    torch.cuda.set_device(0)
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    for case in (reductions, movement, the_current_stream_comes_first,
                 streams_wait_and_the_host_does_not, memory_for_gradients, training,
                 batch_norm_and_gradients, sparse_gradients, arrays_of_cupy):
        case(rank, size)
        hvd.barrier()
        if rank == 0:
            print(f"{case.__name__}: passed", flush=True)


if __name__ == "__main__":
    main()
