"""Tensors' devices where there is no GPU: what can be asked, and the errors that say why not."""

import numpy as np
import pytest

import horovod_cpp as hvd


def test_tensors_say_where_they_are():
    x = hvd.zeros(2, device="cpu")
    assert x.device == "cpu" and x.is_cuda is False and x.cpu() is x
    assert x.to(device="cpu:0").is_same(x) and hvd.ones(2).to(x).device == "cpu"
    assert hvd.tensor([1, 2], device="cpu").tolist() == [1, 2]
    assert hvd.full((2,), 1, device=None).device == "cpu"


@pytest.mark.parametrize("make", [
    lambda: hvd.ones(2).cuda(), lambda: hvd.ones(2).cuda(0), lambda: hvd.ones(2).cuda("cuda:0"),
    lambda: hvd.ones(2).to("cuda:0"), lambda: hvd.ones(2).to("cuda"),
    lambda: hvd.ones(2).to("float64", device="cuda:0"), lambda: hvd.zeros(2, device="cuda:0"),
    lambda: hvd.empty((2, 3), device="cuda"), lambda: hvd.full((2,), 1, device="cuda:0"),
    lambda: hvd.randn(2, device="cuda"), lambda: hvd.tensor([1.0], device="cuda:0"),
    lambda: hvd.arange(3, device="cuda"), lambda: hvd.arange(0, 3, 0.5, device="cuda"),
    lambda: hvd.linspace(0, 1, 3, device="cuda"), lambda: hvd.eye(2, device="cuda"),
    lambda: hvd.randint(0, 2, (3,), device="cuda"), lambda: hvd.randperm(3, device="cuda"),
    lambda: hvd.bernoulli((3,), 0.5, device="cuda")])
def test_a_device_that_is_not_there_says_why(make):
    with pytest.raises(hvd.UnsupportedError, match="'cuda:0' cannot be used: .*(libhvd_nccl|CUDA)"):
        make()


@pytest.mark.parametrize("name", ["cuda:x", "cuda:", "cuda:-1", "cpu:3", "gpu", ""])
def test_names_of_no_device_are_refused(name):
    with pytest.raises(hvd.InvalidArgumentError, match="device"):
        hvd.zeros(2, device=name)


def test_a_device_and_a_dtype_are_told_apart():
    x = hvd.ones(2)
    for call in (lambda: x.to("gpu"), lambda: x.to(dtype="gpu"), lambda: hvd.nn.Linear(1, 1).to("gpu")):
        with pytest.raises(hvd.InvalidArgumentError, match="dtype 'gpu'.*float32.*devices are \"cpu\", \"cuda\""):
            call()
    with pytest.raises(hvd.InvalidArgumentError, match="'gpu'.*\"cuda:1\""):
        hvd.arange(3, device="gpu")
    assert x.to("float64").to("cpu").dtype == x.to("cpu", np.float64).dtype == "float64"
    with pytest.raises(TypeError, match="two devices"):
        x.to("cpu", device="cpu")
    with pytest.raises(hvd.InvalidArgumentError, match="not a CUDA device"):
        x.cuda("cpu")
