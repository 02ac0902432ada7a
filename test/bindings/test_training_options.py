"""Options of DistributedOptimizer, and rank 0's own work."""

from order import ORDER

PROLOGUE = """
def make(**options):
    weight = hvd.zeros((2,)).requires_grad_()
    optimizer = hvd.DistributedOptimizer(hvd.optim.SGD([weight], lr=1.0), [("w", weight)], **options)
    return weight, optimizer

def backward(weight, value):
    hvd.sum(weight * hvd.full((2,), float(value))).backward()
"""


def test_accumulation_no_sync_and_partial_windows(ranks):
    ranks.check(PROLOGUE + """
weight, optimizer = make()
with optimizer.no_sync():
    backward(weight, 1 + rank)
    backward(weight, 1 + rank)
backward(weight, rank)                  # (2 + 2 * rank + rank) averaged over ranks: 3.5
optimizer.step()
assert weight.tolist() == [-3.5, -3.5]

weight, optimizer = make(backward_passes_per_step=4, average_aggregated_gradients=True)
for _ in range(3):
    backward(weight, 2 + rank)
optimizer.step()                        # three passes, divided by three
assert weight.tolist() == [-2.5, -2.5]
optimizer.set_backward_passes_per_step(1)
assert optimizer.backward_passes_per_step == 1
with pytest.raises(hvd.InvalidArgumentError):
    make(backward_passes_per_step=0)
""")


def test_clipping_by_option_and_by_hand(ranks):
    ranks.check(PROLOGUE + """
weight, optimizer = make(clip_grad_norm=1.0)
backward(weight, 3.0)
optimizer.step()
assert np.allclose(weight.numpy(), -np.sqrt(0.5))
weight, optimizer = make(clip_grad_norm=1.0, clip_when="before")
backward(weight, 3.0 if rank else 0.0)
optimizer.step()
assert np.allclose(weight.numpy(), -np.sqrt(0.5) / 2)
weight, optimizer = make()
backward(weight, 4.0)
optimizer.synchronize()
optimizer.synchronize()                 # idempotent
assert weight.grad.tolist() == [4.0, 4.0]
weight.grad.mul_(0.25)
with optimizer.skip_synchronize():
    optimizer.step()
assert weight.tolist() == [-1.0, -1.0]
with pytest.raises(hvd.InvalidArgumentError, match="clip_when"):
    make(clip_grad_norm=1.0, clip_when="never")
""")


def test_process_sets_groups_predivision_and_adasum(ranks):
    ranks.check(PROLOGUE + """
pair = hvd.add_process_set([0, 1])
weight, optimizer = make(process_set=pair)
backward(weight, rank)
optimizer.step()
assert weight.tolist() == ([-0.5, -0.5] if rank < 2 else [-2.0, -2.0])
hvd.broadcast_parameters([("w", weight)], 2)
assert weight.tolist() == [-2.0, -2.0]
weight, optimizer = make(gradient_predivide_factor=2.0, groups=1)
backward(weight, 3 * rank)
optimizer.step()
assert weight.tolist() == [-3.0, -3.0]
weight, optimizer = make(op=hvd.Adasum)
backward(weight, 2.0)
optimizer.step()
assert np.allclose(weight.numpy(), -2.0)   # equal changes: one of them
""", np=3)


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


def test_step_without_synchronize_refuses_what_is_on_this_rank_alone(ranks):
    ranks.check(PROLOGUE + """
weight, optimizer = make()
with optimizer.no_sync():
    backward(weight, rank)
with optimizer.skip_synchronize():
    with pytest.raises(hvd.InvalidArgumentError, match="added to the gradient of 'w' is not reduced"):
        optimizer.step()
optimizer.step()
assert weight.tolist() == [-0.5, -0.5]
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
    ranks.check(PROLOGUE + """
weight, optimizer = make(op=hvd.Adasum if rank else hvd.Average)
backward(weight, 1)
with pytest.raises(hvd.MismatchError, match="the ranks differ in op; rank"):
    optimizer.step()
""")
