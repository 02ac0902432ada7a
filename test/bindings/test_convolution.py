"""Convolutions as Python sees them; what they compute is tested in C++."""

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import nn


def test_modules_take_pytorchs_arguments_in_its_order():
    conv = nn.Conv2d(4, 6, (3, 1), (2, 1), "valid", 1, 2, False)
    assert conv.weight.shape == (6, 2, 3, 1) and conv.bias is None
    assert conv(hvd.zeros([2, 4, 9, 5])).shape == (2, 6, 4, 5)
    assert nn.Conv1d(2, 3, 4, padding="same")(hvd.zeros([1, 2, 7])).shape == (1, 3, 7)
    back = nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=(1, 0), groups=2)
    assert back.weight.shape == (4, 1, 3, 3)
    assert back(hvd.zeros([1, 4, 5, 5])).shape == (1, 2, 10, 9)


def test_functions_take_pairs_and_words():
    x = hvd.from_numpy(np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4))
    w = hvd.from_numpy(np.ones((1, 1, 1, 2), np.float32))
    np.testing.assert_array_equal(
        hvd.conv2d(x, w, stride=(2, 1)).numpy(), [[[[1, 3, 5], [17, 19, 21]]]])
    assert hvd.conv2d(x, w, padding="same").shape == (1, 1, 3, 4)
    assert hvd.conv1d(hvd.zeros([1, 2, 5]), hvd.zeros([1, 2, 3])).shape == (1, 1, 3)
    assert hvd.conv_transpose2d(x, w, None, 2).shape == (1, 1, 5, 8)


def test_bad_shapes_raise_naming_the_function_and_both():
    with pytest.raises(hvd.InvalidArgumentError, match=r"conv2d: input \[1, 2, 4, 4\], weight \[1, 3, 3, 3\]"):
        hvd.conv2d(hvd.zeros([1, 2, 4, 4]), hvd.zeros([1, 3, 3, 3]))
    with pytest.raises(hvd.InvalidArgumentError, match="Conv2d: groups=0"):
        nn.Conv2d(2, 2, 1, groups=0)
    with pytest.raises(hvd.InvalidArgumentError, match="'full'"):
        nn.Conv2d(2, 2, 1, padding="full")
