"""Values that no argument can take, deep inside of what was given: an error that says so, of a type
that tells a mistake from a broken job."""

import os
import subprocess
import sys

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import data, nn, optim


class Numbers:
    """A dataset of 8 rows."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return np.full(2, index, np.float32)


@pytest.mark.parametrize("shape", [(2**64,), (1.5,), ("a",), 2**64, (2, None)])
def test_what_is_no_shape_is_shown(shape):
    with pytest.raises(TypeError, match="expected a shape"):
        hvd.zeros(shape)
    with pytest.raises(TypeError, match="expected a shape"):
        hvd.ones(2).reshape(shape)


def test_an_index_beyond_64_bits_is_out_of_range():
    with pytest.raises(IndexError):
        hvd.ones((2, 3))[2**70]
    with pytest.raises(IndexError):
        hvd.ones((2, 3))[0, -(2**70)]


@pytest.mark.parametrize("given", ["a", 1.5, 2**70])
def test_a_sampler_that_gives_no_indices_is_named_with_what_it_gave(given):
    with pytest.raises(TypeError, match=f"a sampler gives indices.*got {given!r}"):
        list(data.DataLoader(Numbers(), sampler=[given]))


def test_a_batch_sampler_that_gives_no_lists_is_named():
    with pytest.raises(TypeError, match="a batch sampler lists of them; got 0"):
        list(data.DataLoader(Numbers(), batch_sampler=[0, 1]))


def test_what_cannot_be_converted_is_a_type_error():
    sampler = data.SequentialSampler(4)
    with pytest.raises(TypeError, match="'str'"):
        sampler.load_state({"seed": "x", "epoch": 0, "position": 0})
    with pytest.raises(TypeError, match="'int'"):
        sampler.load_state({"seed": -1, "epoch": 0, "position": 0})
    schedule = optim.lr_scheduler.LambdaLR(
        optim.SGD([nn.Parameter(hvd.ones(1))], lr=1.0), lambda epoch: 1.0 if epoch == 0 else "one")
    with pytest.raises(TypeError, match="'str'"):
        schedule.step()
    with pytest.raises(TypeError, match="'tuple'"):
        data.transforms.Resize((3, 3, 3))


def test_memory_that_is_not_there_is_named():
    with pytest.raises(MemoryError, match=r"float32 tensor \[1048576, 2097152\]"):
        hvd.zeros((2**20, 2**21))
    with pytest.raises(MemoryError, match=r"float32 tensor \[1, 1, 268435456, 268435456\]"):
        nn.AdaptiveAvgPool2d(2**28)(hvd.ones((1, 1, 2, 2)))
    for count in (2**45, 2**60):
        with pytest.raises(MemoryError, match=f"no memory for {count} numbers"):
            hvd.randperm(count)


def test_an_array_too_large_to_be_made_dense_is_a_memory_error():
    hvd.init()
    try:
        with pytest.raises(MemoryError):
            hvd.allreduce(np.broadcast_to(np.float32(1), (2**41,)), name="huge")
    finally:
        hvd.shutdown()


def test_a_hook_that_returns_something_is_told_that_nobody_reads_it():
    leaf = hvd.tensor(np.ones(3, np.float32), requires_grad=True)
    remove = leaf.register_hook(lambda leaf: leaf * 2)
    with pytest.raises(TypeError, match="register_hook: .* returns None, not"):
        (leaf * 2).sum().backward()
    remove()
    seen = []
    leaf.register_hook(seen.append)
    (leaf * 2).sum().backward()
    assert len(seen) == 1


def test_a_forked_child_ends_without_a_word():
    program = """
import os, sys
import horovod_cpp as hvd
hvd.init()
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         timeout=60, check=True)
    assert run.stderr == ""


@pytest.mark.parametrize("environment", [
    {"HOROVOD_RANK": "0"}, {"HOROVOD_SIZE": "2"}, {"HVD_RENDEZVOUS": "file:///tmp/nobody"},
    {"RANK": "1", "WORLD_SIZE": "1"}])
def test_half_a_place_is_no_job_of_one_rank(environment):
    run = subprocess.run([sys.executable, "-c", "import horovod_cpp as hvd; hvd.init()"],
                         capture_output=True, text=True, timeout=60, check=False,
                         env={**os.environ, **environment})
    assert run.returncode == 1
    assert next(iter(environment)) in run.stderr or "started this process" in run.stderr


def test_a_temporary_folder_that_is_none_does_not_matter(tmp_path):
    subprocess.run([sys.executable, "-c", "import horovod_cpp as hvd; hvd.init()"], timeout=60,
                   check=True, env={**os.environ, "TMPDIR": str(tmp_path / "none")})
