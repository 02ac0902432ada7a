"""Six ways to train one model on several ranks, for cifar_vgg11.py. All compute the same."""

import numpy as np

import horovod_cpp as hvd

METHODS = ("gather", "p2p", "allreduce", "ddp", "optimizer", "dp")


def by_gather(name, gradient):
    """Rank 0 gathers the gradients of all ranks, averages them and scatters the result."""
    everyone = hvd.gather(gradient, root_rank=0, name=name)
    averages = gradient  # elsewhere this tells the shape only
    if hvd.rank() == 0:
        mean = everyone.mean(axis=0, dtype=np.float32, keepdims=True)
        averages = np.repeat(mean, hvd.size(), axis=0)
    return hvd.scatter(averages, root_rank=0, name=name)


def by_exchange(name, gradient):
    """Each rank sends its gradient to all others and adds up what it gets, in rank order."""
    gradients = [gradient if rank == hvd.rank() else np.empty_like(gradient)
                 for rank in range(hvd.size())]
    others = [rank for rank in range(hvd.size()) if rank != hvd.rank()]
    transfers = [hvd.irecv(gradients[rank], rank) for rank in others]
    transfers += [hvd.isend(gradient, rank) for rank in others]
    for transfer in transfers:
        hvd.synchronize(transfer)
    return sum(gradients) / np.float32(hvd.size())


def by_allreduce(name, gradient):
    """One allreduce a gradient."""
    return hvd.allreduce(gradient, name=name)


def average_with(method, module):
    """A function that puts every gradient through ``method``, as one row."""
    def average():
        for name, param in module.named_parameters():
            row = np.ascontiguousarray(param.grad.numpy()).reshape(1, -1)
            param.grad = hvd.tensor(method(name, row).reshape(param.shape))

    return average


def make_training(method, module, lr, replicas):
    """``module`` with an optimizer, by one of METHODS; every rank gets rank 0's parameters.

    Returns:
        (what is called, the optimizer, what averages gradients between backward() and step()).
    """
    model, average = module, lambda: None
    if method == "dp":
        model = hvd.DataParallel(module, replicas)
    elif method == "ddp":
        model = hvd.DistributedDataParallel(module)
    else:
        hvd.broadcast_parameters(module.state_dict())
    optimizer = hvd.optim.SGD(module.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    if method == "optimizer":
        optimizer = hvd.DistributedOptimizer(optimizer, module.named_parameters())
    by_hand = {"gather": by_gather, "p2p": by_exchange, "allreduce": by_allreduce}
    if method in by_hand:
        average = average_with(by_hand[method], module)
    return model, optimizer, average
