"""Gradients of rows: an Embedding with ``sparse`` on one and on two ranks."""

import numpy as np

import horovod_cpp as hvd
from horovod_cpp import nn, optim


def test_an_embedding_leaves_the_rows_that_were_read():
    table = nn.Embedding(5, 2, sparse=True)
    hvd.sum(table(hvd.tensor([3, 1, 3]))).backward()
    gradient = hvd.row_gradient(table.weight)
    assert gradient.rows.tolist() == [1, 3]
    assert gradient.values.tolist() == [[1, 1], [2, 2]]
    before = table.weight.numpy().copy()
    optim.SGD([table.weight], lr=0.5).step()
    np.testing.assert_allclose(before - table.weight.numpy(),
                               [[0, 0], [0.5, 0.5], [0, 0], [1, 1], [0, 0]], rtol=1e-6)
    assert table.weight.grad.tolist()[3] == [2, 2]
    assert hvd.row_gradient(table.weight) is None


def test_rows_of_two_ranks_are_averaged(ranks):
    ranks.check("""
mine = hvd.RowGradient(hvd.tensor([4, rank]), hvd.tensor([[1.0, 2.0], [4.0, 4.0]]))
average = hvd.sparse_allreduce(mine, name="rows")
assert average.rows.tolist() == [0, 1, 4]
assert average.values.tolist() == [[2, 2], [2, 2], [1, 2]]
handle = hvd.sparse_allreduce_async(mine, op=hvd.Sum)
assert hvd.synchronize(handle).values.tolist() == [[4, 4], [4, 4], [2, 4]]
again = handle.synchronize()  # which does not add them up again
assert np.shares_memory(again.values.numpy(), handle.synchronize().values.numpy())
with pytest.raises(hvd.InvalidArgumentError, match="Max"):
    hvd.sparse_allreduce(mine, op=hvd.Max)
""")


def test_a_distributed_optimizer_keeps_rows_unless_told_otherwise(ranks):
    ranks.check("""
from horovod_cpp import nn, optim
weights = []
for sparse_as_dense in (False, True):
    hvd.manual_seed(3)
    table = nn.Embedding(6, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(optim.SGD([table.weight], lr=0.5),
                                         [("table", table.weight)],
                                         sparse_as_dense=sparse_as_dense)
    for step in range(3):
        optimizer.zero_grad()
        hvd.sum(table(hvd.tensor([rank + step, 5]))).backward()
        optimizer.synchronize()
        assert (hvd.row_gradient(table.weight) is None) == sparse_as_dense
        optimizer.step()
    weights.append(table.weight.numpy().copy())
assert (weights[0] == weights[1]).all()
assert (hvd.broadcast(weights[0], 0) == weights[0]).all()
""")
