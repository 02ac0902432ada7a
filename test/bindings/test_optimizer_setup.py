"""What the ranks of an optimizer compare before they reduce."""


def test_different_passes_are_an_error_on_every_rank(ranks):
    ranks.check("""
layer = hvd.nn.Linear(2, 1)
hvd.broadcast_parameters(layer.state_dict())
optimizer = hvd.DistributedOptimizer(hvd.optim.SGD(layer.parameters(), lr=0.1), layer.named_parameters())
with pytest.raises(hvd.MismatchError, match=f"differ in backward_passes_per_step; rank {rank} has {rank + 2}"):
    optimizer.set_backward_passes_per_step(rank + 2)
assert optimizer.backward_passes_per_step == 1
optimizer.set_backward_passes_per_step(2)
for _ in range(2):
    layer(hvd.ones([1, 2]) * (rank + 1.0)).sum().backward()
optimizer.synchronize()
assert layer.weight.grad.tolist() == [[3.0, 3.0]]
""")


def test_a_forgotten_broadcast_is_one_warning_at_the_line_of_the_step(ranks):
    ranks.check("""
import warnings
layer = hvd.nn.Linear(2, 1)
with hvd.no_grad():
    layer.weight.fill_(0.0)
    layer.bias.fill_(float(rank))
optimizer = hvd.DistributedOptimizer(hvd.optim.SGD(layer.parameters(), lr=0.1), layer.named_parameters())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        optimizer.zero_grad()
        layer(hvd.ones([1, 2])).sum().backward()
        optimizer.step()
texts = [str(each.message) for each in caught]
if rank == 0:
    assert len(texts) == 1 and "parameters differ between rank 0 and rank 1 at the first step: 'bias'" in texts[0], texts
    assert "broadcast_parameters(model.state_dict(), root_rank=0)" in texts[0] and caught[0].filename.endswith("program.py")
else:
    assert not texts, texts
""")
