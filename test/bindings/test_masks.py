"""Bool masks of 0 axes: they take all of a tensor or nothing, along an axis of their own."""

import numpy as np
import pytest

import horovod_cpp as hvd


@pytest.mark.parametrize("of", [np.array, hvd.tensor])
@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("index", [
    lambda m: m, lambda m: (..., m), lambda m: (m, 0), lambda m: (1, m), lambda m: (m, ...),
    lambda m: (None, m), lambda m: (slice(1), m), lambda m: (slice(None), m, slice(2)),
    lambda m: (slice(None), slice(None), m), lambda m: (m, slice(None), 1), lambda m: (m, m),
])
def test_a_mask_of_0_axes_means_what_it_means_in_numpy(index, value, of):
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = hvd.tensor(a)
    at, there = index(of(value)), index(np.array(value))
    assert x[at].shape == a[there].shape
    np.testing.assert_array_equal(x[at].numpy(), a[there])
    x[at], a[there] = 50, 50
    np.testing.assert_array_equal(x.numpy(), a)
    assert x[at].shape == a[there].shape


def test_a_condition_on_the_whole_tensor_decides_an_assignment():
    y = hvd.tensor([1.0, 2.0, 3.0, 4.0])
    y[y.max() > 10] = 0.0
    assert y.tolist() == [1, 2, 3, 4]
    y[y.max() > 3] = hvd.tensor([5.0, 6.0, 7.0, 8.0])
    assert y.tolist() == [5, 6, 7, 8]
    y[y.max() > 10] = hvd.tensor([1.0, 2.0, 3.0, 4.0])
    assert y.tolist() == [5, 6, 7, 8]
    single = hvd.tensor(3.0)
    single[single > 4] = 0
    assert single.item() == 3
    single[single > 2] = 0
    assert single.item() == 0 and single[hvd.tensor(False)].shape == (0,)


@pytest.mark.parametrize("value", [True, False])
def test_the_gradient_goes_where_a_mask_of_0_axes_picked(value):
    x = hvd.ones(2, 3).requires_grad_()
    (x[hvd.tensor(value)] * 3).sum().backward()
    assert x.grad.tolist() == [[3.0 * value] * 3] * 2


def test_more_indices_than_axes_are_refused_beside_a_mask_of_0_axes():
    with pytest.raises(IndexError, match="3 indices for a tensor with 2 axes"):
        hvd.ones(2, 3)[hvd.tensor(True), 0, 0, 0]
    with pytest.raises(IndexError, match="index 5 is out of range for axis 1"):
        hvd.ones(2, 3)[hvd.tensor(True), 0, 5]
