"""What DistributedOptimizer refuses and warns about, and rank 0's own work."""

from order import ORDER


def test_rank_0_works_alone_and_the_others_learn_of_its_failure(ranks):
    ranks.check(ORDER + """
texts = []
if rank == 1:
    pathlib.Path("comes").touch()
with hvd.rank_zero_section(timeout=60) as mine:
    assert mine == (rank == 0)
    if mine:
        wait_for("comes")
        hvd.on_stall(texts.append)
        time.sleep(2.5)                 # longer than the warning: nobody is blamed
        hvd.on_stall(None)
assert texts == []
try:
    with hvd.rank_zero_section() as mine:
        if mine:
            raise ValueError("disk full")
except ValueError:
    assert rank == 0
except hvd.AbortedError as error:
    assert rank != 0 and "disk full" in str(error), error
assert hvd.allreduce(np.ones(1), hvd.Sum, name="after")[0] == size
""", environment={"HOROVOD_STALL_CHECK_TIME_SECONDS": "1"})


def test_gradients_in_flight_cannot_be_touched(ranks):
    ranks.check("""
model = hvd.nn.Sequential(hvd.nn.Embedding(4, 2, sparse=True), hvd.nn.Linear(2, 1, bias=False))
inner = hvd.optim.SGD(model.parameters(), lr=1.0)
optimizer = hvd.DistributedOptimizer(inner, model.named_parameters())
with pytest.raises(hvd.InvalidArgumentError, match="wrapped already"):
    hvd.DistributedOptimizer(optimizer)
table, weight = model.parameters()

def replace(parameter):
    parameter.grad = hvd.zeros(parameter.shape)

for step in range(3):
    model(hvd.tensor([rank])).sum().backward()
    for touch in (lambda: hvd.optim.clip_grad_norm_(model.parameters(), 1.0), model.zero_grad,
                  lambda: model.zero_grad(set_to_none=False), inner.step, inner.zero_grad,
                  lambda: hvd.row_gradient(table), lambda: replace(table), lambda: table.grad,
                  lambda: replace(weight), lambda: weight.grad, model.double):
        with pytest.raises(hvd.InvalidArgumentError, match="gradient of '[01].weight' is being reduced"):
            touch()
    with pytest.raises(hvd.InvalidArgumentError, match="its no_sync"):
        optimizer.zero_grad()
    optimizer.synchronize()
    assert hvd.optim.clip_grad_norm_(model.parameters(), 1.0) > 0
    optimizer.step()
    optimizer.zero_grad()
""")


def test_a_module_that_is_converted_after_wrapping_is_an_error(ranks):
    ranks.check("""
layer = hvd.nn.Linear(1, 1)
optimizer = hvd.DistributedOptimizer(hvd.optim.SGD(layer.parameters(), lr=1.0), layer.named_parameters())
layer.double()
with pytest.raises(hvd.InvalidArgumentError,
                   match="'(weight|bias)' is float64, and was float32 when it was wrapped"):
    layer(hvd.ones((1, 1), dtype="float64")).sum().backward()
    optimizer.step()
""")


def test_adasum_on_one_rank_alone_is_an_error_on_all(ranks):
    ranks.check("""
layer = hvd.nn.Linear(2, 1)
optimizer = hvd.DistributedOptimizer(hvd.optim.SGD(layer.parameters(), lr=1.0),
                                     op=hvd.Adasum if rank else hvd.Average)
layer(hvd.ones([1, 2])).sum().backward()
with pytest.raises(hvd.MismatchError, match="the ranks differ in op; rank"):
    optimizer.step()
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
