import gc
import weakref

import numpy as np
import pytest

import horovod_cpp as hvd


def leaf(*values):
    return hvd.tensor(list(values), requires_grad=True)


def test_backward_leaves_gradients_that_add_up():
    x = leaf(1.0, 2.0)
    hvd.sum(x * x).backward()
    assert x.grad.tolist() == [2.0, 4.0]
    hvd.sum(x * x).backward()
    assert x.grad.tolist() == [4.0, 8.0]
    x.grad = None
    assert x.grad is None


def test_backward_of_many_elements_needs_a_gradient():
    x = leaf(1.0, 2.0)
    y = x * 3
    with pytest.raises(hvd.InvalidArgumentError):
        y.backward()
    y.backward(np.array([1.0, 10.0], np.float32))
    assert x.grad.tolist() == [3.0, 30.0]


def test_nothing_is_recorded_within_no_grad_and_recording_resumes_after_it():
    x = leaf(1.0)
    with hvd.no_grad():
        assert not hvd.grad_enabled()
        with hvd.no_grad():
            pass
        assert not hvd.grad_enabled()
        assert not (x * 2).requires_grad
    assert hvd.grad_enabled()
    assert (x * 2).requires_grad


def test_no_grad_decorates_and_ends_when_the_function_raises():
    @hvd.no_grad()
    def fail():
        assert not hvd.grad_enabled()
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert hvd.grad_enabled()


def test_requires_grad_is_for_floating_leaves():
    x = leaf(1.0)
    assert x.is_leaf and x.requires_grad
    assert not (x * 2).is_leaf
    assert not x.detach().requires_grad
    with pytest.raises(hvd.InvalidArgumentError):
        hvd.tensor([1]).requires_grad = True


def test_hooks_see_the_full_gradient_in_order_and_can_be_removed():
    x = leaf(2.0)
    seen = []
    remove = x.register_hook(lambda t: seen.append(("first", t.grad.tolist())))
    x.register_hook(lambda t: seen.append(("second", t.is_same(x))))
    hvd.sum(x * x + x).backward()
    assert seen == [("first", [5.0]), ("second", True)]
    remove()
    hvd.sum(x).backward()
    assert [name for name, _ in seen] == ["first", "second", "second"]


def test_what_a_hook_raises_comes_out_of_backward():
    x = leaf(2.0)

    def refuse(_):
        raise KeyError("not today")

    x.register_hook(refuse)
    with pytest.raises(KeyError, match="not today"):
        hvd.sum(x).backward()


def test_a_removed_hook_is_let_go():
    class Callable:
        def __call__(self, _):
            pass

    x = leaf(1.0)
    hook = Callable()
    gone = weakref.ref(hook)
    remove = x.register_hook(hook)
    del hook
    assert gone() is not None
    remove()
    del remove
    gc.collect()
    assert gone() is None


def test_a_wrapped_array_lives_as_long_as_the_graph_and_no_longer():
    class Array(np.ndarray):
        pass

    array = np.ones(3, np.float32).view(Array)
    gone = weakref.ref(array)
    product = leaf(1.0, 2.0, 3.0) * hvd.from_numpy(array)
    del array
    assert gone() is not None
    hvd.sum(product).backward()
    del product
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh", "sigmoid", "relu", "neg"])
def test_elementwise_functions_match_numpy(name):
    reference = {
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)), "relu": lambda v: np.maximum(v, 0),
        "neg": np.negative,
    }.get(name) or getattr(np, name)
    values = np.array([0.25, 1.0, 2.0])
    np.testing.assert_allclose(getattr(hvd, name)(hvd.tensor(values)).numpy(), reference(values),
                               rtol=1e-12)


def test_reductions_take_axes():
    values = np.arange(6.0).reshape(2, 3)
    x = hvd.tensor(values)
    assert hvd.sum(x).item() == 15
    assert hvd.mean(x, axes=[0]).tolist() == [1.5, 2.5, 3.5]
    assert hvd.sum(x, axes=[1], keepdim=True).shape == (2, 1)
    assert hvd.max(x).item() == 5
    assert hvd.argmax(x, 1).tolist() == [2, 2]
    assert hvd.argmax(x, 1).dtype == "int64"
    np.testing.assert_allclose(hvd.sum(hvd.softmax(x, 1), axes=[1]).numpy(), 1, rtol=1e-12)
    assert hvd.concat([x, x], 0).shape == (4, 3)
    assert hvd.stack([x, x], 0).shape == (2, 2, 3)


def test_functions_want_tensors():
    with pytest.raises(TypeError):
        hvd.relu([1.0])
