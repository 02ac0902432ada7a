"""The distributed API in a world of one rank, and wrong calls that one rank can make."""

import subprocess
import sys

import numpy as np
import pytest

import horovod_cpp as hvd


@pytest.mark.parametrize("call", [hvd.rank, hvd.size, hvd.local_rank, hvd.local_size,
                                  hvd.cross_rank, hvd.cross_size])
def test_topology_before_init_is_an_error_that_names_init(call):
    assert not hvd.is_initialized()
    with pytest.raises(hvd.InvalidArgumentError, match="init"):
        call()


@pytest.mark.parametrize("call", [
    lambda: hvd.allreduce(np.zeros(1)), lambda: hvd.broadcast_object(1),
    lambda: hvd.broadcast_parameters({"w": np.zeros(1)}),
    lambda: hvd.DistributedOptimizer(hvd.optim.SGD(hvd.nn.Linear(1, 1).parameters())),
])
def test_collectives_before_init_are_errors_that_name_init(call):
    with pytest.raises(hvd.InvalidArgumentError, match="init"):
        call()


def test_a_program_without_launcher_is_a_world_of_one(world):
    assert (hvd.rank(), hvd.size()) == (0, 1)
    assert (hvd.local_rank(), hvd.local_size()) == (0, 1)
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)


def test_init_and_shutdown_repeat():
    for _ in range(3):
        hvd.init()
        hvd.init()
        assert hvd.allreduce(np.ones(2)).tolist() == [1.0, 1.0]
        hvd.shutdown()
        hvd.shutdown()
        assert not hvd.is_initialized()


@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (0,)])
@pytest.mark.parametrize("op", list(hvd.ReduceOp))
def test_reducing_over_one_rank_gives_the_input(world, shape, op):
    bitwise = op in (hvd.BitAnd, hvd.BitOr)
    x = np.arange(np.prod(shape), dtype=np.int32 if bitwise else np.float32).reshape(shape)
    result = hvd.allreduce(x, op, name="x")
    np.testing.assert_array_equal(result, x)
    assert not np.shares_memory(result, x)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "float32", "float64"])
def test_results_have_the_inputs_type_and_dtype(world, dtype):
    array = np.ones((2, 2), dtype)
    for call in (hvd.allreduce, hvd.allgather, lambda t: hvd.broadcast(t, 0)):
        assert isinstance(call(array), np.ndarray) and call(array).dtype == dtype
        tensor = call(hvd.tensor(array))
        assert isinstance(tensor, hvd.Tensor) and tensor.dtype == dtype


def test_bfloat16_tensors_are_reduced(world):
    assert hvd.allreduce(hvd.tensor([1.5], dtype="bfloat16")).dtype == "bfloat16"


def test_handles_are_polled_and_synchronized_repeatedly(world):
    handle = hvd.allreduce_async(np.ones(3), hvd.Sum, name="x")
    assert isinstance(handle, hvd.Handle)
    assert hvd.synchronize(handle).tolist() == [1, 1, 1]
    assert hvd.poll(handle)
    assert hvd.synchronize(handle).tolist() == [1, 1, 1]
    with pytest.raises(TypeError):
        hvd.synchronize(3)


@pytest.mark.parametrize("wrong", [3, 1.5, [1.0], "x", None])
def test_other_types_are_type_errors(world, wrong):
    for call in (hvd.allreduce, hvd.allgather, lambda t: hvd.broadcast(t, 0)):
        with pytest.raises(TypeError):
            call(wrong)


def test_wrong_arguments_are_errors(world):
    with pytest.raises(TypeError):
        hvd.allreduce(np.ones(1), op=1.5)
    with pytest.raises(TypeError):
        hvd.allreduce(np.ones(1), name=3)
    with pytest.raises(TypeError, match="<U1|str"):
        hvd.allreduce(np.array(["x"]))
    with pytest.raises(hvd.InvalidArgumentError, match="Min.*complex64"):
        hvd.allreduce(np.ones(1, np.complex64), hvd.Min)
    with pytest.raises(hvd.InvalidArgumentError, match="root"):
        hvd.broadcast(np.ones(1), root_rank=1)
    with pytest.raises(hvd.InvalidArgumentError, match="scalar"):
        hvd.allgather(np.ones(()))


def test_a_model_instead_of_its_parameters_is_named(world):
    layer = hvd.nn.Linear(2, 2)
    for given, name in ((layer, "Linear"), (hvd.nn.Sequential(layer), "Sequential"), (7, "int"),
                        (layer.parameters(), "an item of type .*Tensor")):
        for call in (lambda: hvd.DistributedOptimizer(hvd.optim.SGD(layer.parameters(), lr=0.1), given),
                     lambda: hvd.broadcast_parameters(given)):
            with pytest.raises(TypeError, match=r"such as model.named_parameters\(\) or "
                               rf"model.state_dict\(\), got .*{name}"):
                call()


def test_arrays_of_any_layout_are_read(world):
    base = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(hvd.allreduce(base.T), base.T)
    np.testing.assert_array_equal(hvd.allreduce(base[::-1]), base[::-1])
    frozen = np.ones(2)
    frozen.flags.writeable = False
    assert hvd.allreduce(frozen).tolist() == [1.0, 1.0]
    np.testing.assert_array_equal(hvd.allreduce(hvd.tensor(base).t()).numpy(), base.T)


def test_in_place_calls_return_what_they_were_given_and_need_contiguous_memory(world):
    array, tensor = np.ones(2), hvd.ones((2,))
    assert hvd.allreduce_(array, hvd.Sum) is array
    assert hvd.broadcast_(tensor, 0) is tensor
    assert hvd.synchronize(hvd.allreduce_async_(array)) is array
    with pytest.raises(hvd.InvalidArgumentError, match="contiguous"):
        hvd.allreduce_(np.ones((4, 4)).T[1:3])
    array.flags.writeable = False
    with pytest.raises(hvd.InvalidArgumentError, match="read-only"):
        hvd.allreduce_(array)


def test_the_wrapped_optimizer_steps_like_the_plain_one(world):
    x = hvd.tensor([1.0], requires_grad=True)
    optimizer = hvd.DistributedOptimizer(hvd.optim.SGD([x], lr=0.5), [("x", x)])
    hvd.sum(x).backward()
    optimizer.step()
    assert x.item() == 0.5
    optimizer.param_groups[0]["lr"] = 0.25
    optimizer.step()
    assert x.item() == 0.25
    optimizer.zero_grad()
    assert x.grad is None


def test_wrong_optimizer_arguments_are_errors(world):
    x, y = (hvd.tensor([1.0], requires_grad=True) for _ in range(2))
    sgd = hvd.optim.SGD([x, y])
    with pytest.raises(hvd.InvalidArgumentError, match="named_parameters"):
        hvd.DistributedOptimizer(sgd, [("x", x)])
    with pytest.raises(hvd.InvalidArgumentError, match="'x'"):
        hvd.DistributedOptimizer(sgd, [("x", x), ("x", y)])
    with pytest.raises(TypeError):
        hvd.DistributedOptimizer(sgd, [x, y])
    with pytest.raises(TypeError):
        hvd.DistributedOptimizer("sgd")


def test_objects_travel_to_oneself(world):
    thing = {"a": [1, 2]}
    assert hvd.broadcast_object(thing) is thing


@pytest.mark.parametrize("name, bases", [
    ("InvalidArgumentError", (hvd.Error, ValueError)),
    ("MismatchError", (hvd.Error, RuntimeError)),
    ("HorovodInternalError", (hvd.Error, RuntimeError)),
    ("StalledError", (hvd.HorovodInternalError,)),
    ("PeerLostError", (hvd.HorovodInternalError,)),
    ("AbortedError", (hvd.HorovodInternalError,)),
    ("UnsupportedError", (hvd.Error, NotImplementedError)), ("InternalError", (hvd.Error,)),
    ("RankError", (hvd.Error, RuntimeError)),
])
def test_exception_classes_have_these_bases(name, bases):
    assert getattr(hvd, name).__bases__ == bases


def test_malformed_settings_name_the_variable(monkeypatch):
    program = "import horovod_cpp as hvd; hvd.init()"
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "much")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode != 0
    assert "InvalidArgumentError" in done.stderr and "HOROVOD_FUSION_THRESHOLD" in done.stderr


def test_every_public_name_is_documented():
    undocumented = [name for name in hvd.__all__ if not (getattr(hvd, name).__doc__ or "").strip()]
    assert not undocumented
    for module in (hvd.nn, hvd.nn.functional, hvd.nn.init, hvd.optim, hvd.data, hvd.io):
        for name in module.__all__:
            assert (getattr(module, name).__doc__ or "").strip(), name


def test_what_the_build_can_use_has_horovods_names(world):
    assert world.mpi_built() and not world.mpi_enabled()  # a world of one does without
    assert world.nccl_built() == 0 and not world.cuda_built()
    assert world.gloo_built() and world.gloo_enabled()  # without MPI, which is what Gloo is for
    assert not any([world.ddl_built(), world.ccl_built(), world.rocm_built()])
    with pytest.raises(world.InvalidArgumentError, match="MPI"):
        world.mpi_threads_supported()
    assert world.is_homogeneous()


def test_reductions_have_horovods_numbers(world):
    names = [world.Average, world.Sum, world.Adasum, world.Min, world.Max, world.Product]
    assert [int(op) for op in names] == list(range(6))


def test_wrong_objects_are_type_errors(world):
    for call in (world.poll, world.synchronize, world.add_process_set, world.allreduce):
        with pytest.raises(TypeError):
            call(None)
    with pytest.raises(TypeError, match="3"):
        world.on_stall(3)


def test_numpy_scalars_and_empty_arrays_are_arrays(world):
    assert world.allreduce(np.float32(2.5)) == 2.5
    empty = np.zeros((0, 3), np.float32)
    assert world.allreduce_(empty) is empty


def test_process_sets_compare_and_hash_by_what_they_are(world):
    mine = world.ProcessSet([0])
    known = {mine: "here"}
    assert mine == mine and mine != world.ProcessSet([0]) and known[mine] == "here"
    assert mine != world.global_process_set


def test_programs_with_process_sets_run_on_one_rank_too(world):
    mine = world.ProcessSet([0])
    assert world.add_process_set(mine) is mine and mine.included() and mine.size() == 1
    with pytest.raises(world.InvalidArgumentError, match="registered already"):
        world.add_process_set(mine)
    with pytest.raises(world.InvalidArgumentError, match="registered already, as number 0"):
        world.add_process_set(world.global_process_set)
    again = world.add_process_set([0])
    assert again != mine and mine != world.global_process_set
    assert world.allreduce(np.ones(2), process_set=mine).tolist() == [1, 1]
    assert world.remove_process_set(mine) and world.add_process_set(mine) is mine
    assert world.remove_process_set(mine) and world.remove_process_set(again)


def test_a_section_wants_a_timeout_above_0(world):
    for timeout in (0, -1, float("nan")):
        with pytest.raises(world.InvalidArgumentError, match="timeout"):
            with world.rank_zero_section(timeout=timeout):
                pass
    with world.rank_zero_section(timeout=float("inf")) as mine:
        assert mine
