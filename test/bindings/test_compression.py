"""Compression of gradients: what travels, and what training makes of it."""

import re

import pytest


@pytest.fixture(scope="module")
def accuracy(tmp_path_factory, ranks_in, examples):
    """Mean test accuracy of three seeds on two ranks, by compression."""
    known = {}

    def run(compression):
        if compression not in known:
            # The example begins and ends its world, three times.
            ranks = ranks_in(tmp_path_factory.mktemp(compression), prologue="")
            output = ranks.check(f"""
import runpy
import sys
sys.path.insert(0, "{examples}")
for seed in "123":
    sys.argv = ["train_digits.py", "--epochs", "12", "--seed", seed, "--compression", "{compression}",
                "--checkpoint", ""]
    runpy.run_path("{examples / 'train_digits.py'}", run_name="__main__")
""")
            found = re.findall(r"^\[0\] test accuracy ([0-9.]+)", output, re.MULTILINE)
            assert len(found) == 3, output
            known[compression] = sum(map(float, found)) / 3
        return known[compression]

    return run


@pytest.mark.full
@pytest.mark.parametrize("compression", ["int8", "bf16", "powersgd"])
def test_training_reaches_the_accuracy_of_uncompressed_gradients(accuracy, compression):
    assert accuracy(compression) >= accuracy("none") - 0.01


@pytest.mark.parametrize("compression, factor", [
    ("fp16", 1.99), ("bf16", 1.99), ("int8", 3.8), ("powersgd(2)", 4)])
def test_metrics_show_fewer_bytes_in_packed_batches(ranks, compression, factor):
    """What the ranks of an optimizer compare is packed too."""
    ranks.check(f"""
def packed_bytes(compression):
    weight = hvd.zeros((256, 512)).requires_grad_()
    optimizer = hvd.DistributedOptimizer(hvd.optim.SGD([weight], lr=0.1), [("weight", weight)],
                                         compression=compression, gradient_as_bucket_view=False)
    before = hvd.metrics()["packed_bytes"]
    for step in range(4):
        optimizer.zero_grad()
        hvd.mean(weight * hvd.tensor(np.random.default_rng(rank + step).normal(size=(256, 512)).astype("f4"))).backward()
        optimizer.step()
    return hvd.metrics()["packed_bytes"] - before

plain = packed_bytes(hvd.Compression.none)
assert plain >= 4 * 256 * 512 * 4
ratio = plain / packed_bytes(hvd.Compression.{compression})
assert ratio >= {factor}, ratio
""")


def test_compressions_and_reductions_go_by_their_names_too(ranks):
    ranks.check("""
x = np.arange(8, dtype=np.float32) + 0.125 * rank
for name in ("none", "fp16", "bf16", "int8"):
    by_name = hvd.allreduce(x, "sum", compression=name)
    assert (by_name == hvd.allreduce(x, hvd.Sum, compression=getattr(hvd.Compression, name))).all()
    assert name == "none" or hvd.grouped_allreduce([x], op="Average", compression=name)[0].shape == (8,)
layer = hvd.nn.Linear(2, 2)
optimizer = hvd.DistributedOptimizer(hvd.optim.SGD(layer.parameters(), lr=0.1), op="SUM", compression="powersgd")
layer(hvd.ones([1, 2])).sum().backward()
optimizer.step()
hvd.average_gradients(layer, op="average", compression="FP16")
assert hvd.reducescatter(x, op="max").shape == (4,) and hvd.reduce(x, 0, op="min") is not None or rank
for call, words in ((lambda: hvd.allreduce(x, "summ"), ["op='summ' is not a reduction", "did you mean sum?"]),
                    (lambda: hvd.allreduce(x, "zzz"), ["'zzz'", "average, sum, adasum, min, max"]),
                    (lambda: hvd.allreduce(x, compression="fp17"), ["'fp17' is not a compression",
                                                                   "did you mean fp16?"])):
    try:
        call()
    except hvd.InvalidArgumentError as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(words)
try:
    hvd.reducescatter(x, hvd.Adasum)
except NotImplementedError as error:
    assert isinstance(error, hvd.UnsupportedError) and "only an allreduce takes Adasum" in str(error)
else:
    raise AssertionError("it was reduced")
""")


def test_lossy_formats_are_close_and_equal_on_all_ranks(ranks):
    ranks.check("""
x = np.random.default_rng(rank).normal(size=10000).astype(np.float32)
exact = hvd.allreduce(x)
for compression, bound in [(hvd.Compression.fp16, 2e-3), (hvd.Compression.bf16, 2e-2),
                           (hvd.Compression.int8, 6e-2)]:
    got = hvd.allreduce(x, compression=compression)
    assert 0 < np.abs(got - exact).max() < bound, (compression, np.abs(got - exact).max())
    assert hvd.allgather_object(got.tobytes()) == [got.tobytes()] * size
integers = np.arange(5) + rank
assert hvd.allreduce(integers, hvd.Sum, compression=hvd.Compression.int8).tolist() == [1, 3, 5, 7, 9]
""")


def test_a_compressor_of_ones_own_runs_on_the_thread_that_submits_or_waits(ranks):
    ranks.check("""
import threading
seen = []

class Sparse:
    '''Sends only the first half.'''
    def compress(self, tensor):
        seen.append(threading.current_thread())
        array = tensor.numpy()
        return array[: len(array) // 2].copy(), len(array)

    def decompress(self, half, length):
        seen.append(threading.current_thread())
        out = np.zeros(length, np.float32)
        out[: len(half.numpy())] = half.numpy()
        return out

x = np.arange(8, dtype=np.float32) + rank
assert hvd.allreduce(x, hvd.Sum, compression=Sparse()).tolist() == [1, 3, 5, 7, 0, 0, 0, 0]
assert set(seen) == {threading.main_thread()} and len(seen) == 2

class Broken:
    def compress(self, tensor):
        raise KeyError("planted")
    def decompress(self, tensor, context):
        raise AssertionError

with pytest.raises(KeyError, match="planted"):
    hvd.allreduce(x, compression=Broken())

class PerTensor:
    def for_tensor(self, name, shape, dtype):
        names.append((name, shape, dtype))
        return Sparse() if len(shape) == 1 else None

names = []
weight, bias = hvd.ones((2, 4)).requires_grad_(), hvd.ones((4,)).requires_grad_()
optimizer = hvd.DistributedOptimizer(hvd.optim.SGD([weight, bias], lr=1.0),
                                     [("weight", weight), ("bias", bias)], compression=PerTensor())
hvd.sum(weight * 2.0 + bias).backward()
optimizer.step()
assert weight.tolist() == [[-1.0] * 4] * 2 and bias.tolist() == [-1.0, -1.0, 1.0, 1.0]
assert sorted(names) == [("bias", (4,), "float32"), ("weight", (2, 4), "float32")]
""")


def test_a_compressor_that_fails_late_fails_every_wait_alike(ranks):
    ranks.check("""
class Broken:
    def compress(self, tensor):
        return tensor, None
    def decompress(self, tensor, context):
        raise ValueError("planted")

handle = hvd.allreduce_async(np.ones(2, np.float32), compression=Broken())
for _ in range(2):
    with pytest.raises(ValueError, match="planted"):
        hvd.synchronize(handle)
""", np=1)
