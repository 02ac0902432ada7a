"""Programs on which data-parallel training is known to hang or to compute something else."""

import pytest
from ranks import SIZES


@SIZES
def test_two_models_train_against_each_other(ranks, np):
    ranks.check("""
def trained(wrap, share):
    torch.manual_seed(1)
    maker, judge = (torch.nn.Linear(n, m).double() for n, m in ((2, 3), (3, 1)))
    make, judging = (wrap(torch.optim.Adam(part.parameters(), lr=0.05), part) for part in (maker, judge))
    random = torch.Generator().manual_seed(5)
    for step in range(5):
        real, noise = (share(torch.randn(8, n, generator=random, dtype=torch.float64)) for n in (3, 2))
        judging.zero_grad()
        (judge(maker(noise).detach()).mean() - judge(real).mean()).backward()
        judging.step()
        make.zero_grad()
        with getattr(judging, "no_sync", torch.enable_grad)():  # its gradients are not wanted
            (-judge(maker(noise)).mean()).backward()
        make.step()
    return list(maker.parameters()) + list(judge.parameters())

alone = trained(lambda optimizer, part: optimizer, lambda x: x)
mine = trained(lambda optimizer, part: hvd.DistributedOptimizer(optimizer, part.named_parameters()),
               lambda x: x.chunk(size)[rank])
assert same_everywhere(*mine)
assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(alone, mine))
""", np=np)


@SIZES
def test_layers_are_used_in_an_order_that_depends_on_the_rank(ranks, np):
    ranks.check("""
layers = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False) for _ in range(size)]).double()
hvd.broadcast_parameters(layers.state_dict(), 0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layers.parameters(), lr=0.125),
                                     layers.named_parameters(), groups=size)
for step in range(4):
    x = torch.full((1, 2), rank + 1.0, dtype=torch.float64)
    for place in range(size):
        x = layers[(place + rank + step) % size](x)
    own = torch.autograd.grad(x.sum(), list(layers.parameters()), retain_graph=True)
    expected = [hvd.allreduce(gradient, name=f"own.{place}") for place, gradient in enumerate(own)]
    optimizer.zero_grad()
    x.sum().backward()
    optimizer.synchronize()
    assert all(torch.allclose(p.grad, e, atol=1e-12) for p, e in zip(layers.parameters(), expected))
    with optimizer.skip_synchronize():
        optimizer.step()
assert same_everywhere(*layers.parameters())
""", np=np)


@pytest.mark.parametrize("passes", [1, 2])
def test_ranks_run_out_of_batches_in_the_middle_of_a_window(ranks, passes):
    ranks.check(f"passes = {passes}" + """
counts = [3, 5, 0][:size]
w = torch.nn.Parameter(torch.zeros(1))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("w", w)],
                                     backward_passes_per_step=passes)
for batch in range(counts[rank]):
    (w * (rank + 1)).sum().backward()
    if (batch + 1) % passes == 0 or batch + 1 == counts[rank]:
        optimizer.step()
        optimizer.zero_grad()
last = hvd.join()
assert last == 1
hvd.broadcast_parameters({"w": w}, root_rank=last)
expected, left = 0.0, list(counts)
while any(left):  # as Horovod's PyTorch interface: a rank that joined counts as zeros
    windows = [min(passes, n) for n in left]
    expected -= sum(n * (r + 1) for r, n in enumerate(windows)) / size
    left = [n - taken for n, taken in zip(left, windows)]
assert w.item() == pytest.approx(expected), (w.item(), expected)
""", np=3)


def test_batch_statistics_go_on_when_a_rank_has_joined(ranks):
    ranks.check("""
sync, alone = hvd.SyncBatchNorm(2), torch.nn.BatchNorm1d(2)
x = torch.tensor([[1.0, 2.0], [3.0, 6.0], [8.0, 1.0]])
together, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
if rank == 0:
    y, z = sync(together), alone(expected)
    assert torch.allclose(y, z, atol=1e-6)
    (y ** 3).sum().backward()
    (z ** 3).sum().backward()
    assert torch.allclose(together.grad, expected.grad, atol=1e-5)
    assert torch.allclose(sync.running_var, alone.running_var)
assert hvd.join() == 0
""")


def test_ranks_join_at_once_again_and_again(ranks):
    ranks.check("""
for round in range(30):
    last = hvd.join()
    assert set(hvd.allgather_object(last)) == {last}
assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size
""", np=4)


def test_an_engine_that_has_nothing_to_do_takes_no_time_from_the_program(ranks):
    ranks.check("""
import time
for round in range(100):
    hvd.allreduce(torch.ones(1000), name="x")
hvd.barrier()
used, begin = time.process_time(), time.monotonic()  # of all threads
time.sleep(3)
used = time.process_time() - used
assert used < 0.01 * (time.monotonic() - begin), used
""")
