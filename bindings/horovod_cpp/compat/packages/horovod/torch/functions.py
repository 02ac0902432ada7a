"""horovod.torch.functions"""

from typing import Any

import torch

from horovod_cpp import global_process_set as _global_process_set
from horovod_cpp.torch import allgather_object, broadcast_object, broadcast_parameters
from horovod_cpp.torch.state import broadcast_optimizer_state as _broadcast_optimizer_state

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state",
           "broadcast_parameters"]


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0,
                              model: torch.nn.Module | None = None,
                              process_set: Any = _global_process_set) -> None:
    """``horovod_cpp.torch.broadcast_optimizer_state``; and as with Horovod, parameters of an
    optimizer without state have zero gradients afterwards, on which scripts have come to rely.

    They are sparse for SparseAdam and for the embeddings of ``model`` that have sparse gradients.
    """
    is_new = not optimizer.state
    _broadcast_optimizer_state(optimizer, root_rank, model, process_set)
    if not is_new:
        return
    sparse = {id(module.weight) for module in (model.modules() if model is not None else ())
              if getattr(module, "sparse", False)}
    for parameter in [each for group in optimizer.param_groups for each in group["params"]]:
        if not parameter.requires_grad:
            continue
        gradient = torch.zeros(parameter.shape, dtype=parameter.dtype, device=parameter.device)
        if isinstance(optimizer, torch.optim.SparseAdam) or id(parameter) in sparse:
            gradient = gradient.to_sparse(1)
        parameter.grad = gradient
