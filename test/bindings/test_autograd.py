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


def test_functions_want_tensors():
    with pytest.raises(TypeError):
        hvd.relu([1.0])


class Cube(hvd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        assert not hvd.grad_enabled()
        assert ctx.needs_input_grad == (True, False)
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * x * factor

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * x * x * (3 * ctx.factor), None


def test_a_custom_function_is_differentiated_by_its_backward():
    x = hvd.tensor([1.0, 2.0], dtype="float64", requires_grad=True)
    y = Cube.apply(x, 2.0)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 24.0]
    hvd.gradcheck(lambda inputs: Cube.apply(inputs[0], 2.0), [x])
    hvd.gradgradcheck(lambda inputs: Cube.apply(inputs[0], 2.0), [x])


def test_a_custom_function_that_is_wrong_is_named():
    class Wrong(hvd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    with pytest.raises(hvd.InvalidArgumentError, match="Wrong.*1 gradients.*2"):
        Wrong.apply(leaf(1.0), leaf(1.0)).backward()
    Wrong.backward = lambda ctx, gradient: (gradient.sum(), None)
    with pytest.raises(hvd.InvalidArgumentError,
                       match=r"of Wrong gave a gradient \[\] float32 for input 0, which is \[3\]"):
        Wrong.apply(leaf(1.0, 2.0, 3.0), hvd.ones(3)).sum().backward()
    with pytest.raises(hvd.InvalidArgumentError, match="gradcheck"):
        hvd.gradcheck(lambda inputs: inputs[0] * inputs[0].detach(),
                      [hvd.tensor([1.0], dtype="float64", requires_grad=True)])


def test_what_a_custom_backward_raises_comes_out():
    class Refusing(hvd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise KeyError("not today")

    with pytest.raises(KeyError, match="not today"):
        Refusing.apply(leaf(1.0)).backward()


def test_a_custom_function_and_its_tensors_are_let_go():
    class Saving(hvd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone()
            ctx.save_for_backward(y)
            ctx.marker = Marker()
            gone.append(weakref.ref(ctx.marker))
            return y

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0]

    class Marker:
        pass

    gone = []
    Saving.apply(leaf(3.0)).backward()
    gc.collect()
    assert gone[0]() is None


def test_grad_gives_gradients_and_second_ones():
    x = leaf(3.0)
    y = x * x * x
    first, = hvd.grad(y, x, create_graph=True)
    assert first.tolist() == [27.0]
    assert x.grad is None
    second, nothing = hvd.grad([first], [x, leaf(1.0)])
    assert second.tolist() == [18.0]
    assert nothing is None
    for given in (np.float32([2.0]), [np.float32([2.0])]):
        assert hvd.grad(x * 3.0, x, given)[0].tolist() == [6.0]


def test_backward_passes_twice_only_where_the_graph_is_retained():
    x = leaf(3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [12.0]
    with pytest.raises(hvd.InvalidArgumentError, match="freed"):
        y.backward()


def test_recording_is_switched_on_and_off():
    x = leaf(1.0)
    with hvd.no_grad():
        with hvd.enable_grad():
            assert (x * 2).requires_grad
        with hvd.set_grad_enabled(True):
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    hvd.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    hvd.set_grad_enabled(True)

    @hvd.enable_grad()
    def recorded():
        return x * 2

    with hvd.no_grad():
        assert recorded().requires_grad


def test_anomaly_mode_names_the_operation_that_gave_a_nan():
    x = leaf(0.0)
    y = hvd.sqrt(x) * 0
    with hvd.set_detect_anomaly():
        assert hvd.anomaly_enabled()
        with pytest.raises(hvd.InvalidArgumentError, match="sqrt.*NaN"):
            y.backward(retain_graph=True)
    assert not hvd.anomaly_enabled()
    y.backward()


def test_arithmetic_in_place_is_recorded_on_results_and_refused_on_leaves():
    x = leaf(2.0)
    y = x * 3
    y.add_(x).mul_(2.0)
    y.mul_(x)
    y.backward()
    assert x.grad.tolist() == [32.0]  # d(8 x^2)
    with pytest.raises(hvd.InvalidArgumentError, match="leaf"):
        x.add_(hvd.ones((1,)))
