"""An option of a wrong type is named in one line, with what it takes and what was given."""

import re

import numpy as np
import pytest

import horovod_cpp as hvd


@pytest.fixture(autouse=True)
def world():
    hvd.init()
    yield
    hvd.shutdown()


def optimizer(**options):
    layer = hvd.nn.Linear(2, 1)
    return hvd.DistributedOptimizer(hvd.optim.SGD(layer.parameters(), lr=0.1), **options)


def data_parallel(**options):
    return hvd.DistributedDataParallel(hvd.nn.Linear(2, 1), **options)


def norm(**options):
    return hvd.SyncBatchNorm(**{"num_features": 2, **options})


def sampler(**options):
    return hvd.data.DistributedSampler(8, **{"num_replicas": 2, "rank": 0, **options})


IS_BOOL = "must be True or False"
PROCESS_SET = "must be a ProcessSet, which add_process_set() makes of ranks"


@pytest.mark.parametrize("call, option, value, words", [
    (optimizer, "op", 1.0, "must be a ReduceOp or its name, got 1.0 (float)"),
    (optimizer, "op", None, "must be a ReduceOp or its name, got None (NoneType)"),
    (optimizer, "groups", True,
     "must be a number of groups, lists of parameters or None, got True (bool)"),
    (optimizer, "groups", 1.5, "must be a number of groups, lists of parameters or None, got 1.5"),
    (optimizer, "groups", [[3]], "must be a number of groups, lists of parameters or None, got"),
    (optimizer, "compression", 3, "must be one of hvd.Compression, its name, or have compress()"),
    (optimizer, "backward_passes_per_step", "2", "must be an int, got '2' (str)"),
    (optimizer, "backward_passes_per_step", True, "must be an int, got True (bool)"),
    (optimizer, "gradient_predivide_factor", "2", "must be a number, got '2' (str)"),
    (optimizer, "clip_grad_norm", "2", "must be a number or None, got '2' (str)"),
    (optimizer, "clip_when", 3, "must be a str, got 3 (int)"),
    (optimizer, "average_aggregated_gradients", "yes", f"{IS_BOOL}, got 'yes' (str)"),
    (optimizer, "gradient_as_bucket_view", "yes", f"{IS_BOOL}, got 'yes' (str)"),
    (optimizer, "overlap_step", "yes", f"{IS_BOOL}, got 'yes' (str)"),
    (optimizer, "sparse_as_dense", None, f"{IS_BOOL}, got None (NoneType)"),
    (optimizer, "process_set", 3, f"{PROCESS_SET}, got 3 (int)"),
    (data_parallel, "broadcast_buffers", "yes", f"{IS_BOOL}, got 'yes' (str)"),
    (data_parallel, "bucket_cap_mb", "25", "must be a number, got '25' (str)"),
    (data_parallel, "process_set", [0], f"{PROCESS_SET}, got [0] (list)"),
    (norm, "num_features", 2.5, "must be an int, got 2.5 (float)"),
    (norm, "eps", "small", "must be a number, got 'small' (str)"),
    (norm, "momentum", "small", "must be a number or None, got 'small' (str)"),
    (norm, "affine", "yes", f"{IS_BOOL}, got 'yes' (str)"),
    (norm, "process_set", None, f"{PROCESS_SET}, got None (NoneType)"),
    (sampler, "num_replicas", True, "must be an int or None, got True (bool)"),
    (sampler, "num_replicas", 2.0, "must be an int or None, got 2.0 (float)"),
    (sampler, "rank", "0", "must be an int or None, got '0' (str)"),
    (sampler, "seed", -1, "must be an int of at least 0, got -1 (int)"),
    (sampler, "uneven", 3, "must be a str, got 3 (int)"),
])
def test_an_option_of_a_wrong_type(call, option, value, words):
    with pytest.raises(TypeError, match=f"^{option} {re.escape(words)}[^\n]*$"):
        call(**{option: value})


def test_arguments_that_are_wrapped():
    layer = hvd.nn.Linear(2, 1)
    for call, words in (
            (lambda: hvd.DistributedOptimizer(layer), "optimizer must be an Optimizer, got "),
            (lambda: hvd.DistributedOptimizer(None), "optimizer must be an Optimizer, got None"),
            (lambda: hvd.DistributedDataParallel(3), "module must be a Module, got 3 (int)"),
            (lambda: hvd.DataParallel(None, 2), "module must be a Module, got None (NoneType)"),
            (lambda: hvd.DataParallel(layer, "2"), "replicas must be an int, got '2' (str)"),
            (lambda: hvd.SyncBatchNorm.convert_sync_batchnorm(3), "module must be a Module, got 3"),
            (lambda: optimizer().set_backward_passes_per_step("2"), "passes must be an int, got '2'")):
        with pytest.raises(TypeError, match=f"^{re.escape(words)}[^\n]*$"):
            call()


def test_a_process_set_or_an_op_of_a_collective():
    x = np.ones(2, np.float32)
    for call in (hvd.allreduce, hvd.allgather, hvd.reducescatter, hvd.alltoall, hvd.allreduce_async,
                 hvd.allreduce_):
        with pytest.raises(TypeError, match="^process_set must be a ProcessSet, [^\n]*, got 3 "):
            call(x, name="x", process_set=3)
    with pytest.raises(TypeError, match="^process_set must be a ProcessSet, [^\n]*, got 3 "):
        hvd.barrier(process_set=3)
    with pytest.raises(TypeError, match="^op must be a ReduceOp or its name, got 1.0 "):
        hvd.allreduce(x, 1.0, name="x")


def test_numbers_of_numpy_are_numbers():
    for number in (np.int64(1), np.int32(1), np.uint8(1)):
        optimizer(groups=number, backward_passes_per_step=number)
        sampler(num_replicas=number)
        norm(num_features=number)
    optimizer(clip_grad_norm=np.float32(0.5), overlap_step=np.bool_(False))
    assert optimizer(backward_passes_per_step=2).backward_passes_per_step == 2


def test_gradients_are_clipped_before_or_after():
    with pytest.raises(hvd.InvalidArgumentError, match="clip_when"):
        optimizer(clip_grad_norm=1.0, clip_when="never")


def test_named_parameters_that_name_nothing():
    for nothing in ([], {}, iter(())):
        with pytest.raises(hvd.InvalidArgumentError, match="named_parameters is empty; pass "):
            optimizer(named_parameters=nothing)


@pytest.mark.parametrize("options, words", [
    ({"num_replicas": 0}, "num_replicas is 0; it must be at least 1"),
    ({"num_replicas": -2}, "num_replicas is -2; it must be at least 1"),
    ({"rank": -1}, "rank is -1; with num_replicas 2 it must be from 0 to 1"),
    ({"rank": 2}, "rank is 2; with num_replicas 2 it must be from 0 to 1"),
])
def test_a_sampler_of_no_such_share(options, words):
    with pytest.raises(hvd.InvalidArgumentError, match=f"^DistributedSampler: {words}$"):
        sampler(**options)
