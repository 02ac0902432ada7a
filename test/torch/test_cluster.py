"""PyTorch on ranks that stay alive between calls."""

import os
import signal

import pytest

import horovod_cpp


def train():
    import torch

    import horovod_cpp.torch as hvd

    model = torch.nn.Sequential(torch.nn.Linear(2, 3), hvd.SyncBatchNorm(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5),
                                         model.named_parameters())
    hvd.broadcast_parameters(model.state_dict())
    for _ in range(2):
        optimizer.zero_grad()
        (model(torch.randn(4, 2)) ** 3).sum().backward()
        optimizer.step()
    return [parameter.tolist() for parameter in model.parameters()]


def die():
    if horovod_cpp.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def test_models_and_optimizers_are_made_again_after_a_rank_was_replaced():
    with horovod_cpp.Cluster(np=2) as cluster:
        for _ in range(2):
            first, second = cluster.run(train)
            assert first == second
            with pytest.raises(horovod_cpp.RankError, match="SIGKILL"):
                cluster.run(die)
        first, second = cluster.run(train)
        assert first == second
