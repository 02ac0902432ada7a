import copy
import pickle

import numpy as np
import pytest

import horovod_cpp as hvd

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32",
          "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_from_numpy_and_numpy_share_memory_both_ways(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = hvd.from_numpy(array)
    assert tensor.dtype == dtype
    assert tensor.shape == (2, 3)
    array[0, 0] = 1
    tensor[1, 2] = 0
    assert tensor[0, 0].item() == 1
    assert array[1, 2] == 0
    assert np.shares_memory(tensor.numpy(), array)


@pytest.mark.parametrize("dtype", DTYPES)
def test_asarray_and_memoryview_see_the_tensors_memory(dtype):
    tensor = hvd.ones((2, 2), dtype=dtype)
    assert np.shares_memory(np.asarray(tensor), tensor.numpy())
    assert np.asarray(tensor).dtype == dtype
    assert memoryview(tensor).shape == (2, 2)


def test_asarray_converts_to_another_dtype_and_refuses_when_it_may_not_copy():
    tensor = hvd.ones((2,))
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError):
        tensor.__array__(np.float64, copy=False)
    assert not np.shares_memory(np.array(tensor, copy=True), tensor.numpy())


def test_an_array_outlives_its_tensor_and_a_tensor_its_array():
    array = hvd.full((1000,), 3.0).numpy()
    tensor = hvd.from_numpy(np.full(1000, 4.0))
    assert array.sum() == 3000
    assert tensor.numpy().sum() == 4000


def test_strided_arrays_are_wrapped_without_a_copy():
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensor = hvd.from_numpy(base.T[1:3])
    assert tensor.shape == (2, 3)
    assert not tensor.is_contiguous()
    np.testing.assert_array_equal(tensor.numpy(), base.T[1:3])


def test_bfloat16_has_no_array_and_says_what_to_do():
    tensor = hvd.tensor([1.0, 2.5], dtype="bfloat16")
    with pytest.raises(TypeError, match=r'\.to\("float32"\)'):
        tensor.numpy()
    with pytest.raises(TypeError):
        np.asarray(tensor, dtype=np.float32)
    with pytest.raises(BufferError):
        memoryview(tensor)
    np.testing.assert_array_equal(tensor.to("float32").numpy(), [1.0, 2.5])
    assert tensor.tolist() == [1.0, 2.5]


def test_bfloat16_rounds_to_eight_bits_of_mantissa():
    assert hvd.tensor([257.0], dtype="bfloat16").tolist() == [256.0]


@pytest.mark.parametrize("array", [
    np.zeros(2, np.uint32), np.zeros(2, np.longdouble), np.zeros(2, ">f4"), np.zeros(2, ">i2"),
    np.array(["a"]), np.array([None]), np.zeros(2, "datetime64[s]"),
])
def test_arrays_of_other_dtypes_are_type_errors(array):
    with pytest.raises(TypeError, match="dtype"):
        hvd.from_numpy(array)


@pytest.mark.parametrize("wrong", [3, "text", [1, 2], None])
def test_from_numpy_takes_arrays_only(wrong):
    with pytest.raises(TypeError):
        hvd.from_numpy(wrong)


def test_read_only_and_reversed_arrays_are_refused_with_advice():
    array = np.zeros(4, np.float32)
    with pytest.raises(hvd.InvalidArgumentError, match="copy"):
        hvd.from_numpy(array[::-1])
    array.flags.writeable = False
    with pytest.raises(hvd.InvalidArgumentError, match="read-only"):
        hvd.from_numpy(array)


def test_tensor_copies_and_gives_python_numbers_the_usual_dtypes():
    array = np.zeros(2, np.float64)
    tensor = hvd.tensor(array)
    array[0] = 5
    assert tensor.tolist() == [0.0, 0.0]
    assert tensor.dtype == "float64"
    assert hvd.tensor([[1.5, 2.5]]).dtype == "float32"
    assert hvd.tensor([1, 2]).dtype == "int64"
    assert hvd.tensor(2).shape == ()
    assert hvd.tensor([1, 2], dtype=np.float16).dtype == "float16"


def test_bools_and_complex_numbers_come_back_as_pythons():
    assert hvd.tensor([True, False]).dtype == "bool"
    assert hvd.tensor(True).item() is True
    assert hvd.tensor([1 + 2j]).dtype == "complex64"
    assert hvd.tensor([1 + 2j]).item() == 1 + 2j
    assert hvd.tensor([[True, False]]).tolist() == [[True, False]]
    assert hvd.tensor(np.array([-7], np.int8)).item() == -7


def test_a_complex_array_may_lie_at_a_multiple_of_its_parts():
    array = np.zeros(5, np.float64)[1:].view(np.complex128)
    tensor = hvd.from_numpy(array)
    array[1] = 2j
    assert tensor.tolist() == [0, 2j]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int16", "complex64", "complex128"])
def test_arithmetic_on_dtypes_that_are_only_stored_names_the_dtype(dtype):
    tensor = hvd.ones((2,), dtype=dtype)
    for action in (lambda: tensor + tensor, lambda: tensor * 2, lambda: -tensor,
                   lambda: hvd.sum(tensor), lambda: tensor.requires_grad_()):
        with pytest.raises(hvd.InvalidArgumentError, match=dtype):
            action()


def test_a_number_that_does_not_fit_is_refused():
    with pytest.raises(hvd.InvalidArgumentError, match="300.*int8"):
        hvd.full((2,), 300, dtype="int8")
    with pytest.raises(hvd.InvalidArgumentError, match="imaginary"):
        hvd.ones((2,), dtype="complex64").to("float32")


def test_an_unknown_dtype_lists_the_known_ones():
    with pytest.raises(hvd.InvalidArgumentError, match="float33.*float32"):
        hvd.zeros((2,), dtype="float33")
    with pytest.raises(hvd.InvalidArgumentError, match="uint32"):
        hvd.zeros((2,), dtype=np.uint32)
    with pytest.raises(TypeError):
        hvd.zeros((2,), dtype=3)


def test_a_negative_extent_is_an_error():
    with pytest.raises(hvd.InvalidArgumentError):
        hvd.zeros((2, -1))


def test_operators_match_numpy_and_broadcast():
    a = np.array([[1.0, 2.0], [4.0, 8.0]], np.float32)
    b = np.array([2.0, 4.0], np.float32)
    x, y = hvd.tensor(a), hvd.tensor(b)
    for got, want in [
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (-x, -a), (x**2, a**2),
        (x @ x, a @ a), (x + 1, a + 1), (1 + x, 1 + a), (2 - x, 2 - a), (8 / x, 8 / a),
        (x * 2, a * 2), (0.5 * x, 0.5 * a),
    ]:
        assert isinstance(got, hvd.Tensor)
        np.testing.assert_array_equal(got.numpy(), want)


def test_an_array_on_either_side_gives_a_tensor_that_keeps_the_graph():
    weight = hvd.tensor([1.0, 2.0], requires_grad=True)
    array = np.array([3.0, 4.0], np.float32)
    for product in (array * weight, weight * array):
        assert isinstance(product, hvd.Tensor)
        weight.grad = None
        hvd.sum(product).backward()
        assert weight.grad.tolist() == [3.0, 4.0]


def test_operands_that_do_not_fit_are_errors():
    with pytest.raises(hvd.InvalidArgumentError, match=r"\[2\].*\[3\]"):
        hvd.zeros((2,)) + hvd.zeros((3,))
    with pytest.raises(hvd.InvalidArgumentError):
        hvd.zeros((2,)) + hvd.zeros((2,), dtype="int64")
    with pytest.raises(TypeError):
        hvd.zeros((2,)) + "text"


@pytest.mark.parametrize("index", [
    0, -1, slice(1, 3), (slice(None), 1), (1, 2), (Ellipsis, 0), (None, 1), (slice(-2, None), None),
    (0, Ellipsis), (),
])
def test_indexing_matches_numpy_and_is_a_view(index):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensor = hvd.from_numpy(array)
    np.testing.assert_array_equal(tensor[index].numpy(), array[index])
    tensor[index] = 5
    assert (array[index] == 5).all()


def test_wrong_indices_are_errors():
    tensor = hvd.zeros((2, 3))
    with pytest.raises(IndexError, match="axis 1 of extent 3"):
        tensor[0, 3]
    with pytest.raises(IndexError):
        tensor[0, 0, 0]
    with pytest.raises(hvd.InvalidArgumentError):
        tensor[::2]
    for wrong in ("a", 1.5, [0, 1], True):
        with pytest.raises(TypeError):
            tensor[wrong]


def test_assignment_takes_numbers_arrays_and_tensors():
    tensor = hvd.zeros((2, 2))
    tensor[0] = np.array([1.0, 2.0], np.float32)
    tensor[1, 0] = hvd.tensor(3.0)
    tensor[1, 1] = 4
    assert tensor.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_leaf_that_requires_grad_is_assigned_only_within_no_grad():
    leaf = hvd.zeros((2,)).requires_grad_()
    with pytest.raises(hvd.InvalidArgumentError, match="no_grad"):
        leaf[0] = 1
    with hvd.no_grad():
        leaf[0] = 1
    assert leaf.tolist() == [1.0, 0.0]


def test_length_and_iteration():
    tensor = hvd.tensor([[1, 2], [3, 4]])
    assert len(tensor) == 2
    assert [row.tolist() for row in tensor] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError):
        len(hvd.tensor(1))
    with pytest.raises(TypeError):
        iter(hvd.tensor(1))


def test_views_and_shapes():
    tensor = hvd.arange(6)
    assert tensor.reshape(2, 3).shape == tensor.reshape((2, -1)).shape == (2, 3)
    matrix = tensor.reshape(2, 3)
    assert matrix.t().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert matrix.permute([1, 0]).shape == (3, 2)
    assert matrix.unsqueeze(0).shape == (1, 2, 3)
    assert matrix.unsqueeze(0).squeeze(0).shape == (2, 3)
    assert matrix.flatten().shape == (6,)
    assert matrix.size(-1) == 3
    assert matrix.numel() == 6
    assert matrix.ndim == matrix.dim() == 2
    assert hvd.ones((1, 2)).expand((3, 2)).shape == (3, 2)
    with pytest.raises(hvd.InvalidArgumentError):
        tensor.reshape(4, 2)


def test_item_keeps_all_bits_of_an_int64():
    big = 2**62 + 1
    assert hvd.tensor([big]).item() == big
    assert int(hvd.tensor([7])) == 7
    assert float(hvd.tensor([0.5])) == 0.5
    assert bool(hvd.tensor([1.0])) and not bool(hvd.tensor([0.0]))
    with pytest.raises(hvd.InvalidArgumentError):
        hvd.zeros((2,)).item()


def test_in_place_calls_return_the_tensor_itself():
    tensor = hvd.zeros((2,))
    assert tensor.fill_(2.0) is tensor
    assert tensor.add_(hvd.ones((2,)), alpha=3.0) is tensor
    assert tensor.mul_(2.0).tolist() == [10.0, 10.0]
    assert tensor.copy_(np.array([1, 2])).tolist() == [1.0, 2.0]
    assert tensor.zero_().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_pickling_keeps_dtype_shape_bits_and_requires_grad(dtype):
    tensor = hvd.tensor([[1, 2], [3, 4]], dtype=dtype)
    if "float" in dtype:
        tensor.requires_grad = True
    again = pickle.loads(pickle.dumps(tensor))
    assert hvd.bitwise_equal(again, tensor)
    assert again.requires_grad == tensor.requires_grad
    assert not copy.deepcopy(tensor).is_same(tensor)


def test_repr_tells_shape_and_dtype():
    assert "[2, 3]" in repr(hvd.zeros((2, 3)))
    assert "float32" in repr(hvd.zeros((2, 3)))


def test_seeds_make_random_tensors_equal():
    hvd.manual_seed(3)
    first = hvd.randn((100,))
    hvd.manual_seed(3)
    assert hvd.bitwise_equal(first, hvd.randn((100,)))
    assert not hvd.bitwise_equal(first, hvd.randn((100,)))
