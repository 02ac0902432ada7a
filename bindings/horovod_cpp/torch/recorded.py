"""Gradients of collectives."""

import torch


class _Recorded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, gradients, *tensors):
        ctx.gradients = gradients
        return tuple(run(tensors))

    @staticmethod
    def backward(ctx, *gradients):
        return (None, None, *ctx.gradients(gradients))


def recorded(run, gradients, tensors):
    """``run(tensors)``, a list of results, as one node of PyTorch's graph.

    ``gradients`` gets those of the results and returns those of the tensors. The node exists only
    where one of the tensors needs it.
    """
    if torch.is_grad_enabled() and any(
            getattr(tensor, "requires_grad", False) for tensor in tensors):
        return list(_Recorded.apply(run, gradients, *tensors))
    return run(tensors)


def name_of_gradient(name):
    """Pairs the collective of a backward pass, as ``name`` does that of the forward pass."""
    return None if name is None else f"{name}.gradient"
