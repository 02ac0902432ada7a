"""Where the elements of a tensor lie changes no result."""

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import nn
from horovod_cpp.nn import functional as F


@pytest.mark.parametrize("loss", [F.cross_entropy, nn.CrossEntropyLoss(), F.nll_loss, nn.NLLLoss()])
def test_a_column_is_one_example_of_a_loss(loss):
    a = hvd.tensor([[-8.0, 9.0], [-1.0, 8.0], [-4.0, 7.0]], requires_grad=True)
    b = hvd.tensor(a.numpy()[:, 0].copy(), requires_grad=True)
    results = [loss(a[:, 0], hvd.tensor(2)), loss(b, hvd.tensor(2))]
    assert results[0].item() == results[1].item()
    for result in results:
        result.backward()
    np.testing.assert_array_equal(a.grad.numpy()[:, 0], b.grad.numpy())
    assert not a.grad.numpy()[:, 1].any()


def test_a_loss_of_an_expanded_example_reads_nothing_else():
    one = hvd.tensor([1.0]).expand(1000)
    assert F.cross_entropy(one, hvd.tensor(999)).item() == pytest.approx(np.log(1000), rel=1e-6)


@pytest.mark.parametrize("write", [
    lambda t: t.scatter_(0, hvd.tensor([0]), hvd.ones(1)),
    lambda t: t.scatter_add_(0, hvd.tensor([0, 2]), hvd.ones(2)),
    lambda t: t.__setitem__(hvd.tensor([0, 2]), 1.0), lambda t: t.__setitem__(slice(0, 2), 1.0),
    lambda t: t.__setitem__(hvd.tensor([True, False, True]), 1.0), lambda t: t.add_(hvd.ones(3)),
    lambda t: nn.init.uniform_(t), lambda t: nn.init.zeros_(t), lambda t: t.fill_(1.0),
    lambda t: F.batch_norm(hvd.rand(4, 3), t, hvd.ones(3), training=True),
    lambda t: F.batch_norm(hvd.rand(4, 3), hvd.ones(3), t, training=True),
])
def test_nothing_is_written_into_an_expanded_tensor(write):
    t = hvd.zeros(1).expand(3)
    with pytest.raises(hvd.InvalidArgumentError, match="expanded.*clone"):
        write(t)
    assert t.tolist() == [0, 0, 0]
