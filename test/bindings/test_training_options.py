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
