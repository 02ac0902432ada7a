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


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int16", "complex64", "complex128"])
def test_arithmetic_on_dtypes_that_are_only_stored_names_the_dtype(dtype):
    tensor = hvd.ones((2,), dtype=dtype)
    for action in (lambda: tensor + tensor, lambda: tensor * 2, lambda: -tensor,
                   lambda: hvd.sum(tensor), lambda: tensor.requires_grad_()):
        with pytest.raises(hvd.InvalidArgumentError, match=dtype):
            action()


def test_a_number_that_does_not_fit_is_refused():
    with pytest.raises(hvd.InvalidArgumentError, match="300.*int8"):
        hvd.full((2,), 300, dtype="int8")
    for numbers, dtype in [([0, 300], "uint8"), (-1, "uint8"), ([[3e9]], "int32")]:
        with pytest.raises(hvd.InvalidArgumentError, match=f"does not fit dtype {dtype}"):
            hvd.tensor(numbers, dtype=dtype)
    assert hvd.tensor([255, 0.5], dtype="uint8").tolist() == [255, 0]
    assert hvd.tensor(np.array([300]), dtype="uint8").tolist() == [44]
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
    (0, Ellipsis), (), slice(None, None, 2), (slice(None), slice(1, 4, 2)), (0, slice(3, 0)),
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
    for wrong in ("a", 1.5, [0.5, 1], True, np.zeros(2)):
        with pytest.raises(TypeError):
            tensor[wrong]
    with pytest.raises(hvd.InvalidArgumentError, match="index 2.*extent 2"):
        tensor[[0, 2]]
    with pytest.raises(hvd.InvalidArgumentError, match="mask"):
        tensor[np.array([True, False, True])]
    with pytest.raises(hvd.InvalidArgumentError, match="negative step"):
        tensor[::-1] = 1


@pytest.mark.parametrize("index", [
    [0, 2, -1], np.array([1, 1], np.int32), (slice(None), [3, 0]), ([0, 1], [1, 2]),
    (slice(1, None), [[0, 1], [2, 3]]), np.array([True, False, True]), (..., np.array([0, 3])),
    (None, [1, 2]), np.arange(12).reshape(3, 4) % 2 == 0, [],
])
def test_arrays_pick_and_are_assigned_to_as_in_numpy(index):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensor = hvd.tensor(array)
    want = index if not isinstance(index, list) or index else np.zeros(0, np.int64)
    np.testing.assert_array_equal(tensor[index].numpy(), array[want])
    tensor[index] = 7
    array[want] = 7
    np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("index", [
    slice(None, None, -1), (slice(None), slice(None, None, -2)), (slice(5, 0, -2), 1),
    (slice(None, None, -1), [0, 2]),
])
def test_negative_steps_read_backwards(index):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(hvd.tensor(array)[index].numpy(), array[index])


def test_a_tensor_is_an_index_and_keeps_the_graph():
    x = hvd.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x[hvd.tensor([0, 0, 2])].sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 1.0]
    x.grad = None
    x[x > 1].sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0]


def test_assigning_to_a_part_of_a_result_is_refused_rather_than_unrecorded():
    y = hvd.tensor([1.0, 2.0], requires_grad=True) * 2
    with pytest.raises(hvd.InvalidArgumentError, match="where"):
        y[0] = 1


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


def test_repr_prints_like_numpy():
    assert repr(hvd.tensor([[1.0, 2.5], [3.0, 4.0]])) == (
        "tensor([[1. , 2.5],\n        [3. , 4. ]], dtype=float32)")
    assert repr(hvd.tensor([1.0], dtype="bfloat16", requires_grad=True)) == (
        "tensor([1.], dtype=bfloat16, requires_grad=True)")
    assert repr(hvd.tensor(True)) == "tensor(True, dtype=bool)"
    assert "shape=(2000,)" in repr(hvd.zeros((2000,)))
    assert "shape=(0, 3)" in repr(hvd.zeros((0, 3)))


def test_comparisons_give_bool_tensors_and_match_numpy():
    a = np.array([[1, 2], [3, 4]])
    x = hvd.tensor(a)
    for got, want in [
        (x == 2, a == 2), (x != a, a != a), (x < x.t(), a < a.T), (x <= 2, a <= 2), (x > 1, a > 1),
        (3 > x, 3 > a), (x >= a, a >= a), (~(x > 1), ~(a > 1)), ((x > 1) & (x < 4), (a > 1) & (a < 4)),
        ((x == 1) | (x == 4), (a == 1) | (a == 4)), ((x > 1) ^ (x > 2), (a > 1) ^ (a > 2)),
    ]:
        assert got.dtype == "bool"
        np.testing.assert_array_equal(got.numpy(), want)
    assert (x == None) is False  # noqa: E711
    assert (x == "text") is False
    assert len({x, x, hvd.tensor(a)}) == 2
    with pytest.raises(hvd.InvalidArgumentError, match="int64"):
        x & x


def test_seeds_make_random_tensors_equal():
    hvd.manual_seed(3)
    first = hvd.randn((100,))
    hvd.manual_seed(3)
    assert hvd.bitwise_equal(first, hvd.randn((100,)))
    assert not hvd.bitwise_equal(first, hvd.randn((100,)))


def test_a_generator_is_a_stream_of_its_own():
    first, second = hvd.Generator(5), hvd.Generator(5)
    before = hvd.rand((3,), generator=first)
    state = first.get_state()
    after = hvd.randn((3,), generator=first)
    assert hvd.bitwise_equal(before, hvd.rand((3,), generator=second))
    second.set_state(state)
    assert hvd.bitwise_equal(after, hvd.randn((3,), generator=second))
    assert sorted(hvd.randperm(5, generator=first).tolist()) == [0, 1, 2, 3, 4]
    assert set(hvd.randint(2, 4, (50,), generator=first).tolist()) == {2, 3}
    assert hvd.bernoulli((4,), 1.0).tolist() == [1.0] * 4


def test_functions_are_methods_too_and_match_numpy():
    a = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0]])
    x = hvd.tensor(a)
    for got, want in [
        (x.sum(), a.sum()), (x.sum(0), a.sum(0)), (x.mean(axis=[1], keepdim=True), a.mean(1)[:, None]),
        (x.var(1), a.var(1, ddof=1)), (x.std(0, correction=0), a.std(0)), (x.norm(), np.linalg.norm(a)),
        (x.norm(np.inf, 1), abs(a).max(1)), (x.prod(0), a.prod(0)), (x.cumsum(1), a.cumsum(1)),
        (x.max(), a.max()), (x.min(0)[0], a.min(0)), (x.max(1)[1], a.argmax(1)), (x.argmin(), a.argmin()),
        (x.sort(0)[0], np.sort(a, 0)), (x.argsort(1), a.argsort(1)), (x.topk(1, 1)[0], a.max(1)[:, None]),
        (x.abs(), abs(a)), (abs(x), abs(a)), (x.sign(), np.sign(a)), (x.square(), a**2),
        (x.clamp(min=0), a.clip(0)), (x.clamp(-1, 1), a.clip(-1, 1)), (x.sin(), np.sin(a)),
        (x.cos(), np.cos(a)), (x.exp(), np.exp(a)), (x.tanh(), np.tanh(a)), (x.abs().log(), np.log(abs(a))),
        (x.abs().sqrt(), np.sqrt(abs(a))), (x.sigmoid(), 1 / (1 + np.exp(-a))), (x.relu(), a.clip(0)),
        (hvd.neg(x), -a), (x.abs().log1p(), np.log1p(abs(a))), (x.reciprocal(), 1 / a),
        (x.maximum(x * 0), np.maximum(a, 0)), (x.minimum(x * 0), np.minimum(a, 0)),
        ((x > 0).any(0), (a > 0).any(0)), ((x > -3).all(), True), (x.isnan(), np.isnan(a)),
        (hvd.where(x > 0, x, x * 0), np.where(a > 0, a, 0)), (x.masked_fill(x < 0, 9), np.where(a < 0, 9, a)),
        (x.masked_select(x > 0), a[a > 0]), (x.nonzero(), np.argwhere(a)), (x.flip(0), a[::-1]),
        (x.flip([0, 1]), a[::-1, ::-1]), (x.repeat([2, 1]), np.tile(a, (2, 1))), (x.tril(), np.tril(a)),
        (x.triu(1), np.triu(a, 1)), (x.index_select(1, hvd.tensor([2, 0])), a[:, [2, 0]]),
        (x.gather(1, hvd.tensor([[0], [2]])), [[3.0], [-2.0]]), (x @ x.t(), a @ a.T),
        (hvd.outer(x[0], x[1]), np.outer(a[0], a[1])), (x[0].dot(x[1]), a[0] @ a[1]),
        (hvd.cat([x, x], 1), np.hstack([a, a])), (x.split(2, 1)[1], a[:, 2:]), (x.chunk(2)[0], a[:1]),
        (hvd.one_hot(hvd.tensor([1, 0])), [[0, 1], [1, 0]]),
        (hvd.bincount(hvd.tensor([1, 1])), [0, 2]),
        (x.scatter_add(1, hvd.tensor([[0], [0]]), hvd.tensor([[1.0], [2.0]], dtype="float64")),
         a + [[1, 0, 0], [2, 0, 0]]),
    ]:
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    y = hvd.zeros((2,))
    assert y.scatter_(0, hvd.tensor([1]), hvd.ones((1,))) is y
    assert y.tolist() == [0.0, 1.0]


def test_integers_beyond_a_doubles_bits_stay_exact():
    big = 2**53 + 1
    x = hvd.tensor([big, -big])
    assert (x + 2).tolist() == [big + 2, 2 - big] and (2 + x).tolist() == [big + 2, 2 - big]
    assert (x - 2).tolist() == [big - 2, -big - 2] and (2 - x).tolist() == [2 - big, big + 2]
    assert (hvd.tensor([3]) * big).tolist() == [3 * big] == (big * hvd.tensor([3])).tolist()
    assert (x == big).tolist() == [True, False] and (x > big - 1).tolist() == [True, False]
    assert (x != big - 1).tolist() == [True, True]
    x += 2
    x *= 3
    assert x.tolist() == [3 * (big + 2), 3 * (2 - big)] and x.dtype == "int64"
    assert (hvd.tensor([1.5]) + 2).tolist() == [3.5]
