"""What users of NumPy and PyTorch write without thinking."""

import copy
import pickle
import time

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import data, nn

A = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0]])


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "any", "all", "max", "min", "argmax",
                                  "argmin", "prod", "norm"])
def test_reductions_take_the_words_of_numpy_and_of_pytorch_in_any_mixture(name):
    x = hvd.tensor(A)
    for function in (getattr(hvd, name), getattr(hvd.Tensor, name)):
        results = [function(x, **{axis: 1, keep: True}) for axis in ("axis", "dim")
                   for keep in ("keepdims", "keepdim")]
        results += [function(x, axis=1), function(x, dim=1)]
        firsts = [r[0] if isinstance(r, tuple) else r for r in results]
        assert [r.shape for r in firsts] == [(2, 1)] * 4 + [(2,)] * 2
        assert all(hvd.bitwise_equal(r, firsts[0]) for r in firsts[:4])
        for both in ({"axis": 1, "dim": 1}, {"axis": 1, "keepdim": True, "keepdims": True}):
            with pytest.raises(TypeError, match=f"(?s){name}.*dim: "):
                function(x, **both)


@pytest.mark.parametrize("call", [
    lambda x, **k: hvd.softmax(x, **k), lambda x, **k: x.log_softmax(**k),
    lambda x, **k: x.cumsum(**k), lambda x, **k: x.sort(**k)[1], lambda x, **k: x.argsort(**k),
    lambda x, **k: x.topk(2, **k)[0], lambda x, **k: hvd.cat([x, x], **k),
    lambda x, **k: hvd.concat([x, x], **k), lambda x, **k: hvd.stack([x, x], **k),
    lambda x, **k: x.split(1, **k)[0], lambda x, **k: x.chunk(2, **k)[1], lambda x, **k: x.flip(**k),
    lambda x, **k: x.unsqueeze(**k), lambda x, **k: x.select(index=1, **k),
    lambda x, **k: x.gather(index=hvd.tensor([[1, 0]]), **k),
    lambda x, **k: x.index_select(index=hvd.tensor([1]), **k),
    lambda x, **k: x.scatter_add(index=hvd.tensor([[0]]), source=hvd.tensor(A[:1, :1]), **k),
    lambda x, **k: x.index_add(index=hvd.tensor([0]), source=x[:, :1], **k),
    lambda x, **k: hvd.tensor(x.size(**k)),
])
def test_functions_along_an_axis_take_dim_as_well(call):
    x = hvd.tensor(A)
    assert hvd.bitwise_equal(call(x, axis=1), call(x, dim=1))
    with pytest.raises(TypeError):
        call(x, axis=1, dim=1)


def test_shapes_change_as_in_numpy_and_pytorch():
    x = hvd.arange(24).reshape(2, 3, 4)
    a = x.numpy()
    for got, want in [
        (x.T, a.T), (x.mT, a.swapaxes(1, 2)), (x.permute(2, 0, 1), a.transpose(2, 0, 1)),
        (x.permute((2, 0, 1)), a.transpose(2, 0, 1)), (x.transpose(0, 1), a.swapaxes(0, 1)),
        (x.transpose(), a.T), (x.swapaxes(0, 2), a.swapaxes(0, 2)), (x.flatten(), a.ravel()),
        (x.flatten(1), a.reshape(2, 12)), (x.flatten(start_dim=0, end_dim=1), a.reshape(6, 4)),
        (x.ravel(), a.ravel()), (x.view(6, 4), a.reshape(6, 4)), (x.view(-1, 2), a.reshape(12, 2)),
        (x.view((4, 6)), a.reshape(4, 6)), (x.reshape(-1), a.reshape(-1)),
        (x[:1].squeeze(), a[0]), (x[:1].squeeze(0), a[0]), (x.unsqueeze(-1), a[..., None]),
        (x[0].t(), a[0].T), (x[0, 0].t(), a[0, 0]), (x[:1].expand(5, -1, 4), np.broadcast_to(a[0], (5, 3, 4))),
        (x[:1].expand_as(x), np.broadcast_to(a[:1], (2, 3, 4))), (x[0, 0].repeat(2, 2), np.tile(a[0, 0], (2, 2))),
        (x[0, 0].repeat([3]), np.tile(a[0, 0], 3)), (x.view_as(hvd.zeros(8, 3)), a.reshape(8, 3)),
    ]:
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.numpy(), want)
    assert np.shares_memory(x.view(-1).numpy(), a)
    assert x.size() == (2, 3, 4) and x.size(1) == 3 and x.size(-1) == 4 and x.dim() == x.ndim == 3 and x.numel() == 24
    assert x.stride() == (12, 4, 1) and x.itemsize == x.element_size() == 8 and x.nbytes == 192
    for wrong, message in ((lambda: x.t(), "t: transposes a matrix.*mT"),
                           (lambda: x[0].t().view(-1), "without a copy.*reshape"),
                           (lambda: x[0, 0].mT, "mT"), (lambda: x.flatten(2, 1), "start_dim"),
                           (lambda: x.reshape(4, 2), "reshape")):
        with pytest.raises(hvd.InvalidArgumentError, match=message):
            wrong()


def test_conversions_have_pytorchs_names():
    x = hvd.tensor([0.5, 2.0])
    for name, dtype in [("half", "float16"), ("bfloat16", "bfloat16"), ("float", "float32"),
                        ("double", "float64"), ("int", "int32"), ("long", "int64"), ("bool", "bool")]:
        assert getattr(x, name)().dtype == dtype
    assert x.cpu() is x and x.device == "cpu" and x.data.is_leaf
    assert x.to("cpu").is_same(x) and x.to("cpu", "int64").dtype == "int64"
    assert x.to(device="cpu", dtype=np.float64).dtype == "float64"
    assert x.to(hvd.long).dtype == x.to(hvd.tensor([1])).dtype == x.astype("int64").dtype == "int64"
    assert not np.shares_memory(x.astype("float32").numpy(), x.numpy())
    assert x.is_floating_point() and not x.long().is_floating_point()
    for move in (x.to, nn.Linear(2, 2).to):
        with pytest.raises(hvd.UnsupportedError, match="'cuda:0'"):
            move("cuda:0")
    with pytest.raises(hvd.InvalidArgumentError, match="float33"):
        x.to("float33")
    with pytest.raises(TypeError):
        x.to()
    assert nn.Linear(2, 2).to("cpu").to(hvd.float64).weight.dtype == "float64"


def test_dtype_constants_work_wherever_a_name_does():
    for name in ("bool uint8 int8 uint16 int16 int32 int64 float16 bfloat16 float32 float64 complex64 "
                 "complex128").split():
        constant = getattr(hvd, name)
        assert hvd.zeros(2, dtype=constant).dtype == constant == name
        assert hvd.tensor([1], dtype=constant).dtype == constant
        if name != "bfloat16":
            assert np.zeros(2, constant).dtype == constant
    assert (hvd.half, hvd.float, hvd.double, hvd.int, hvd.long) == (
        "float16", "float32", "float64", "int32", "int64")
    assert "int" not in hvd.__all__ and "bool" not in hvd.__all__ and "float32" in hvd.__all__


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn"])
def test_sizes_are_a_tuple_or_several_numbers(name):
    make = getattr(hvd, name)
    for tensor in (make(3, 4), make((3, 4)), make([3, 4]), make(shape=(3, 4)),
                   make(np.int64(3), np.int32(4)), make(3, 4, requires_grad=True)):
        assert tensor.shape == (3, 4) and tensor.dtype == "float32"
    assert make(3).shape == (3,) and make(()).shape == () and make(3, 4, 5).shape == (3, 4, 5)
    assert make(3, 4, dtype=hvd.float64).dtype == make((3, 4), "float64").dtype == "float64"
    assert make(2, requires_grad=True).requires_grad
    for wrong in (lambda: make(), lambda: make(2, 3, "float32"), lambda: make((2,), dtype=3),
                  lambda: make(2.5, 3), lambda: make("a")):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(hvd.InvalidArgumentError):
        make(2, -1)


def test_a_stack_without_axis_makes_the_first():
    assert hvd.stack([hvd.zeros(2), hvd.ones(2)]).tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_one_element_is_a_python_number():
    big = 2**62 + 1  # more bits than a double has
    assert hvd.tensor([big]).item() == big
    with pytest.raises(hvd.InvalidArgumentError):
        hvd.zeros(2).item()
    assert float(hvd.tensor([[2.5]])) == 2.5 and int(hvd.tensor(2.5)) == 2 and complex(hvd.tensor(2j)) == 2j
    assert bool(hvd.tensor(True)) is True and bool(hvd.tensor(0.0)) is False
    assert [10, 20, 30][hvd.tensor(1)] == 20 and list(range(hvd.tensor([3]))) == [0, 1, 2]
    assert np.arange(5)[hvd.tensor(2)] == 2 and "{:.2f}".format(float(hvd.tensor(0.125))) == "0.12"
    with pytest.raises(hvd.InvalidArgumentError, match=r"\[2\].*any\(\) or all\(\)"):
        bool(hvd.ones(2))
    for tensor in (hvd.tensor(1.5), hvd.tensor([1, 2])):
        with pytest.raises(TypeError, match="index"):
            range(tensor)


def test_membership_length_and_iteration():
    x = hvd.tensor([[1, 2], [3, 4]])
    assert 3 in x and 5 not in x and hvd.tensor([9, 4]) in x and "text" not in x
    assert 1 not in hvd.zeros(0)
    assert len(x) == 2 and [sum(row.tolist()) for row in x] == [3, 7]
    first, second = x
    assert second.tolist() == [3, 4]
    for wrong in (len, iter):
        with pytest.raises(TypeError):
            wrong(hvd.tensor(1))


def test_operators_take_numbers_and_arrays_on_either_side():
    x = hvd.tensor(A)
    vector = np.array([1.0, 2.0, 3.0])
    for got, want in [
        (x @ A.T, A @ A.T), (A.T @ x, A.T @ A), (A + x, A + A), (A - x, A - A), (A * x, A * A),
        (A / x, A / A), (x - vector, A - vector), (+x, A), (np.float64(2) * x, 2 * A),
        (np.float32(2) + x, 2 + A), (A < x, A < A), (A == x, A == A), (vector @ x.T, vector @ A.T),
        (3 > x, 3 > A), (2 - x, 2 - A), (True + x, True + A), (x + x[0], A + A[0]), (x * x, A * A),
        (x - x[0], A - A[0]), (x / x, A / A), (-x, -A), (x**2, A**2), (x @ x.T, A @ A.T), (x + 1, A + 1),
        (1 + x, 1 + A), (8 / x, 8 / A), (x * 2, A * 2), (0.5 * x, 0.5 * A),
    ]:
        assert isinstance(got, hvd.Tensor)
        np.testing.assert_allclose(got.numpy(), want)


def test_augmented_assignment_writes_in_place():
    x = hvd.ones(3)
    same, array = x, x.numpy()
    x += 1
    x -= hvd.tensor([1.0, 0.0, 0.0])
    x *= np.full(3, 4, np.float32)
    x /= 2.0
    assert x is same and array.tolist() == [2.0, 4.0, 4.0]
    counts = hvd.tensor([1, 2])
    counts += 2
    assert counts.tolist() == [3, 4]
    with pytest.raises(hvd.InvalidArgumentError, match="0.5.* int64"):
        counts += 0.5
    weight = hvd.ones(2).requires_grad_()
    (weight * 3).sum().backward()
    with pytest.raises(hvd.InvalidArgumentError, match="no_grad"):
        weight -= 0.5 * weight.grad
    with hvd.no_grad():
        weight -= 0.5 * weight.grad  # the update that every tutorial begins with
    assert weight.tolist() == [-0.5, -0.5] and weight.is_leaf


def test_sums_of_recorded_results_may_be_augmented():
    weight = hvd.ones(2).requires_grad_()
    total = hvd.zeros(())
    for factor in (1.0, 2.0):
        total += (weight * factor).sum()
    total.backward()
    assert total.item() == 6.0 and weight.grad.tolist() == [3.0, 3.0]
    weight.grad = None
    hidden = weight * 2
    hidden += weight  # a residual connection
    (hidden * hidden).sum().backward()
    assert weight.grad.tolist() == [18.0, 18.0]


def test_large_tensors_print_their_edges_at_once():
    text = repr(hvd.arange(10_000).reshape(100, 100))
    assert text.count("\n") == 6 and "..." in text and "shape=(100, 100), dtype=int64" in text
    assert "9999" in text and "tensor([[   0,    1,    2, ...,   97,   98,   99]," in text
    huge = hvd.zeros(60_000_000, dtype="bfloat16")
    start = time.process_time()
    assert repr(huge) == "tensor([0., 0., 0., ..., 0., 0., 0.], shape=(60000000,), dtype=bfloat16)"
    assert time.process_time() - start < 1
    assert repr(hvd.tensor([1 / 3, 2.0])) == "tensor([0.3333, 2.    ], dtype=float32)"
    assert "requires_grad=True" in repr(hvd.ones(2, requires_grad=True))
    assert str(hvd.tensor(1j)) == "tensor(0.+1.j, dtype=complex64)"
    whole = repr(hvd.arange(1000))
    assert "..." not in whole and "999" in whole


def test_a_tensor_without_memory_cannot_be_made():
    for make in (lambda: hvd.Tensor.__new__(hvd.Tensor), lambda: hvd.Tensor(), lambda: hvd.Tensor([1.0]),
                 lambda: object.__new__(hvd.Tensor)):
        with pytest.raises(TypeError, match="Tensor"):
            make()


def test_copies_share_memory_and_deep_copies_do_not():
    x = hvd.tensor([1.0, 2.0], requires_grad=True)
    shallow, deep, again = copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x, protocol=5))
    with hvd.no_grad():
        x[0] = 5
    assert shallow.tolist() == [5.0, 2.0] and deep.tolist() == again.tolist() == [1.0, 2.0]
    assert shallow.requires_grad and deep.requires_grad and again.requires_grad
    twice = copy.deepcopy([x, x])
    assert twice[0] is twice[1]


def test_a_model_prints_its_layers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8))
            self.table = nn.Embedding(10, 3)

        def extra_repr(self):
            return "depth=2"

        def forward(self, x):
            return self.body(x)

    assert repr(nn.Linear(4, 2, bias=False)) == "Linear(in_features=4, out_features=2, bias=False)"
    assert repr(nn.Conv2d(3, 8, 5)) == "Conv2d(3, 8, kernel_size=(5, 5), stride=(1, 1))"
    assert str(Net()) == """Net(
  depth=2
  (body): Sequential(
    (0): Linear(in_features=4, out_features=8, bias=True)
    (1): ReLU()
    (2): LayerNorm((8,), eps=1e-05, elementwise_affine=True)
  )
  (table): Embedding(10, 3)
)"""
    nothing = type("Nothing", (nn.Module,), {"extra_repr": lambda self: None, "forward": lambda self, x: x})
    assert repr(nothing()) == "Nothing()" and repr(nn.Sequential(nothing())) == "Sequential(\n  (0): Nothing()\n)"
    assert "(layer1): Sequential(\n" in repr(hvd.models.resnet18()) and repr(nn.ModuleList([])) == "ModuleList()"


def test_a_distributed_sampler_takes_the_dataset_and_the_sessions_place(ranks):
    with pytest.raises(hvd.InvalidArgumentError, match="init"):
        data.DistributedSampler(list(range(10)))
    sampler = data.DistributedSampler(list(range(10)), num_replicas=5, rank=1, shuffle=False)
    assert list(sampler) == [1, 6]
    ranks.check("""
sampler = hvd.data.DistributedSampler([0] * 5, shuffle=False)
assert list(sampler) == [rank, rank + 2, (rank + 4) % 5]
assert hvd.data.DistributedSampler(8).indices() == hvd.data.DistributedSampler(8, size, rank).indices()
""")


def test_autocast_takes_a_device_as_pytorchs_does():
    for region in (hvd.autocast("cpu"), hvd.autocast("cpu", dtype=hvd.bfloat16), hvd.autocast("bfloat16"),
                   hvd.autocast(device_type="cpu", dtype="bfloat16")):
        with region:
            assert hvd.is_autocast_enabled() and hvd.autocast_dtype() == "bfloat16"
    with pytest.raises(hvd.UnsupportedError, match="cuda"):
        hvd.autocast("cuda")
    with pytest.raises(TypeError, match="float16"):
        hvd.autocast("float16", dtype="bfloat16")


def test_a_tensor_of_one_element_is_formatted_as_a_number():
    assert f"{hvd.tensor(0.12345):.3f} {hvd.tensor([7]):3d}" == "0.123   7"
    assert f"{hvd.tensor([1.0, 2.0])}" == str(hvd.tensor([1.0, 2.0]))
    with pytest.raises(TypeError, match=r"'.2f' formats one number, the tensor has shape \[2\]"):
        f"{hvd.tensor([1.0, 2.0]):.2f}"
