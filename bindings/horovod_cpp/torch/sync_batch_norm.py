"""Batch normalisation over the batches of all ranks."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from horovod_cpp import _native
from horovod_cpp._native import ProcessSet, Sum, global_process_set
from horovod_cpp.torch.collectives import allgather, allreduce
from horovod_cpp.torch.forms import eager


def _wide(dtype: torch.dtype) -> torch.dtype:
    """What statistics are computed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _combined(count: int, mean: torch.Tensor, square: torch.Tensor, name: str,
              process_set: ProcessSet) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Count, mean and variance of the joined batch from those of each rank.

    ``square`` is the sum of squared distances from the mean (Chan et al., "Updating formulae and a
    pairwise algorithm for computing sample variances", 1979), which does not cancel as sums of
    squares do.
    """
    own = torch.cat([mean.new_tensor([count]), mean, square])[None]
    counts, means, squares = allgather(own, name, process_set).split(
        [1, len(mean), len(mean)], dim=1)
    total = counts.sum()
    mean = (means * counts).sum(0) / total
    square = (squares + counts * (means - mean) ** 2).sum(0)
    return float(total), mean, square / total


class _Normalize(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    """``x`` [n, channels, ...] with the statistics of all ranks; ``moved`` hears of them."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None,
                eps: float, layer: str, name: str, process_set: ProcessSet,
                moved: Callable[[float, torch.Tensor, torch.Tensor], None]) -> torch.Tensor:
        channels = x.shape[1]
        rows = x.to(_wide(x.dtype)).transpose(0, 1).reshape(channels, -1)
        count = rows.shape[1]
        own = rows.mean(1) if count else rows.new_zeros(channels)
        square = ((rows - own[:, None]) ** 2).sum(1)
        total, mean, variance = _combined(count, own, square, f"{name}.forward", process_set)
        if total < 2:
            raise _native.InvalidArgumentError(
                f"{layer}: input {list(x.shape)}: all {process_set.size()} ranks together have "
                "fewer than two values per channel")
        moved(total, mean, variance)
        scale = torch.rsqrt(variance + eps)
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.layer, ctx.total, ctx.name, ctx.process_set = layer, total, name, process_set
        along = _shape_along(x)
        result = (x - mean.view(along)) * scale.view(along)
        if weight is not None:
            result = result * weight.view(along)
        if bias is not None:
            result = result + bias.view(along)
        return result.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (*_Gradients.apply(gradient, *ctx.saved_tensors, ctx), *[None] * 6)


class _Gradients(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    """Those of a _Normalize's ``x``, ``weight`` and ``bias``."""

    @staticmethod
    def forward(ctx: Any, gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None,
                mean: torch.Tensor, scale: torch.Tensor, of: Any
                ) -> tuple[torch.Tensor | None, ...]:
        ctx.layer = of.layer
        along, axes = _shape_along(x), [axis for axis in range(x.dim()) if axis != 1]
        wide = gradient.to(mean.dtype)
        normal = (x - mean.view(along)) * scale.view(along)
        sums = torch.stack([wide.sum(axes), (wide * normal).sum(axes)])
        needs_input, needs_weight, needs_bias = of.needs_input_grad[:3]
        for_weight = sums[1] if needs_weight else None  # PyTorch converts it to the weight's dtype
        for_bias = sums[0] if needs_bias else None
        for_input = None
        if needs_input:
            means = allreduce(sums, op=Sum, name=f"{of.name}.backward",
                              process_set=of.process_set) / of.total
            factor = scale if weight is None else scale * weight
            for_input = ((wide - means[0].view(along) - normal * means[1].view(along))
                         * factor.view(along)).to(x.dtype)
        return for_input, for_weight, for_bias

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        raise _native.InvalidArgumentError(
            f"backward of {ctx.layer} cannot be differentiated: it has no second derivative")


def _shape_along(x: torch.Tensor) -> list[int]:
    return [1, -1] + [1] * (x.dim() - 2)


class SyncBatchNorm(_BatchNorm):  # type: ignore[misc]  # torch may be missing
    """BatchNorm whose statistics in training are those of all ranks' batches together.

    On any number of axes from 2 on: [n, channels, ...]. The batches of ranks may differ in size and
    be empty; half types are normalised in float32. Every rank makes the same modules in the same
    order and runs them in training mode together. Evaluation is that of BatchNorm on this rank
    alone, also with ``track_running_stats=False``, where it takes its own batch's statistics.

    Args:
        num_features, eps, momentum, affine, track_running_stats: those of torch.nn.BatchNorm2d.
        process_set: the ranks that are taken together; a rank outside normalises on its own.

    Raises:
        InvalidArgumentError: from the call, when all ranks together have fewer than two values per
            channel.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
                 affine: bool = True, track_running_stats: bool = True, *,
                 process_set: ProcessSet = global_process_set) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._process_set = process_set
        self._path = ""  # in the module that was converted
        self._name: str | None = None  # until the first call, which the ranks make in one order

    def _check_input_dim(self, x: torch.Tensor) -> None:
        if x.dim() < 2:
            raise _native.InvalidArgumentError(
                f"{self._layer()}: input {list(x.shape)} has no axis of channels; expected [n, "
                f"{self.num_features}, ...]")
        if x.shape[1] != self.num_features:
            raise _native.InvalidArgumentError(
                f"{self._layer()}: input {list(x.shape)} has {x.shape[1]} channels, not "
                f"{self.num_features}")

    def _layer(self) -> str:
        """What errors call it."""
        return f"SyncBatchNorm '{self._path}'" if self._path else "SyncBatchNorm"

    @eager
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(x)
        ranks = self._process_set
        if not self.training or _native.size() == 1 or not ranks.included() or ranks.size() == 1:
            return super().forward(x)
        self._name = self._name or "".join([
            "sync_batch_norm", self._path and f".{self._path}",
            _native._unique_suffix("layer", ranks)])
        return _Normalize.apply(x, self.weight, self.bias, self.eps, self._layer(), self._name,
                                ranks, self._move)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_name": None}  # a copy meets what is in its place on other ranks

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _move(self, total: float, mean: torch.Tensor, variance: torch.Tensor) -> None:
        if self.running_mean is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = self.momentum
        if momentum is None:  # the mean over all batches
            momentum = 1.0 / float(self.num_batches_tracked)
        dtype = self.running_mean.dtype
        self.running_mean.lerp_(mean.to(dtype), momentum)
        self.running_var.lerp_((variance * (total / (total - 1))).to(dtype), momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: torch.nn.Module,
                               process_set: ProcessSet = global_process_set) -> torch.nn.Module:
        """The module with a SyncBatchNorm, of the same parameters and statistics, in the place of
        each BatchNorm in it; collective in the sense that all ranks convert the same."""
        return cls._convert(module, process_set, "")

    @classmethod
    def _convert(cls, module: torch.nn.Module, process_set: ProcessSet,
                 path: str) -> torch.nn.Module:
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            converted = cls(module.num_features, module.eps, module.momentum, module.affine,
                            module.track_running_stats, process_set=process_set)
            converted._path = path
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
            return converted.train(module.training)
        for name, child in module.named_children():
            setattr(module, name, cls._convert(child, process_set, f"{path}.{name}" if path else name))
        return module
