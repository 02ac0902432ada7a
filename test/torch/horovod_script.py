"""Not a line of this knows of horovod_cpp: what Horovod's users run, on data of its own."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import horovod
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.compression import Compression
from horovod.torch.mpi_ops import is_homogeneous


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--fp16-allreduce", action="store_true")
    return parser.parse_args()


def dataset():
    """Whether the sum of five numbers is above 0."""
    x = torch.randn(512, 5, generator=torch.Generator().manual_seed(1))
    return TensorDataset(x, (x.sum(1) > 0).long())


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


def main():
    args = parse()
    hvd.init()
    torch.manual_seed(42 + hvd.rank())
    torch.set_num_threads(1)
    assert tuple(map(int, horovod.__version__.split("+")[0].split("."))) >= (0, 28)
    assert issubclass(HorovodInternalError, RuntimeError) and is_homogeneous()

    data = dataset()
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    # Workers start as new processes, which import this file: Horovod's advice where there is a
    # network that does not survive a fork.
    loader = DataLoader(data, batch_size=16, sampler=sampler, num_workers=1,
                        multiprocessing_context="forkserver", persistent_workers=True)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size(), momentum=0.5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(),
        compression=Compression.fp16 if args.fp16_allreduce else Compression.none)

    for epoch in range(hvd.broadcast_object(args.epochs, root_rank=0)):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    hits = (model(data.tensors[0]).argmax(1) == data.tensors[1]).float().mean().item()
    accuracy = metric_average(hits, "avg_accuracy")
    assert len(set(hvd.allgather_object(hits))) == 1
    if hvd.rank() == 0:
        print(f"accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
