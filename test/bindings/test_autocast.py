import threading

import numpy as np
import pytest

import horovod_cpp as hvd


def values(*shape, seed=0):
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return hvd.tensor(numbers)


def test_products_are_bfloat16_within_a_region_and_losses_float32():
    x, w = values(4, 3), values(2, 3)
    with hvd.autocast():
        assert hvd.is_autocast_enabled() and hvd.autocast_dtype() == "bfloat16"
        y = hvd.linear(x, w)
        assert y.dtype == "bfloat16"
        assert hvd.mse_loss(y, values(4, 2)).dtype == "float32"
        with hvd.autocast(enabled=False):
            assert hvd.linear(x, w).dtype == "float32"
        with hvd.autocast(dtype=np.float16):
            assert hvd.linear(x, w).dtype == "float16"
    assert not hvd.is_autocast_enabled()
    assert hvd.linear(x, w).dtype == "float32"


def test_it_decorates_and_ends_when_the_function_raises():
    @hvd.autocast()
    def fail():
        assert hvd.is_autocast_enabled()
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not hvd.is_autocast_enabled()


def test_other_threads_begin_outside():
    seen = []
    with hvd.autocast():
        thread = threading.Thread(target=lambda: seen.append(hvd.is_autocast_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_other_dtypes_are_refused():
    with pytest.raises(hvd.InvalidArgumentError, match="float64"):
        with hvd.autocast(dtype="float64"):
            pass
    assert not hvd.is_autocast_enabled()


def test_a_model_trains_with_float32_parameters():
    hvd.manual_seed(1)
    model = hvd.nn.Sequential(hvd.nn.Linear(6, 16), hvd.nn.LayerNorm([16]), hvd.nn.ReLU(),
                              hvd.nn.Linear(16, 3))
    optimizer = hvd.optim.Adam(model.parameters(), lr=0.02)
    x = values(12, 6, seed=2)
    targets = hvd.tensor(np.arange(12) % 3)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        with hvd.autocast():
            loss = hvd.cross_entropy(model(x), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    assert all(p.dtype == "float32" and p.grad.dtype == "float32" for p in model.parameters())
