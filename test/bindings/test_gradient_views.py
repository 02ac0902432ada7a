"""Gradients in memory that the ranks share, and updates as they are reduced, from Python."""

import os

import pytest

# Trains a small network on the digits and returns the bytes of its parameters.
TRAIN = """
from horovod_cpp import nn

def train(digits, make=hvd.optim.SGD, steps=30, **options):
    hvd.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(8 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = hvd.DistributedOptimizer(make(model.parameters(), lr=0.01),
                                         model.named_parameters(), **options)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    sampler = hvd.data.DistributedSampler(len(digits), size, rank, seed=1)
    loader = hvd.data.DataLoader(digits, 32, sampler=sampler, drop_last=True)
    done = 0
    while done < steps:
        for images, labels in loader:
            optimizer.zero_grad()
            hvd.cross_entropy(model(images), labels).backward()
            optimizer.step()
            done += 1
            if done == steps:
                break
    return b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())
"""


@pytest.mark.parametrize("launcher", ["mpirun", "hvdrun"])
def test_training_the_digits_gives_the_same_bits_in_the_arena_and_packed(ranks, launcher):
    source = f"digits = hvd.data.MNIST({os.environ['HVD_DIGITS']!r}, train=False)\n"
    ranks.check(TRAIN + source + """
for make in (hvd.optim.SGD, hvd.optim.Adam):
    packed = train(digits, make, gradient_as_bucket_view=False)
    assert train(digits, make) == packed
    assert train(digits, make, overlap_step=True) == packed
    assert train(digits, make, gradient_as_bucket_view=False, overlap_step=True) == packed
assert len(set(hvd.allgather_object(packed))) == 1
""", launcher=launcher)


def test_a_numpy_view_of_a_gradient_stays_valid(ranks):
    ranks.check("""
weight = hvd.zeros((1000,)).requires_grad_()
optimizer = hvd.DistributedOptimizer(hvd.optim.SGD([weight], lr=1.0), [("w", weight)])

def step(value):
    optimizer.zero_grad(set_to_none=False)
    hvd.sum(weight * hvd.full((1000,), float(value + rank))).backward()
    optimizer.step()

for _ in range(2):
    step(1)
view = weight.grad.numpy()
place = view.ctypes.data
for value in (2, 5):
    step(value)
    assert (view == value + 0.5).all() and weight.grad.numpy().ctypes.data == place
optimizer.zero_grad(set_to_none=False)
assert (view == 0).all() and weight.grad.numpy().ctypes.data == place
del optimizer, weight
view[:] = 3
hvd.shutdown()
assert (view == 3).all()
""")


def test_overlap_step_excludes_clipping(ranks):
    ranks.check("""
weight = hvd.zeros((2,)).requires_grad_()
with pytest.raises(hvd.InvalidArgumentError, match="clip_grad_norm"):
    hvd.DistributedOptimizer(hvd.optim.SGD([weight], lr=1.0), [("w", weight)],
                             overlap_step=True, clip_grad_norm=1.0)
""")
