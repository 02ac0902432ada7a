"""Arrays from anywhere: DLPack in both directions, and what collectives make of other arrays."""

import ctypes
import gc
import re
import sys

import ml_dtypes
import numpy as np
import pytest
from foreign_arrays import Foreign, Old
from order import ORDER

import horovod_cpp as hvd


@pytest.mark.parametrize("kind", [Foreign, Old])
def test_an_object_with_dlpack_is_read_without_a_copy_and_given_back_once(world, kind):
    array = kind([[1, 2], [3, 4]])
    result = hvd.allreduce(array)
    assert isinstance(result, hvd.Tensor)  # its library has no from_dlpack
    assert result.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert array.deleted == 1
    tensor = hvd.from_dlpack(array)
    array.values[0, 0] = 9
    assert tensor[0, 0].item() == 9
    view = tensor[1]
    del tensor
    assert array.deleted == 1 and view.tolist() == [3.0, 4.0]
    del view
    assert array.deleted == 2
    assert hvd.allreduce_(array, hvd.Sum) is array
    assert hvd.grouped_allreduce([array, np.ones(2)])[0].tolist() == [[9.0, 2.0], [3.0, 4.0]]


def test_memory_in_flight_outlives_its_owner(world):
    class Poisoned(Foreign):
        def _delete(self, address):
            self.values[:] = -1
            super()._delete(address)

    handles = [hvd.allreduce_async(Poisoned(np.arange(10000))) for _ in range(20)]
    gc.collect()
    for handle in handles:
        assert (hvd.synchronize(handle).numpy() == np.arange(10000)).all()
    del handles, handle
    gc.collect()
    hvd.barrier()
    assert not [array for array in Foreign.lent if isinstance(array, Poisoned)]


def test_an_array_of_a_gpu_is_refused_naming_the_device(world):
    for array in (Foreign([1, 2], device=2), Foreign([1, 2], versioned=False, device_type=2)):
        with pytest.raises(hvd.UnsupportedError, match="foreign_arrays.Foreign.*CUDA.*x.cpu()"):
            hvd.allreduce(array)
        assert array.deleted == 0
    with pytest.raises(hvd.UnsupportedError, match="type 10"):
        hvd.allreduce_(Foreign([1], device=10))


@pytest.mark.parametrize("lie, error, message", [
    ({"code": 1, "bits": 32}, TypeError, "uint32.*float32"),
    ({"code": 2, "bits": 8}, TypeError, "float8"),
    ({"code": 99}, TypeError, "code 99"),
    ({"lanes": 4}, TypeError, "lanes"),
    ({"ndim": -1}, BufferError, "-1 axes"),
    ({"ndim": 1000000}, BufferError, "axes"),
    ({"shape": None}, BufferError, "broken"),
    ({"data": None}, BufferError, "no memory"),
    ({"byte_offset": 1}, hvd.InvalidArgumentError, "aligned"),
    ({"major": 2}, BufferError, "DLPack 2.0"),
    ({"shape": (ctypes.c_int64 * 1)(-3)}, hvd.InvalidArgumentError, "-3"),
    ({"shape": (ctypes.c_int64 * 2)(2**40, 2**40), "ndim": 2}, hvd.InvalidArgumentError, "1099511627776"),
])
def test_a_lying_capsule_is_refused_and_stays_its_producers(world, lie, error, message):
    array = Foreign([1, 2, 3], **lie)
    for call in (hvd.allreduce, hvd.allreduce_, hvd.from_dlpack):
        with pytest.raises(BufferError if call is hvd.from_dlpack
                           and error is hvd.InvalidArgumentError else error, match=message):
            call(array)
    assert array.deleted == 0


def test_a_capsule_is_for_one_use(world):
    array = Foreign([1, 2])
    capsule = array.capsule()
    assert hvd.from_dlpack(capsule).tolist() == [1.0, 2.0]
    with pytest.raises(BufferError, match="used"):
        hvd.from_dlpack(capsule)
    assert array.deleted == 1
    array.capsule = lambda: 3
    with pytest.raises(TypeError, match="no capsule but int"):
        hvd.allreduce(array)
    array.name = b"something"
    del array.capsule
    with pytest.raises(BufferError, match="something"):
        hvd.allreduce(array)


def test_read_only_and_copied_memory_is_read_but_not_written(world):
    for flags, message in ((1, "read-only"), (2, "copy of its memory")):
        array = Foreign([1, 2], flags=flags)
        assert hvd.allreduce(array).tolist() == [1.0, 2.0]
        with pytest.raises(hvd.InvalidArgumentError, match=message):
            hvd.allreduce_(array)
        with pytest.raises(BufferError, match=message):
            hvd.from_dlpack(array)
        assert hvd.from_dlpack(array, copy=True).tolist() == [1.0, 2.0]
    constant = type("ArrayImpl", (Foreign,), {"__module__": "jaxlib._jax"})([1, 2])
    assert hvd.allreduce(constant).tolist() == [1.0, 2.0]
    with pytest.raises(hvd.InvalidArgumentError, match="jaxlib._jax.ArrayImpl is read-only"):
        hvd.allreduce_(constant)
    frozen = np.ones(2)
    frozen.flags.writeable = False
    for call in (hvd.allreduce_, lambda x: hvd.broadcast_(x, 0), lambda x: hvd.grouped_allreduce_([x]),
                 lambda x: hvd.broadcast_parameters({"x": x})):
        with pytest.raises(hvd.InvalidArgumentError, match="read-only"):
            call(frozen)


def test_memory_that_runs_backwards_is_copied_or_refused(world):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    last = values.ctypes.data + 4 * 5
    strides = (ctypes.c_int64 * 2)(-3, -1)
    array = Foreign(values, data=last, strides=strides)
    array.keep = values
    assert hvd.allreduce(array).tolist() == values[::-1, ::-1].tolist()
    with pytest.raises(hvd.InvalidArgumentError, match="axis 0.*backwards"):
        hvd.allreduce_(array)


@pytest.mark.parametrize("place", [
    None, 1, (1,), (1, 0, 0), [1, 0], (None, 0), ("1", 0), (1.5, 0), (1, 2**40), (2**80, 0)])
def test_an_array_that_does_not_say_where_it_lies_is_refused_by_name(world, place):
    class Lost(Foreign):
        def __dlpack_device__(self):
            return place

    words = "__dlpack_device__ of .*Lost returned no pair of numbers but " + re.escape(repr(place))
    with pytest.raises(TypeError, match=words):
        hvd.allreduce(Lost([1.0]))


@pytest.mark.parametrize("array, message", [
    (np.array([None]), "object.*broadcast_object"), (np.zeros(2, ">f4"), "byte order.*newbyteorder"),
    (np.zeros(2, np.uint32), "uint32"), (np.array(["a"]), "<U1"), (np.zeros(2, "M8[s]"), "datetime64"),
    (np.zeros(2, [("a", "f4")]), "'a'"), (np.zeros(2, np.longdouble), "longdouble|float128"),
])
def test_arrays_that_no_tensor_can_hold_say_which_and_what_to_do(world, array, message):
    for call in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.tensor):
        with pytest.raises(TypeError, match=message):
            call(array)


@pytest.mark.parametrize("wrong", [3, [1.0, 2.0], "text", None, np.ndarray, hvd.Tensor])
def test_what_is_no_array_is_told_what_is_taken(world, wrong):
    with pytest.raises(TypeError, match="expected a Tensor, a NumPy array or .*__dlpack__"):
        hvd.allreduce(wrong)


def test_views_are_read_and_only_contiguous_ones_written(world):
    base = np.arange(12.0).reshape(3, 4)
    unaligned = np.zeros(17, np.uint8)[1:].view(np.float64)
    for view in (base.T, base[::-1, ::2], np.broadcast_to(np.ones(1), 5), base[1, 1], base[:0],
                 unaligned):
        np.testing.assert_array_equal(hvd.allreduce(view), view)
    with pytest.raises(hvd.InvalidArgumentError, match="without the trailing underscore"):
        hvd.allreduce_(base.T)
    with pytest.raises(hvd.InvalidArgumentError, match="without the trailing underscore"):
        hvd.allreduce_(hvd.tensor(base).t())
    repeated = np.lib.stride_tricks.as_strided(np.ones(1), (5,), (0,))
    windows = np.lib.stride_tricks.as_strided(np.ones(6), (4, 3), (8, 8))
    for array in (repeated, windows):
        for call in (hvd.allreduce_, lambda x: hvd.broadcast_parameters({"x": x})):
            with pytest.raises(hvd.InvalidArgumentError, match="share memory"):
                call(array)
    column = np.zeros((4, 2))[:, 0]
    hvd.broadcast_parameters({"x": column})  # strided memory is broadcast through a copy
    for scalar in (np.array(2.0), hvd.tensor(2.0)):
        assert hvd.allreduce_(scalar) is scalar


def test_bfloat16_arrays_of_ml_dtypes_come_back_as_they_were(world):
    array = np.array([1.5, 2.5], ml_dtypes.bfloat16)
    result = hvd.allreduce(array)
    assert isinstance(result, np.ndarray) and result.dtype == ml_dtypes.bfloat16
    assert result.astype(np.float32).tolist() == [1.5, 2.5]
    assert hvd.allreduce_(array) is array
    tensor = hvd.from_numpy(array)
    array[0] = 4
    assert tensor.dtype == "bfloat16" and tensor.tolist() == [4.0, 2.5]
    assert hvd.zeros(2, dtype=ml_dtypes.bfloat16).dtype == "bfloat16"


def test_numpy_reads_a_tensor_by_dlpack():
    tensor = hvd.arange(6).reshape(2, 3)
    array = np.from_dlpack(tensor.t())
    tensor[0, 0] = 7
    assert array.tolist() == tensor.t().tolist() == [[7, 3], [1, 4], [2, 5]]
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":  # such arrays are read-only there
        assert not array.flags.writeable
        return
    array[1, 0] = 8
    assert tensor[0, 1].item() == 8
    again = hvd.from_dlpack(array)
    again[2, 1] = 9
    assert tensor[1, 2].item() == 9
    del tensor, again
    assert array[2, 1] == 9
    assert tensor_name(hvd.ones(1).__dlpack__()) == b"dltensor"
    assert tensor_name(hvd.ones(1).__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"
    assert tensor_name(hvd.ones(1).__dlpack__(max_version=(0, 8))) == b"dltensor"
    assert hvd.ones(1).__dlpack_device__() == (1, 0)


def tensor_name(capsule):
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return name(capsule)


def test_a_tensor_exports_what_it_can_and_says_what_it_cannot():
    tensor = hvd.ones((3,))
    copy = hvd.from_dlpack(tensor.__dlpack__(copy=True), copy=True)
    copy[0] = 5
    assert tensor.tolist() == [1.0, 1.0, 1.0]
    for wrong in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            tensor.__dlpack__(**wrong)
    with pytest.raises(BufferError, match="detach"):
        hvd.ones((3,)).requires_grad_().__dlpack__()
    with pytest.raises(hvd.UnsupportedError, match="cuda"):
        hvd.from_dlpack(tensor, device="cuda:0")
    with pytest.raises(TypeError, match="__dlpack__"):
        hvd.from_dlpack([1.0])


def test_a_capsule_that_nobody_takes_frees_its_tensor():
    array = np.ones(1000)
    before = sys.getrefcount(array)
    tensor = hvd.from_numpy(array)
    for version in (None, (1, 0)):
        capsule = tensor.__dlpack__(max_version=version)
        del capsule
    del tensor
    assert sys.getrefcount(array) == before


def test_what_requires_grad_is_taken_by_its_values(world):
    leaf = hvd.ones((2,)).requires_grad_()
    result = hvd.allreduce(leaf * 3)
    assert not result.requires_grad and result.tolist() == [3.0, 3.0]
    stubborn = Foreign([1, 2])
    stubborn.requires_grad = True
    with pytest.raises(hvd.InvalidArgumentError, match="detach"):
        hvd.allreduce(stubborn)


def test_calls_leave_no_references_behind(world):
    array, foreign = np.ones(1024, np.float32), Foreign(np.ones(1024))
    before = sys.getrefcount(array), sys.getrefcount(foreign)
    for _ in range(1000):
        hvd.allreduce(array)
        hvd.allreduce_(array)
        hvd.synchronize(hvd.grouped_allreduce_async([array, foreign]))
        hvd.broadcast_parameters({"a": array})
    gc.collect()
    hvd.barrier()
    assert (sys.getrefcount(array), sys.getrefcount(foreign)) == before
    assert foreign.deleted == 1000


def test_a_thread_goes_on_while_the_main_one_waits(ranks):
    ranks.check(ORDER + """
def work(done):
    for _ in range(20):
        time.sleep(0.001)
    done.touch()
box = np.zeros(2)
calls = (lambda: hvd.allreduce(np.ones(2)), lambda: hvd.broadcast_(np.ones(2), 0),
         lambda: hvd.broadcast_parameters({"w": np.ones(2)}), hvd.barrier, hvd.join,
         lambda: hvd.broadcast_object(1), lambda: hvd.allgather_object(1),
         lambda: hvd.grouped_allgather([np.ones(2)]), lambda: hvd.reduce(np.ones(2), 0),
         lambda: hvd.alltoall(np.ones(2)), lambda: hvd.reducescatter(np.ones(2)),
         lambda: hvd.synchronize(hvd.allreduce_async_(np.ones(2))),
         lambda: hvd.recv(box, 1) if rank == 0 else hvd.send(np.ones(2), 0))
for number, call in enumerate(calls):
    done = pathlib.Path(f"done{number}")
    hvd.barrier()
    if rank == 0:
        threading.Thread(target=work, args=[done]).start()
    else:
        wait_for(done)  # rank 0's other thread goes on, or rank 1 never comes
    call()
    assert done.exists(), "it did not wait"
""")


def test_masked_arrays_are_refused_since_their_mask_would_be_lost(world):
    masked = np.ma.array([1.0, 100.0], mask=[0, 1])
    for take in (hvd.tensor, lambda array: hvd.allreduce(array, name="m")):
        with pytest.raises(hvd.InvalidArgumentError, match="masked.*filled"):
            take(masked)
