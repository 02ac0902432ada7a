"""horovod_cpp.torch with tensors of GPUs."""

import pytest


@pytest.mark.parametrize("np", [1, 2])
def test_collectives(torch_ranks, np):
    torch_ranks.check("""
total = sum(range(1, size + 1))
numbers = torch.arange(6.).view(3, 2)
def on_gpu(tensor): return gpu_tensor(tensor.clone())
def is_like(tensor, values): return isinstance(tensor, GpuTensor) and tensor.tolist() == values.tolist()

x = on_gpu(numbers * (rank + 1))
y = hvd.allreduce(x, op=hvd.Sum)
assert is_like(y, numbers * total) and is_like(x, numbers * (rank + 1))
assert is_like(hvd.synchronize(hvd.allreduce_async(x, op=hvd.Sum)), numbers * total)
assert is_like(hvd.allreduce(x.t(), op=hvd.Sum), numbers.t() * total)
assert is_like(hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16), numbers * total)
for group in (hvd.grouped_allreduce([x, numbers], op=hvd.Sum),
              hvd.synchronize(hvd.grouped_allreduce_async([x, numbers], op=hvd.Sum))):
    assert is_like(group[0], numbers * total) and group[1].tolist() == (numbers * size).tolist()
assert hvd.allreduce_(x, op=hvd.Sum) is x and is_like(x, numbers * total)
assert is_like(hvd.broadcast(on_gpu(torch.tensor([rank])), size - 1), torch.tensor([size - 1]))
z = on_gpu(torch.tensor([rank]))
assert hvd.broadcast_(z, 0) is z and is_like(z, torch.tensor([0]))
rows = on_gpu(torch.full((rank + 1, 2), rank))
assert is_like(hvd.allgather(rows), torch.cat([torch.full((r + 1, 2), r) for r in range(size)]))
out, splits = hvd.alltoall(on_gpu(torch.full((size,), rank)), [1] * size)
assert is_like(out, torch.arange(size)) and splits.tolist() == [1] * size
assert is_like(hvd.reducescatter(on_gpu(torch.arange(size)), op=hvd.Sum), torch.tensor([rank * size]))

w = on_gpu(torch.ones(2)).requires_grad_()
hvd.allreduce(w, op=hvd.Sum).sum().backward()
assert w.grad.tolist() == [size] * 2
w.grad = None
hvd.allgather(w.view(1, 2)).sum().backward()
assert w.grad.tolist() == [1, 1]
""", np=np)


def test_the_current_stream_comes_first_and_nothing_waits_on_the_host(torch_ranks):
    torch_ranks.check("""
x = gpu_tensor(torch.ones(3))
hvd.barrier()
stream_log()
with stalled():
    handle = hvd.allreduce_async_(x, op=hvd.Sum)  # would not return if it waited
    assert not handle.wait_for(0.3)
assert handle.synchronize() is x and x.tolist() == [size] * 3
log = stream_log()
assert log[0][0] == "record" and log[0][2] == work_stream
ready = log[0][1]
engines = next(place for place, (what, point, _) in enumerate(log) if (what, point) == ("wait", ready))
copies = [entry for entry in log[engines:] if entry[0] == "copy"]
assert copies and {on for _, _, on in copies} == {log[engines][2]}
assert not [entry for entry in log[:engines] if entry[0] == "copy"]
""")


IN_ORDER = """
from horovod_cpp.torch import gpu
from gpu_tensors import handed_over
current = work_stream
gpu.current_stream = lambda device: current

def in_order(start, finish, stream):
    "What finish() gives with this current stream, while nobody knows that the GPU has the results."
    global current
    hvd.barrier()
    stream_log()
    with results_stalled():
        begun = start()
        current = stream
        given = finish(begun)
        assert waits_past_a_copy(stream_log(), stream)
    current = work_stream
    return given
"""


def test_synchronize_waits_by_the_current_stream_and_not_on_the_host(torch_ranks):
    torch_ranks.check(IN_ORDER + """
def ended(handle):
    assert handle.wait_for(60)
    return handle.synchronize()

x = gpu_tensor(torch.ones(3))
for stream in (work_stream, module.hvd_test_make_stream()):
    assert in_order(lambda: hvd.allreduce_async_(x, op=hvd.Sum, name="x"), ended, stream) is x
    y = in_order(lambda: hvd.allreduce_async(x, op=hvd.Sum, name="x"), ended, stream)
    told, where = handed_over.pop()
    assert told is y and where == stream
    rows = in_order(lambda: hvd.allgather_async(x[:1] * 0 + rank, "rows"), ended, stream)
    assert rows.tolist() == list(range(size))
    z = in_order(lambda: hvd.broadcast_async(x, 0), ended, stream)
    assert z.tolist() == x.tolist() and y.tolist() == [size * x[0].item()] * 3
assert x.tolist() == [size ** 2] * 3
in_order(lambda: None, lambda _: hvd.allreduce_(x), work_stream)
""")


def test_an_optimizers_step_waits_by_the_current_stream(torch_ranks):
    torch_ranks.check(IN_ORDER + """
from gpu_tensors import gpu_module
for options in ({}, {"gradient_as_bucket_view": False}, {"compression": hvd.Compression.fp16}):
    model = gpu_module(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1),
                                         model.named_parameters(), **options)
    hvd.broadcast_parameters(model.state_dict(), 0)
    backward = lambda: model(torch.full((5, 4), rank + 1.0)).sum().backward()
    for step in range(2):  # the second one also asks for an arena, and waits for that
        optimizer.zero_grad()
        backward()
        optimizer.step()
    for step in range(2):
        optimizer.zero_grad()
        in_order(backward, lambda _: optimizer.step(), work_stream)
    weights = hvd.allgather(torch.cat([p.detach().view(-1) for p in model.parameters()])[None])
    assert torch.equal(weights[0], weights[1])
""")


def test_torch_distributed_waits_by_the_current_stream(torch_ranks):
    torch_ranks.check(IN_ORDER + """
import torch.distributed as dist
dist.init_process_group("horovod_cpp", init_method="hvd://")
x = gpu_tensor(torch.full((3,), rank + 1.0))
other = module.hvd_test_make_stream()
in_order(lambda: dist.all_reduce(x, async_op=True), lambda work: work.wait(), other)
assert x.tolist() == [3, 3, 3]
crossed = gpu_tensor(torch.full((2, 3), rank + 1.0).t())
in_order(lambda: dist.all_reduce(crossed, async_op=True), lambda work: work.wait(), other)
assert crossed.tolist() == [[3, 3]] * 3 and handed_over.pop()[1] == other
dist.destroy_process_group()
""")


TRAINING = """
from gpu_tensors import gpu_module

def train(move, view=True, **options):
    torch.manual_seed(1)
    model = move(torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(),
                                         gradient_as_bucket_view=view, **options)
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer, 0)
    for step in range(4):
        torch.manual_seed(10 * step + rank)
        optimizer.zero_grad()
        model(torch.randn(7, 6)).square().mean().backward()
        optimizer.step()
    return model, [parameter.detach().tolist() for parameter in model.parameters()]

_, expected = train(lambda model: model)
"""


@pytest.mark.parametrize("np", [1, 2])
def test_training_gives_the_bits_of_the_cpu(torch_ranks, np):
    torch_ranks.check(TRAINING + """
for options in ({}, {"view": False}, {"groups": 2}, {"backward_passes_per_step": 1, "groups": 1}):
    model, got = train(gpu_module, **options)
    assert all(isinstance(parameter.detach(), GpuTensor) for parameter in model.parameters())
    assert got == expected, options
half, got = train(gpu_module, compression=hvd.Compression.fp16)
assert got == train(lambda model: model, compression=hvd.Compression.fp16)[1]
def mixed(model):
    gpu_module(model[0])
    return model
assert train(mixed)[1] == expected and train(mixed, groups=1)[1] == expected
""", np=np)


VIEWS = """
from horovod_cpp.torch import gpu

def places(tensors):
    return [tensor.data_ptr() for tensor in tensors]

weights = [torch.nn.Parameter(gpu_tensor(torch.zeros(numel))) for numel in (5, 16, 33)]
host = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([*weights, host], 1.0)
optimizer = hvd.DistributedOptimizer(optimizer, op=hvd.Sum)
total = sum(range(1, size + 1))

def step(factor=1):
    for weight in [*weights, host]:
        (weight * (rank + 1) * factor).sum().backward()
    optimizer.step()
    for weight in [*weights, host]:
        assert weight.grad.unique().tolist() == [total * factor], weight.grad

step()
optimizer.zero_grad()
step()  # there from the second one on
home = places(weight.grad for weight in weights)
assert home == [home[2] + 192 + 64, home[2] + 192, home[2]]  # up to 64 bytes
for set_to_none in (True, False, True):
    optimizer.zero_grad(set_to_none=set_to_none)
    step()
    assert places(weight.grad for weight in weights) == home
    assert all(isinstance(weight.grad, GpuTensor) for weight in weights)
kept = weights[0].grad

# The stream on which PyTorch works may change.
other = module.hvd_test_make_stream()
gpu.current_stream = lambda device: other
stream_log()
optimizer.zero_grad()
step()
records = {stream for what, _, stream in stream_log() if what == "record"}
assert other in records and work_stream not in records

# A gradient of the program's own, and none on a rank.
optimizer.zero_grad()
if rank == 0:
    weights[0].grad = gpu_tensor(torch.full((5,), 7.0))
optimizer.synchronize()
assert weights[0].grad.tolist() == [7] * 5 and weights[1].grad.tolist() == [0] * 16
assert places(weight.grad for weight in weights) == home
optimizer.step()

late = torch.nn.Parameter(gpu_tensor(torch.zeros(3)))
optimizer.add_param_group({"params": [late]})
weights.append(late)
optimizer.zero_grad()
step(2)

# As Module.to() does it: the memory is another.
optimizer.zero_grad(set_to_none=False)
weights[1].grad.data = weights[1].grad.data.clone()
step(3)
assert weights[1].grad.data_ptr() != home[1]
assert places(weight.grad for weight in weights[:3:2]) == home[::2]

del optimizer, weights
assert kept.tolist() == [total * 3] * 5  # it keeps the memory
del kept
hvd.barrier()
hvd.shutdown()
"""


@pytest.mark.parametrize("np, lazy", [(2, None), (4, 5)])
def test_gradients_lie_in_nccls_memory(torch_ranks, np, lazy):
    torch_ranks.check(VIEWS, np=np, lazy=lazy, operations="nccl", devices=4)


def test_training_with_nccl_gives_the_bits_of_the_cpu(torch_ranks):
    torch_ranks.check(TRAINING + """
for options in ({}, {"view": False}, {"groups": 2}):
    model, got = train(gpu_module, **options)
    assert got == expected, options
    packed = hvd.Compression.fp16
    half, got = train(gpu_module, compression=packed, **options)
    assert got == train(lambda model: model, compression=packed, **options)[1]
""", operations="nccl")


def test_without_memory_of_the_engines_gradients_stay_pytorchs(torch_ranks):
    torch_ranks.check("""
from horovod_cpp import _native
from horovod_cpp.torch import memory
like = [gpu_tensor(torch.ones(3)), torch.ones(2)]
views = _native._GradientViews([memory.source(each) for each in like], hvd.global_process_set, "w")
on_gpu, on_host = views.take()
assert on_gpu is None and on_host.shape == (2,)

weight = torch.nn.Parameter(like[0])
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], 0.5), op=hvd.Sum)
for step in range(3):
    optimizer.zero_grad(set_to_none=False)
    (weight * (rank + 1)).sum().backward()
    place = weight.grad.data_ptr()
    optimizer.step()
    assert weight.grad.tolist() == [3, 3, 3] and weight.grad.data_ptr() == place
""")


def test_state_and_batch_norm(torch_ranks):
    torch_ranks.check("""
from gpu_tensors import gpu_module
model = gpu_module(torch.nn.Linear(3, 2))
adam = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1))
if rank == 0:
    model(torch.ones(1, 3)).sum().backward()
    adam.step()
hvd.broadcast_optimizer_state(adam, 0)
assert adam.param_groups[0]["lr"] == 0.1
averages = [state["exp_avg"] for state in adam.state.values()]
assert len(averages) == 2 and all(isinstance(each, GpuTensor) for each in averages)
values = [each.tolist() for each in averages]
assert hvd.allgather_object(values) == [values] * size

batch = torch.randn(4, 3)
norm, plain = gpu_module(hvd.SyncBatchNorm(3)), torch.nn.BatchNorm1d(3)
x = gpu_tensor(torch.randn(4, 3) + rank).requires_grad_()
whole = hvd.allgather(x.detach())
y = norm(x)
assert torch.allclose(torch.Tensor(y.detach()), plain(torch.Tensor(whole))[4 * rank: 4 * rank + 4],
                      atol=1e-5)
y.square().sum().backward()
assert x.grad is not None and norm.weight.grad is not None
""")


def test_errors_say_what_to_do(torch_ranks):
    torch_ranks.check("""
x = gpu_tensor(torch.ones(2))
with pytest.raises(hvd.UnsupportedError, match="a tensor lies on CUDA device.*HVD_GPU_OPERATIONS"):
    hvd.allreduce(x)
from gpu_tensors import gpu_module
model = gpu_module(torch.nn.Linear(2, 2))
with pytest.raises(hvd.UnsupportedError, match="HVD_GPU_OPERATIONS"):
    hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1))
with pytest.raises(hvd.UnsupportedError, match="on the meta device"):
    hvd.allreduce(torch.ones(2, device="meta"))
""", operations="none")


def test_one_rank_alone_needs_no_collectives_of_gpus(torch_ranks):
    torch_ranks.check("""
from gpu_tensors import gpu_module
model = gpu_module(torch.nn.Linear(2, 2))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1))
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
""", np=1, operations="none")


def test_the_backend_of_torch_distributed(torch_ranks):
    torch_ranks.check("""
import torch.distributed as dist
dist.init_process_group("horovod_cpp", init_method="hvd://")
x = gpu_tensor(torch.full((3,), rank + 1.0))
dist.all_reduce(x)
assert x.tolist() == [3, 3, 3] and isinstance(x, GpuTensor)
work = dist.all_reduce(x, async_op=True)
work.wait()
assert x.tolist() == [6, 6, 6]
parts = [gpu_tensor(torch.zeros(2)) for _ in range(size)]
dist.all_gather(parts, gpu_tensor(torch.full((2,), float(rank))))
assert [part.tolist() for part in parts] == [[0, 0], [1, 1]]
dist.broadcast(x, 1)
mine = gpu_tensor(torch.zeros(1))
dist.reduce_scatter(mine, [gpu_tensor(torch.ones(1)), gpu_tensor(torch.ones(1) * 2)])
assert mine.tolist() == [2 * (rank + 1)]
dist.destroy_process_group()
""")
