"""What Horovod's users write around the optimizer: scaled losses, clipping, half types, compiled
modules."""

import pytest
import torch
from ranks import SIZES

MODEL = """
def make_model(dtype=torch.float64):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)).to(dtype)

random = torch.Generator().manual_seed(7)
whole = [(torch.randn(8, 6, generator=random, dtype=torch.float64), torch.randint(0, 3, (8,), generator=random))
         for step in range(20)]
mine = [(x.chunk(size)[rank], y.chunk(size)[rank]) for x, y in whole]
loss_of = torch.nn.functional.cross_entropy

def make_optimizer(model, distributed, lr=0.5):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    return hvd.DistributedOptimizer(optimizer, model.named_parameters()) if distributed else optimizer

def equal(model, other, tolerance=1e-9):
    assert same_everywhere(*model.parameters())
    assert all(torch.allclose(a, b, atol=tolerance, rtol=0)
               for a, b in zip(model.parameters(), other.parameters()))
"""

SCALER = MODEL + """
def make_scaler():
    if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=5)
    return torch.cuda.amp.GradScaler(enabled=False)  # PyTorch 1.13 has none for the CPU: a scale of 1
"""


def test_the_norm_of_the_gradients_is_logged_after_synchronize(ranks):
    ranks.check(MODEL + """
def norm_of(model):
    return torch.stack([p.grad.norm() for p in model.parameters()]).norm()

alone, model = make_model(), make_model()
plain, optimizer = make_optimizer(alone, False), make_optimizer(model, True)
for (x, y), (own_x, own_y) in zip(whole, mine):
    plain.zero_grad()
    loss_of(alone(x), y).backward()
    plain.step()
    optimizer.zero_grad()
    loss_of(model(own_x), own_y).backward()
    optimizer.synchronize()  # the recipe of docs/from-horovod.md
    norm = norm_of(model)
    optimizer.step()
    assert torch.allclose(norm, norm_of(alone), rtol=1e-9), (norm, norm_of(alone))
    assert same_everywhere(norm)
equal(model, alone)
""")


def test_a_model_in_distributed_data_parallel_is_refused_before_it_trains(tmp_path, world):
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(
        str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        model = DistributedDataParallel(torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(ValueError, match="^DistributedOptimizer: the model is wrapped in Distrib"
                           "utedDataParallel.*; take the plain optimizer, or a model without"):
            world.DistributedOptimizer(optimizer, model.named_parameters())
        world.DistributedOptimizer(optimizer, model.module.named_parameters())  # trained without it
        inside = torch.nn.Sequential()
        inside.add_module("module", torch.nn.Linear(2, 1))  # a name like DDP's
        world.DistributedOptimizer(torch.optim.SGD(inside.parameters(), lr=0.1),
                                   inside.named_parameters())
    finally:
        torch.distributed.destroy_process_group()


@SIZES
def test_scaled_losses_and_clipping_in_the_usual_order(ranks, np):
    ranks.check(SCALER + """
limit = 0.7

def train(model, batches, distributed):
    optimizer, scaler = make_optimizer(model, distributed), make_scaler()
    norms = []
    for x, y in batches:
        optimizer.zero_grad()
        scaler.scale(loss_of(model(x), y)).backward()
        if not distributed:
            scaler.unscale_(optimizer)
            norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), limit)))
            scaler.step(optimizer)
        else:
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), limit)))
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
        scaler.update()
    return norms

alone, model = make_model(), make_model()
norms = train(alone, whole, False)
assert max(norms) > limit > min(norms)
assert train(model, mine, True) == pytest.approx(norms, abs=1e-9)
equal(model, alone)
""", np=np)


def test_a_loss_that_overflows_on_one_rank_is_skipped_by_all(ranks):
    ranks.check(SCALER + """
model, scaler = make_model(), make_scaler()
optimizer = make_optimizer(model, True)
steps = []
plain, optimizer._hvd_plain_step = optimizer._hvd_plain_step, lambda *given: steps.append(plain(*given))
for number, (x, y) in enumerate(mine[:6]):
    optimizer.zero_grad()
    loss = loss_of(model(x), y)
    if number == 2 and rank == 1 and scaler.is_enabled():
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
    assert same_everywhere(*model.parameters())
assert len(steps) == (5 if scaler.is_enabled() else 6)
assert scaler.get_scale() == (512.0 if scaler.is_enabled() else 1.0)
""")


def test_a_scaler_that_steps_before_gradients_are_reduced_is_refused(ranks):
    ranks.check(SCALER + """
model, scaler = make_model(), make_scaler()
optimizer = make_optimizer(model, True)
for x, y in mine[:2]:
    optimizer.zero_grad()
    scaler.scale(loss_of(model(x), y)).backward()
    with pytest.raises(hvd.InvalidArgumentError, match=r"GradScaler.*call synchronize\\(\\)"):
        scaler.step(optimizer) if scaler.is_enabled() else optimizer._step_supports_amp_scaling
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
assert same_everywhere(*model.parameters())
fused = torch.optim.SGD(model.parameters(), lr=0.1)
fused._step_supports_amp_scaling = True
fused = hvd.DistributedOptimizer(fused, model.named_parameters())
fused.synchronize()
assert fused._step_supports_amp_scaling is True
""")


@SIZES
def test_gradients_of_half_types_beside_others(ranks, np):
    ranks.check("""
class Fill(torch.autograd.Function):
    "A gradient of this value, also where PyTorch cannot compute with the type."
    @staticmethod
    def forward(ctx, parameter, value):
        ctx.like, ctx.value = parameter, value
        return torch.zeros(())
    @staticmethod
    def backward(ctx, gradient):
        return torch.full_like(ctx.like, ctx.value), None

dtypes = [torch.bfloat16, torch.float16, torch.float32, torch.bfloat16, torch.float64, torch.float16]
mean = (size + 1) / 2
for options in ({}, {"groups": 1}, {"gradient_as_bucket_view": False}, {"compression": hvd.Compression.bf16}):
    parameters = [torch.nn.Parameter(torch.zeros(5 + place, dtype=dtype)) for place, dtype in enumerate(dtypes)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.5), **options)
    places = []
    for round in range(3):
        optimizer.zero_grad()
        sum(Fill.apply(parameter, (rank + 1) * 2.0 ** place) for place, parameter in enumerate(parameters)).backward()
        optimizer.synchronize()
        for place, parameter in enumerate(parameters):
            assert parameter.grad.dtype == parameter.dtype
            assert parameter.grad.tolist() == [mean * 2.0 ** place] * (5 + place), (options, parameter.grad)
        places.append([parameter.grad.data_ptr() for parameter in parameters])
    if options in ({}, {"groups": 1}):  # in shared memory from the second step on
        assert places[1] == places[2] and sorted(places[1]) == places[1][::-1]

# 2 ** -13 is lost beside 1 in float16 and bfloat16: ranks' values are added in float32, then rounded once.
for dtype in (torch.float16, torch.bfloat16):
    weight = torch.nn.Parameter(torch.zeros(3, dtype=dtype))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), op=hvd.Sum)
    Fill.apply(weight, 1.0 if rank == 0 else 2.0 ** -13).backward()
    optimizer.synchronize()
    assert weight.grad.dtype == dtype and same_everywhere(weight.grad)
    assert weight.grad.tolist() == torch.full((3,), 1.0 + (size - 1) * 2.0 ** -13).to(dtype).tolist()
""", np=np)


if hasattr(torch, "compile"):

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_compiled_modules_train_as_others_do(ranks, backend):
        ranks.check(MODEL + f"backend = {backend!r}" + """
def train(model, batches, distributed, compiled):
    optimizer = make_optimizer(model, distributed)
    run = torch.compile(model, backend=backend) if compiled else model
    for x, y in batches:
        optimizer.zero_grad()
        loss_of(run(x), y).backward()
        optimizer.step()

alone, model, after = make_model(), make_model(), make_model()
train(alone, whole, False, False)
train(model, mine, True, True)
equal(model, alone)
compiled = torch.compile(after, backend=backend)  # wrapped afterwards, by the names of the compiled one
optimizer = make_optimizer(compiled, True)
hvd.broadcast_parameters(compiled.state_dict(), root_rank=0)
for x, y in mine:
    optimizer.zero_grad()
    loss_of(compiled(x), y).backward()
    optimizer.step()
equal(after, alone)
""", timeout=300)

    def test_compiled_functions_may_call_collectives(ranks):
        ranks.check("""
x = torch.full((2,), rank + 1.0)
total = size * (size + 1) / 2
def compiled(function):
    return torch.compile(function, backend="eager")
for reduced in (lambda x: hvd.allreduce(x, op=hvd.Sum), lambda x: hvd.allreduce_(x, op=hvd.Sum),
                lambda x: hvd.synchronize(hvd.allreduce_async(x, op=hvd.Sum)),
                lambda x: hvd.allgather(x[None]).sum(0), lambda x: hvd.alltoall(x[None].expand(size, 2)).sum(0)):
    assert compiled(lambda x: reduced(x * 2) + 1)(x).tolist() == [2 * total + 1] * 2
weight = torch.ones(2, requires_grad=True)
compiled(lambda x: hvd.allreduce(x * (rank + 1), op=hvd.Sum) * 2)(weight).sum().backward()
assert weight.grad.tolist() == [2.0 * size * (rank + 1)] * 2
model = torch.nn.Sequential(torch.nn.Linear(2, 2), hvd.SyncBatchNorm(2))
assert torch.equal(compiled(model)(x + torch.eye(2)), model(x + torch.eye(2)))
""", timeout=300)
