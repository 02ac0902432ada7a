"""PyTorch's own ways to train over many ranks, with backend "horovod_cpp"."""

import pytest
from ranks import Ranks

# What every program starts with. Gloo is what the results are compared with.
PROLOGUE = """
import contextlib
import warnings
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import horovod_cpp.torch as hvd
torch.set_num_threads(1)
dist.init_process_group("horovod_cpp", init_method="hvd://")
gloo = dist.new_group(backend="gloo")
rank, size = dist.get_rank(), dist.get_world_size()

def make_model(seed=0):
    torch.manual_seed(seed + rank)  # DDP begins with rank 0's
    return nn.Sequential(nn.Linear(6, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 30),
                         nn.ReLU(), nn.Linear(30, 4))

def batches(count=8, rows=8):
    random = torch.Generator().manual_seed(100 + rank)
    return [(torch.randn(rows, 6, generator=random), torch.randn(rows, 4, generator=random))
            for _ in range(count)]

def train(model, steps=8, passes=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step, (x, y) in enumerate(batches(steps)):
        late = passes > 1 and step % passes < passes - 1
        with model.no_sync() if late else contextlib.nullcontext():
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
        if not late:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses, [value.detach().clone() for value in model.state_dict().values()]

def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one, two))
"""


@pytest.fixture
def group(tmp_path):
    """Runs a program in a default process group of its ranks."""
    return Ranks(tmp_path, PROLOGUE)


def test_ddp_trains_as_over_gloo_bit_by_bit(group):
    group.check("""
for options in ({}, {"static_graph": True},
                {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.001},
                {"find_unused_parameters": True}, {"broadcast_buffers": False}):
    for passes in (1,) if options.get("static_graph") else (1, 2):
        ours = train(DistributedDataParallel(make_model(), **options), passes=passes)
        theirs = train(DistributedDataParallel(make_model(), process_group=gloo, **options),
                       passes=passes)
        assert ours[0] == theirs[0] and same(ours[1], theirs[1]), (options, passes)
dist.destroy_process_group()
""")


def test_what_belongs_to_ddp_works(group):
    group.check("""
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer

def hooked(hook, process_group):
    model = DistributedDataParallel(make_model(), process_group=process_group)
    model.register_comm_hook(process_group, hook)
    return train(model)

def twice(state, bucket):
    "A hook of one's own, whose future has a callback."
    work = dist.all_reduce(bucket.buffer().div_(size), group=state, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])

for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook, twice):
    ours, theirs = hooked(hook, dist.group.WORLD), hooked(hook, gloo)
    assert same(ours[1], theirs[1]), hook
# Ranks with different numbers of batches.
model = DistributedDataParallel(nn.Linear(6, 4))
with Join([model]):
    for x, y in batches(3 + 2 * rank):
        model(x).sum().backward()
mine = model.module.weight.detach().clone()
dist.broadcast(mine, 0)
assert torch.equal(mine, model.module.weight)
# Parameters that no rank uses, that one rank uses, that stop to need gradients.
class Choosing(nn.Module):
    def __init__(self):
        super().__init__()
        self.always, self.odd, self.never = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x):
        return self.always(x) + (self.odd(x) if rank % 2 else 0)

torch.manual_seed(0)
model = DistributedDataParallel(Choosing(), find_unused_parameters=True)
for x, y in batches(3):
    model(x).sum().backward()
assert model.module.odd.weight.grad is not None and model.module.never.weight.grad is None
# Optimizer state in parts.
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(6, 4))
plain = DistributedDataParallel(nn.Linear(6, 4))
plain.module.load_state_dict(model.module.state_dict())
optimizers = [ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01),
              torch.optim.Adam(plain.parameters(), lr=0.01)]
for x, y in batches(4):
    for each, optimizer in zip((model, plain), optimizers):
        optimizer.zero_grad()
        nn.functional.mse_loss(each(x), y).backward()
        optimizer.step()
assert torch.equal(model.module.weight, plain.module.weight)
optimizers[0].consolidate_state_dict()
# An embedding with sparse gradients.
embedding = DistributedDataParallel(nn.Embedding(10, 3, sparse=True))
embedding(torch.tensor([rank, 5])).sum().backward()
dense = embedding.module.weight.grad.to_dense()
assert dense[5].tolist() == [1.0] * 3 and dense[0].tolist() == [0.5] * 3
# Ours in the same job.
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(plain.module.parameters(), lr=0.1))
plain.module(x).sum().backward()
optimizer.step()
dist.destroy_process_group()
""")


def test_a_distributed_optimizer_around_a_wrapped_model_says_which_one_to_leave_out(group):
    group.check("""
model = DistributedDataParallel(make_model())
sgd = torch.optim.SGD(model.parameters(), lr=0.05)
said = "DistributedOptimizer: the model is wrapped in DistributedDataParallel"
try:
    hvd.DistributedOptimizer(sgd, model.named_parameters())
    raise AssertionError("no error")
except hvd.InvalidArgumentError as error:
    assert str(error).startswith(said) and "plain optimizer" in str(error), error
optimizer = hvd.DistributedOptimizer(sgd)  # without names it shows when gradients were changed
x, y = batches(1)[0]
nn.functional.mse_loss(model(x), y).backward()
try:
    optimizer.step()
    raise AssertionError("no error")
except hvd.InvalidArgumentError as error:
    assert str(error).startswith(said), error
""")
